"""How bright a tile is: what the radiance floor and the scale of its bands hang on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.prepare.quality import UNUSABLE, pixel_quality
from flame.prepare.settings import PixelSettings

__all__ = ["PixelRange", "find_floor", "lower_median"]


@dataclass(frozen=True, eq=False)
class PixelRange:
    """What a pass over a tile knows of its pixels.

    Attributes:
        lowest, highest: Least and greatest radiance of each pixel, NaN where a band is.
        sums: Sum over the bands of the pixels of every so many rows, as the settings have their grid; None: not known.
    """

    lowest: Float32[np.ndarray, "row col"]
    highest: Float32[np.ndarray, "row col"]
    sums: Float32[np.ndarray, "grid col"] | None = None

    def floor(self, bands: int, valid: Bool[np.ndarray, "row col"], settings: PixelSettings) -> float | None:
        """The floor of `find_floor`; None if that takes another look at the tile."""
        if self.sums is None:
            return None
        step = slice(None, None, settings.level_step)
        low, high, known = (image[step, step] for image in (self.lowest, self.highest, valid))
        quality = pixel_quality(low, high, known, settings.saturation_radiance, 0.0)
        seen = self.sums[:, step][(quality & UNUSABLE) == 0]
        return _share_of(settings, seen / np.float32(bands)) if seen.size else None


def _share_of(settings: PixelSettings, means: Float32[np.ndarray, " pixel"]) -> float:
    return settings.floor_share * max(float(lower_median(means)), 1e-9)


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
            floor = _share_of(settings, seen.mean(axis=0))
            return floor, np.maximum(seen.mean(axis=1, dtype=np.float64), floor)
    return settings.floor_share, np.ones(len(radiance))


def lower_median(values: Float32[np.ndarray, ...]) -> Float32[np.ndarray, ""]:
    """The median, of an even number the lower of the two in the middle."""
    middle = (values.size - 1) // 2
    return np.asarray(np.partition(values, middle, axis=None)[middle])
