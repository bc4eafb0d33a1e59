"""Outlines of masks along pixel edges: exact polygons, nothing smoothed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from scipy import ndimage

__all__ = ["PixelPolygon", "outline"]

_SIDES = (
    ((-1, 0), (0, 0)),  # top side of a pixel, walked to the right
    ((0, 1), (0, 1)),  # right side, downwards
    ((1, 0), (1, 1)),  # bottom side, to the left
    ((0, -1), (1, 0)),  # left side, upwards
)
"""What lies beyond each side of a pixel, and the corner where the walk along it begins; a right turn takes the next."""


@dataclass(frozen=True, eq=False)
class PixelPolygon:
    """One connected area, as closed rings of (row, col) pixel corners; the first corner is not repeated.

    Attributes:
        exterior: The outer ring, clockwise as seen in the image (rows down).
        holes: Inner rings, counter-clockwise.
    """

    exterior: Int[np.ndarray, "corner 2"]
    holes: tuple[Int[np.ndarray, "_ 2"], ...] = ()

    def shifted(self, rows: int, cols: int) -> PixelPolygon:
        """The same polygon moved."""
        by = np.array([rows, cols])
        return PixelPolygon(self.exterior + by, tuple(hole + by for hole in self.holes))


def outline(mask: Bool[np.ndarray, "row col"]) -> tuple[PixelPolygon, ...]:
    """Polygons of a mask, one for each part connected along pixel sides, the largest first."""
    parts, count = ndimage.label(mask)
    sizes = np.bincount(parts.ravel(), minlength=count + 1)[1:]
    return tuple(_polygon(parts == 1 + part) for part in np.argsort(-sizes, kind="stable"))


def _polygon(part: Bool[np.ndarray, "row col"]) -> PixelPolygon:
    """Follows the cracks between inside and outside with the inside on the right hand."""
    across = part.shape[1] + 1
    leaving, crossing = _cracks(np.pad(part, 1), across)
    rings = []
    while leaving:
        rings.append(_ring(leaving, crossing, across))
    # Clockwise rings have a positive signed area here; a part connected along sides has exactly one.
    exterior = next(ring for ring in rings if _signed_area(ring) > 0)
    return PixelPolygon(exterior, tuple(ring for ring in rings if ring is not exterior))


def _cracks(padded: Bool[np.ndarray, "row col"], across: int) -> tuple[dict[int, int], dict[int, int]]:
    """Which way a crack leaves each corner, and a second one where two cross; corners and ways are plain numbers.

    Lists and pairs, thousands for a large plume, would wake the garbage collector in flight.
    """
    inner = padded[1:-1, 1:-1]
    rows, cols = inner.shape
    leaving: dict[int, int] = {}
    crossing: dict[int, int] = {}
    for way, ((down, right), (corner_row, corner_col)) in enumerate(_SIDES):
        inside = inner & ~padded[1 + down : 1 + down + rows, 1 + right : 1 + right + cols]
        row, col = np.divmod(np.flatnonzero(inside), cols)
        for corner in ((row + corner_row) * across + col + corner_col).tolist():
            if corner in leaving:
                crossing[corner] = way
            else:
                leaving[corner] = way
    return leaving, crossing


def _ring(leaving: dict[int, int], crossing: dict[int, int], across: int) -> Int[np.ndarray, "corner 2"]:
    """Takes one closed walk out of the cracks and returns its turning points."""
    start = at = min(leaving)
    steps = (1, across, -1, -across)
    corners: list[int] = []
    before = -1
    while True:
        way, other = leaving.pop(at), crossing.pop(at, -1)
        if other >= 0:
            # Where two cracks cross, a right turn stays with the pixel being walked around.
            taken = way if before < 0 else (before + 1) % 4
            leaving[at] = other if taken == way else way
            way = taken
        if way != before:
            corners.append(at)
        at += steps[way]
        before = way
        if at == start:
            return np.stack(np.divmod(np.array(corners), across), axis=1)


def _signed_area(ring: Int[np.ndarray, "corner 2"]) -> float:
    row, col = ring[:, 0], ring[:, 1]
    return float(np.sum(col * np.roll(row, -1) - np.roll(col, -1) * row)) / 2.0
