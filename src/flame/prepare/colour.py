"""RGB as a network takes it: divided by a constant, or relative to the tile."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from flame.prepare.fill import fill_unusable
from flame.prepare.level import find_floor
from flame.prepare.quality import Quality
from flame.prepare.settings import PrepareSettings

__all__ = ["colour_quality", "normalised_colour"]


def colour_quality(rgb: Float32[np.ndarray, "3 row col"] | None) -> UInt8[np.ndarray, ...]:
    """Quality bits for a model that takes RGB: it cannot judge pixels without."""
    if rgb is None:
        return np.array(Quality.INVALID, dtype=np.uint8)
    bad: np.ndarray = ~np.isfinite(rgb).all(axis=0)
    return np.asarray(bad.view(np.uint8) * np.uint8(Quality.NOT_FINITE))


def normalised_colour(
    rgb: Float32[np.ndarray, "3 row col"], usable: Bool[np.ndarray, "tile_row tile_col"], settings: PrepareSettings
) -> Float32[np.ndarray, "3 tile_row tile_col"]:
    """Normalised RGB of the whole tile, unusable pixels filled.

    Args:
        rgb: The tile's colours, of a smaller scene only as far as it goes.
        usable: Usable pixels of the whole tile.
        settings: Which normalisation.
    """
    colour = np.zeros((3, *usable.shape), dtype=np.float32)
    within = colour[:, : rgb.shape[1], : rgb.shape[2]]
    if settings.rgb == "fixed":
        np.divide(rgb, np.float32(settings.rgb_scale), out=within)
        fill_unusable(colour, usable, settings.pixels.fill_block)
        return colour
    floor, _ = find_floor(rgb, usable[: rgb.shape[1], : rgb.shape[2]], settings.pixels)
    with np.errstate(invalid="ignore"):
        np.log(np.maximum(rgb, np.float32(floor)), out=within)
    fill_unusable(colour, usable, settings.pixels.fill_block)
    colour -= colour.mean(axis=(1, 2), keepdims=True, dtype=np.float64).astype(np.float32)
    return colour
