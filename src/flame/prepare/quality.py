"""What is wrong with pixels and tiles, as bits that travel with every detection."""

from __future__ import annotations

from enum import IntFlag

import numpy as np
from jaxtyping import Bool, Float32, UInt8

__all__ = ["UNUSABLE", "Quality", "pixel_quality"]

_FILL_BELOW = -900.0


class Quality(IntFlag):
    """Bits of the quality map (a pixel) and of tile reports (any of its pixels, or the tile as a whole)."""

    GOOD = 0
    INVALID = 1
    """Marked invalid by the reader, or padding beyond the scene."""
    NOT_FINITE = 2
    """NaN or infinity in a band."""
    NO_SIGNAL = 4
    """No band above zero, or a fill value such as -9999."""
    SATURATED = 8
    """A band at or above the saturation radiance."""
    DARK = 16
    """A band below the radiance floor; the pixel is used, with that band at the floor."""
    TOO_FEW = 32
    """The tile has too few usable pixels to be judged; its mask is empty."""
    FAILED = 64
    """The tile's inference failed; its mask is empty."""


UNUSABLE = Quality.INVALID | Quality.NOT_FINITE | Quality.NO_SIGNAL | Quality.SATURATED
"""A pixel with any of these takes no part: it is never plume and has no influence on others."""


def pixel_quality(
    lowest: Float32[np.ndarray, "row col"],
    highest: Float32[np.ndarray, "row col"],
    valid: Bool[np.ndarray, "row col"],
    saturation: float,
    floor: float,
) -> UInt8[np.ndarray, "row col"]:
    """Quality of pixels from the least and greatest radiance of their bands (NaN if any band is NaN).

    Args:
        lowest: Least radiance of each pixel.
        highest: Greatest radiance of each pixel.
        valid: Pixels that may be used.
        saturation: Radiance from which on the detector is saturated.
        floor: Radiance below which a band is dark.
    """
    finite = np.isfinite(lowest) & np.isfinite(highest)
    quality = np.zeros(valid.shape, dtype=np.uint8)
    for bit, where in (
        (Quality.INVALID, ~valid),
        (Quality.NOT_FINITE, ~finite),
        (Quality.NO_SIGNAL, finite & ((highest <= 0) | (lowest < _FILL_BELOW))),
        (Quality.SATURATED, finite & (highest >= saturation)),
        (Quality.DARK, finite & (lowest < floor)),
    ):
        quality |= where.view(np.uint8) * np.uint8(bit)
    return quality
