"""Plume objects: what is connected in a mask, with its shape and strength."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int32
from scipy import ndimage

from flame.detection.decision import EIGHT_NEIGHBOURS
from flame.detection.outline import PixelPolygon, outline
from flame.errors import FlameError

__all__ = ["Plume", "PlumeTracker", "find_plumes", "measure_plume", "plume_labels"]


@dataclass(frozen=True, eq=False)
class Plume:
    """One plume. Positions are in pixels from the scene's top left corner; a pixel's centre is at half past.

    Attributes:
        polygons: Outline along pixel edges, the largest part first.
        first_row: Bounding box, with `first_col`; `end_row` and `end_col` are exclusive.
        first_col: See `first_row`.
        end_row: See `first_row`.
        end_col: See `first_row`.
        area_px: Number of pixels.
        centroid_row: Mean row of its pixels' centres.
        centroid_col: Mean column of its pixels' centres.
        peak_row: Row of the pixel with the highest score.
        peak_col: Column of that pixel.
        peak_ppm_m: Highest score.
        mean_ppm_m: Mean score.
        integrated_ppm_m_px: Sum of the score over its pixels; times the area of a pixel it is proportional to mass.
        confidence: Mean probability over its pixels.
        cut: Whether it was ended by a limit and not by the plume itself (the edge of a stream's memory).
        parts: Fragments it was joined from, which do not touch each other, not even at a corner.
    """

    polygons: tuple[PixelPolygon, ...]
    first_row: int
    first_col: int
    end_row: int
    end_col: int
    area_px: int
    centroid_row: float
    centroid_col: float
    peak_row: int
    peak_col: int
    peak_ppm_m: float
    mean_ppm_m: float
    integrated_ppm_m_px: float
    confidence: float
    cut: bool = False
    parts: int = 1

    def shifted(self, rows: int) -> Plume:
        """The same plume, that many rows further down."""
        return replace(
            self,
            polygons=tuple(polygon.shifted(rows, 0) for polygon in self.polygons),
            first_row=self.first_row + rows,
            end_row=self.end_row + rows,
            centroid_row=self.centroid_row + rows,
            peak_row=self.peak_row + rows,
        )


def plume_labels(mask: Bool[np.ndarray, "row col"], reach_px: float = 0.0) -> Int32[np.ndarray, "row col"]:
    """The number of each pixel's plume from top to bottom, beginning with 1; 0 where there is none.

    Pixels that touch, corners included, are one plume. So are fragments whose nearest pixel centres are at most
    `reach_px` apart: a gust or a dark roof tears a plume, and a plume torn in two still has one source.

    Args:
        mask: The plumes.
        reach_px: Largest distance between pixel centres inside one plume, in pixels.
    """
    labels, count = ndimage.label(mask, EIGHT_NEIGHBOURS)
    if count < 2 or reach_px < 2.0:  # fragments are at least two pixels apart
        return np.asarray(labels, dtype=np.int32)
    from scipy.sparse import coo_array  # what only the ground needs is not loaded in flight
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    rim = np.argwhere(mask & ~ndimage.binary_erosion(mask, border_value=0))
    number = labels[rim[:, 0], rim[:, 1]] - 1
    one, other = number[cKDTree(rim).query_pairs(reach_px, output_type="ndarray")].T
    near = coo_array((np.ones(one.size, np.bool_), (one, other)), shape=(count, count))
    joined = connected_components(near, directed=False)[1]
    _, first = np.unique(joined, return_index=True)
    order = np.argsort(np.argsort(first))  # components by their topmost fragment
    return np.concatenate([[0], 1 + order[joined]]).astype(np.int32)[labels]


def find_plumes(
    mask: Bool[np.ndarray, "row col"],
    probability: Float[np.ndarray, "row col"],
    score_ppm_m: Float[np.ndarray, "row col"],
    reach_px: float = 0.0,
) -> tuple[Plume, ...]:
    """The plumes of a mask from top to bottom, in the order of `plume_labels`.

    Args:
        mask: The decision rule's mask of the whole scene (after stitching, so that a seam never cuts a plume).
        probability: Plume probability.
        score_ppm_m: Methane score.
        reach_px: Fragments nearer than this are one plume, see `plume_labels`; by default only what touches.
    """
    rows, cols = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not rows.size:
        return ()
    # Most of a scene holds no plume: only the box around all of them is looked through.
    top, left = int(rows[0]), int(cols[0])
    part = slice(top, int(rows[-1]) + 1), slice(left, int(cols[-1]) + 1)
    labels, chance, score = plume_labels(mask[part], reach_px), probability[part], score_ppm_m[part]
    return tuple(
        measure_plume(labels[box] == number, chance[box], score[box], top + box[0].start, left + box[1].start)
        for number, box in enumerate(ndimage.find_objects(labels), start=1)
    )


def measure_plume(
    inside: Bool[np.ndarray, "row col"],
    probability: Float[np.ndarray, "row col"],
    score_ppm_m: Float[np.ndarray, "row col"],
    top: int,
    left: int,
) -> Plume:
    """One plume from maps of its bounding box.

    Args:
        inside: Its pixels.
        probability: Plume probability.
        score_ppm_m: Methane score.
        top: Row of the box in the scene.
        left: Column of the box in the scene.
    """
    rows, cols = np.nonzero(inside)
    scores = score_ppm_m[inside].astype(np.float64)
    peak = int(np.argmax(scores))
    return Plume(
        polygons=tuple(polygon.shifted(top, left) for polygon in outline(inside)),
        first_row=top,
        first_col=left,
        end_row=top + inside.shape[0],
        end_col=left + inside.shape[1],
        area_px=int(inside.sum()),
        centroid_row=top + float(rows.mean()) + 0.5,
        centroid_col=left + float(cols.mean()) + 0.5,
        peak_row=top + int(rows[peak]),
        peak_col=left + int(cols[peak]),
        peak_ppm_m=float(scores[peak]),
        mean_ppm_m=float(scores.mean()),
        integrated_ppm_m_px=float(scores.sum()),
        confidence=float(probability[inside].astype(np.float64).mean()),
        parts=int(ndimage.label(inside, EIGHT_NEIGHBOURS)[1]),
    )


class PlumeTracker:
    """Finds plumes in maps that arrive from top to bottom in blocks of rows, holding no more than `max_rows` of them.

    A plume is given out once it no longer touches the last row seen. One longer than `max_rows` is given out in
    pieces marked `cut`.

    Args:
        max_rows: Rows kept at most for plumes that are not finished yet.
    """

    def __init__(self, max_rows: int = 2048) -> None:
        if max_rows < 1:
            raise FlameError(f"a plume tracker needs at least one row of memory, got {max_rows}")
        self._max_rows = max_rows
        self._first = 0
        self._held: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def push(
        self,
        mask: Bool[np.ndarray, "row col"],
        probability: Float[np.ndarray, "row col"],
        score_ppm_m: Float[np.ndarray, "row col"],
        end: bool = False,
    ) -> tuple[Plume, ...]:
        """Takes the next rows and returns the plumes they finish, `end` finishing all."""
        maps = (mask, probability, score_ppm_m)
        if self._held is not None:
            maps = tuple(np.concatenate([held, new]) for held, new in zip(self._held, maps, strict=True))  # type: ignore[assignment]
        rows = maps[0].shape[0]
        found = find_plumes(*maps)
        is_open = [not end and plume.end_row == rows for plume in found]
        keep_from = min((p.first_row for p, still in zip(found, is_open, strict=True) if still), default=rows)
        too_long = rows - keep_from > self._max_rows
        if too_long:
            keep_from = rows
        done = tuple(
            replace(plume.shifted(self._first), cut=still)
            for plume, still in zip(found, is_open, strict=True)
            if too_long or not still
        )
        open_labels = self._still_open(maps[0][keep_from:])
        self._held = None if keep_from == rows else (open_labels, maps[1][keep_from:], maps[2][keep_from:])
        self._first += keep_from
        return done

    @staticmethod
    def _still_open(mask: Bool[np.ndarray, "row col"]) -> Bool[np.ndarray, "row col"]:
        """The mask without the plumes that were given out, those that do not reach the last row."""
        if not mask.size:
            return mask
        labels, _ = ndimage.label(mask, EIGHT_NEIGHBOURS)
        reaching = np.unique(labels[-1])
        return np.isin(labels, reaching[reaching > 0])
