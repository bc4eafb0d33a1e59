"""Real scenes that plumes are put into: whether they are of the sensor that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flame.errors import FlameError
from flame.physics import sensor
from flame.pipeline.datasets import background_scene

__all__ = ["require_sensor"]


def require_sensor(backgrounds: Sequence[str], name: str) -> None:
    """Refuses real scenes that are not of a sensor.

    Plumes are put into a scene in its own bands: a sensor named beside it can only confirm what the scene is, and says
    whose noise to add where the scene itself does not.

    Args:
        backgrounds: Paths of the scenes.
        name: The sensor asked for.

    Raises:
        FlameError: If a scene states another sensor, or states none and its bands are not that sensor's.
    """
    nominal = sensor(name).bands.methane()
    half_step_nm = float(np.diff(nominal.centres_nm).mean()) / 2
    for path in backgrounds:
        scene = background_scene(path)
        stated, bands = scene.acquisition.sensor, scene.methane().bands
        if stated == name or (stated is None and bands.matches(nominal, half_step_nm)):
            continue
        what = f"is a scene of {stated}" if stated else f"has other bands than {name} ({bands.describe()})"
        raise FlameError(
            f"{path} {what}; plumes are put into a real scene in its own bands: leave out --sensor {name}, or give "
            f"a scene of {name}"
        )
