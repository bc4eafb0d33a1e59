"""What a report says of pixels that could not be judged."""

import numpy as np

from flame.physics import sensor
from flame.pipeline.report_words import scene_limits
from flame.plumes import SceneRecord
from flame.scene import Scene, SceneFlag


def test_only_causes_that_mask_a_pixel_are_named_as_such():
    bands = sensor("emit").bands.methane()
    flags = np.zeros((10, 10), np.uint16)
    flags[0] = int(SceneFlag.CLOUD)
    flags[5] = int(SceneFlag.INTERPOLATED)
    scene = Scene(np.ones((len(bands), 10, 10), np.float32), bands, flags == 0, None, flags=flags)
    facts = {"rows": 10, "columns": 10, "usable_pixels": 90, "pixels_flagged": {"cloud": 10, "interpolated": 10}}
    nothing = np.zeros((10, 10), np.float32)
    record = SceneRecord((), nothing, nothing, "a filter")
    (words,) = [line for line in scene_limits(scene, record, facts) if "could not be judged" in line]
    assert words.endswith("Causes: cloud 10.0 %.")
