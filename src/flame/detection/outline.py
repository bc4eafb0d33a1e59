"""Outlines of masks along pixel edges: exact polygons, nothing smoothed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from scipy import ndimage

__all__ = ["PixelPolygon", "outline"]

Corner = tuple[int, int]
_RIGHT_TURN = {(0, 1): (1, 0), (1, 0): (0, -1), (0, -1): (-1, 0), (-1, 0): (0, 1)}


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
    padded = np.pad(part, 1)
    leaving: dict[Corner, list[Corner]] = {}
    for beyond, corner, step in (
        ((-1, 0), (0, 0), (0, 1)),  # top side of a pixel, walked to the right
        ((0, 1), (0, 1), (1, 0)),  # right side, downwards
        ((1, 0), (1, 1), (0, -1)),  # bottom side, to the left
        ((0, -1), (1, 0), (-1, 0)),  # left side, upwards
    ):
        outside = ~np.roll(padded, (-beyond[0], -beyond[1]), axis=(0, 1))
        for row, col in np.argwhere(padded & outside) - 1 + np.array(corner):
            leaving.setdefault((int(row), int(col)), []).append(step)
    rings = []
    while leaving:
        rings.append(_ring(leaving))
    # Clockwise rings have a positive signed area here; a part connected along sides has exactly one.
    exterior = next(ring for ring in rings if _signed_area(ring) > 0)
    return PixelPolygon(exterior, tuple(ring for ring in rings if ring is not exterior))


def _ring(leaving: dict[Corner, list[Corner]]) -> Int[np.ndarray, "corner 2"]:
    """Takes one closed walk out of the cracks and returns its turning points."""
    start = at = min(leaving)
    step = leaving[start][0]
    corners: list[Corner] = []
    before: Corner | None = None
    while True:
        steps = leaving[at]
        # Where two cracks cross, a right turn stays with the pixel being walked around.
        step = steps[0] if len(steps) == 1 or before is None else _RIGHT_TURN[before]
        steps.remove(step)
        if not steps:
            del leaving[at]
        if step != before:
            corners.append(at)
        at = (at[0] + step[0], at[1] + step[1])
        before = step
        if at == start:
            return np.array(corners)


def _signed_area(ring: Int[np.ndarray, "corner 2"]) -> float:
    row, col = ring[:, 0], ring[:, 1]
    return float(np.sum(col * np.roll(row, -1) - np.roll(col, -1) * row)) / 2.0
