"""The matched filter at each pixel: in standard deviations of the tile's background, and in ppm m."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32

from flame.prepare.fields.view import Field, TileView

__all__ = ["ENHANCEMENT", "MATCHED_FILTER"]


def matched_filter(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """Matched-filter response in standard deviations, compressed beyond a few: asinh."""
    return np.asarray(np.arcsinh(tile.layers.response))


def enhancement(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """Matched filter in ppm m, compressed: a plume's outline is drawn where the enhancement falls below some level."""
    return np.arcsinh(tile.layers.response * np.float32(tile.noise_ppm_m / tile.settings.faint_ppm_m))


MATCHED_FILTER = Field("matched_filter", matched_filter, 0)
ENHANCEMENT = Field("enhancement", enhancement, 5)
