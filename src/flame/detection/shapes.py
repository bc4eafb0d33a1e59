"""What is too long and thin to be a plume: a road, a ditch, a detector column that is off."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int
from scipy import ndimage

__all__ = ["MOST_ELONGATED", "are_lines", "box_around", "without_lines"]

MOST_ELONGATED = 12.0
"""Length over width of a plume at most. None of 1,777 outlines that reviewers drew in EMIT scenes exceeds it, two
exceed 10."""

_REACH_PX = 5
"""Pieces at most twice this apart are judged together: a road is rarely found in one piece. The same outlines, joined
so, exceed the bound in no scene either."""

_PIXEL = 1.0 / 12.0
"""Variance along each axis of a pixel's own area, which is a square."""


def box_around(mask: Bool[np.ndarray, "row col"]) -> tuple[slice, slice]:
    """The rows and columns from the first to the last pixel of a mask: most of a scene holds no plume."""
    rows, cols = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not rows.size:
        return slice(0, 0), slice(0, 0)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(cols[0]), int(cols[-1]) + 1)


def are_lines(pieces: Int[np.ndarray, "row col"], count: int) -> Bool[np.ndarray, " number"]:
    """Whether each piece of a labelled image is more than `MOST_ELONGATED` times as long as wide.

    Length and width are the standard deviations of its area along its principal axes.

    Args:
        pieces: Number of the piece that each pixel belongs to, 0 for none.
        count: How many pieces there are.
    """
    rows, cols = np.nonzero(pieces)
    numbers = pieces[rows, cols]

    def mean(values: np.ndarray) -> np.ndarray:
        return np.bincount(numbers, values, count + 1) / pixels

    pixels = np.maximum(1, np.bincount(numbers, minlength=count + 1))
    down, across = mean(rows), mean(cols)
    tall = mean(np.square(rows - down[numbers])) + _PIXEL
    wide = mean(np.square(cols - across[numbers])) + _PIXEL
    both = mean((rows - down[numbers]) * (cols - across[numbers]))
    middle = 0.5 * (tall + wide)
    apart = np.sqrt(np.square(0.5 * (tall - wide)) + np.square(both))
    # Rectangles of just that shape are plumes, whatever the last digit is.
    return np.asarray(middle + apart > (1 + 1e-9) * MOST_ELONGATED**2 * (middle - apart))


def without_lines(mask: Bool[np.ndarray, "row col"]) -> Bool[np.ndarray, "row col"]:
    """A mask without what is too long and thin for a plume, in one piece or in several that lie near each other."""
    box, kept = box_around(mask), mask.copy()
    part = kept[box]
    for reach in (0, _REACH_PX):
        wider = ndimage.maximum_filter(part, 2 * reach + 1, mode="constant") if reach else part
        near, count = ndimage.label(wider, np.ones((3, 3)))
        groups = np.where(part, near, 0)
        part &= ~are_lines(groups, count)[groups]
    return kept
