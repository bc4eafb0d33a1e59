"""Turns what files use for missing data (NaN, -9999, zero padding) into the one valid mask."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32

__all__ = ["FILL_BELOW", "count_note", "find_valid"]

FILL_BELOW = -900.0
"""No sensor's noise reaches this radiance; -9999 and its resampled neighbours do."""


def find_valid(
    radiance: Float32[np.ndarray, "band row col"], rgb: Float32[np.ndarray, "3 row col"] | None = None
) -> Bool[np.ndarray, "row col"]:
    """Mask of usable pixels; whatever stands under the others is set to zero in place.

    A pixel is unusable when any band is NaN, infinite or a fill value, or when every band is zero, as in the padding
    at flight-line edges.

    Args:
        radiance: Radiance as read; changed in place.
        rgb: Red, green and blue as read; changed in place. Their fill values also make a pixel unusable.
    """
    valid = np.zeros(radiance.shape[1:], dtype=np.bool_)
    for band in radiance:
        valid |= band != 0
    for band in (*radiance, *(() if rgb is None else rgb)):
        valid &= np.isfinite(band) & (band > FILL_BELOW)
    if not valid.all():
        radiance[:, ~valid] = 0.0
        if rgb is not None:
            rgb[:, ~valid] = 0.0
    return valid


def count_note(valid: Bool[np.ndarray, "row col"]) -> dict[str, str]:
    """The entry of `Acquisition.extra` that tells how many pixels are unusable; empty when none is."""
    missing = int(valid.size - valid.sum())
    return {"invalid_pixels": str(missing)} if missing else {}
