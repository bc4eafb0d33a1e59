"""How bright a tile is: what the radiance floor and the scale of its bands hang on."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.prepare.quality import UNUSABLE, pixel_quality
from flame.prepare.settings import PixelSettings

__all__ = ["find_floor", "lower_median"]


def find_floor(
    radiance: Float32[np.ndarray, "band ring col"],
    valid: Bool[np.ndarray, "row col"],
    settings: PixelSettings,
    first: int = 0,
) -> tuple[float, Float[np.ndarray, " band"]]:
    """Radiance below which a band is dark, and the mean of each band, at least that.

    The floor is a share of the tile's level: the median over the usable pixels of a grid of their mean radiance, or
    over all pixels if the grid has no usable one.

    Args:
        radiance: A tile, or the ring of rows that holds it.
        valid: Pixels that may be used.
        settings: Share, grid, and what counts as saturated.
        first: Where in `radiance` the tile's first row stands.
    """
    for step in (settings.level_step, 1):
        down = (np.arange(0, valid.shape[0], step) + first) % radiance.shape[1]
        grid = radiance[:, down, ::step]
        with np.errstate(invalid="ignore"):
            low, high = grid.min(axis=0), grid.max(axis=0)
        quality = pixel_quality(low, high, valid[::step, ::step], settings.saturation_radiance, 0.0)
        seen = grid[:, (quality & UNUSABLE) == 0]
        if seen.size:
            floor = settings.floor_share * max(float(lower_median(seen.mean(axis=0))), 1e-9)
            return floor, np.maximum(seen.mean(axis=1, dtype=np.float64), floor)
    return settings.floor_share, np.ones(len(radiance))


def lower_median(values: Float32[np.ndarray, ...]) -> Float32[np.ndarray, ""]:
    """The median, of an even number the lower of the two in the middle."""
    middle = (values.size - 1) // 2
    return np.asarray(np.partition(values, middle, axis=None)[middle])
