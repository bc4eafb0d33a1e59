"""What a plume must stand out from around a pixel."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32
from scipy.ndimage import uniform_filter

from flame.prepare.fields.view import Field, TileView

__all__ = ["CLUTTER"]


def clutter(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """Log of the root mean square of the matched filter around a pixel, in ppm m.

    The few strongest responses are clipped; they are plumes or single false alarms, not the ground around them.
    """
    facts = tile.settings
    power = np.square(np.clip(tile.layers.response, -facts.clutter_clip, facts.clutter_clip), dtype=np.float32)
    around = uniform_filter(power, facts.clutter_window // 2 * 2 + 1, mode="nearest")
    level = np.float32(np.log(tile.noise_ppm_m / facts.faint_ppm_m))
    return np.float32(0.5) * np.log(around + np.float32(facts.tiny)) + level


CLUTTER = Field("clutter", clutter, 6)
