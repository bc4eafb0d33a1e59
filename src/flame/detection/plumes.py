"""Plume objects: what is connected in a mask, with its shape and strength."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int32
from scipy import ndimage

from flame.detection.decision import EIGHT_NEIGHBOURS
from flame.detection.outline import PixelPolygon, outline
from flame.detection.shapes import are_lines, box_around
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
    part = box_around(mask)
    if not mask[part].size:
        return ()
    top, left = part[0].start, part[1].start
    labels, chance, score = plume_labels(mask[part], reach_px), probability[part], score_ppm_m[part]
    return tuple(
        measure_plume(labels[box] == number, chance[box], score[box], top + box[0].start, left + box[1].start)
        for number, box in enumerate(ndimage.find_objects(labels), start=1)
    )


def _measured(
    labels: Int32[np.ndarray, "row col"],
    number: int,
    box: tuple[slice, ...],
    probability: Float[np.ndarray, "row col"],
    score_ppm_m: Float[np.ndarray, "row col"],
) -> Plume:
    """The plume of that number in its bounding box."""
    return measure_plume(labels[box] == number, probability[box], score_ppm_m[box], box[0].start, box[1].start)


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

    Where cores are told, plumes without one and lines are left out, as by `DecisionRule`. A piece of a long plume has a
    core if it or a piece that it goes on from has one. A piece that was cut before its plume's core came is left out:
    nobody could know of it.

    Args:
        max_rows: Rows kept at most for plumes that are not finished yet.
    """

    def __init__(self, max_rows: int = 2048) -> None:
        if max_rows < 1:
            raise FlameError(f"a plume tracker needs at least one row of memory, got {max_rows}")
        self._max_rows = max_rows
        self._first = 0
        self._held: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
        self._cut_with_core: Bool[np.ndarray, " col"] | None = None  # last row of pieces that the next rows go on from

    def push(
        self,
        mask: Bool[np.ndarray, "row col"],
        probability: Float[np.ndarray, "row col"],
        score_ppm_m: Float[np.ndarray, "row col"],
        end: bool = False,
        core: Bool[np.ndarray, "row col"] | None = None,
    ) -> tuple[Plume, ...]:
        """Takes the next rows and returns the plumes they finish.

        Args:
            mask: Plume pixels.
            probability: Plume probability.
            score_ppm_m: Methane score.
            end: Whether these rows are the last, which finishes all plumes.
            core: Pixels that make a plume one. None: every pixel does.
        """
        own_core, takes_lines = (mask, True) if core is None else (mask & core, False)
        mask, probability, score_ppm_m, core = self._with_held(mask, probability, score_ppm_m, own_core)
        if not mask.size:
            return ()
        rows, labels = mask.shape[0], plume_labels(mask)
        boxes = dict(enumerate(ndimage.find_objects(labels), start=1))
        still_open = {number for number, box in boxes.items() if not end and box[0].stop == rows}
        keep_from = min((boxes[number][0].start for number in still_open), default=rows)
        has_core = np.zeros(len(boxes) + 1, dtype=np.bool_)
        has_core[labels[core]] = True
        too_long = rows - keep_from > self._max_rows
        if too_long:
            keep_from = rows
            self._cut_with_core = has_core[labels[-1]]
        kept = has_core if takes_lines else has_core & ~are_lines(labels, len(boxes))
        done = tuple(
            replace(_measured(labels, number, box, probability, score_ppm_m).shifted(self._first), cut=is_open)
            for number, box in boxes.items()
            if kept[number] and (not (is_open := number in still_open) or too_long)
        )
        self._hold(np.isin(labels, list(still_open)), probability, score_ppm_m, core, keep_from)
        return done

    def _with_held(
        self,
        mask: Bool[np.ndarray, "row col"],
        probability: Float[np.ndarray, "row col"],
        score_ppm_m: Float[np.ndarray, "row col"],
        core: Bool[np.ndarray, "row col"],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """New maps below those that are held; pixels that go on from a piece with a core are cores too."""
        if self._cut_with_core is not None and mask.size:
            touched = ndimage.binary_dilation(self._cut_with_core, np.ones(3, dtype=np.bool_))
            core = np.concatenate([core[:1] | (mask[:1] & touched), core[1:]])
            self._cut_with_core = None
        maps = (mask, probability, score_ppm_m, core)
        if self._held is None:
            return maps
        return tuple(np.concatenate([held, new]) for held, new in zip(self._held, maps, strict=True))  # type: ignore[return-value]

    def _hold(
        self,
        open_mask: Bool[np.ndarray, "row col"],
        probability: Float[np.ndarray, "row col"],
        score_ppm_m: Float[np.ndarray, "row col"],
        core: Bool[np.ndarray, "row col"],
        keep_from: int,
    ) -> None:
        """Keeps the rows from `keep_from` on, and of the plumes only those that are still open."""
        maps = (open_mask, probability, score_ppm_m, core & open_mask)
        self._held = None if keep_from == len(open_mask) else tuple(layer[keep_from:] for layer in maps)  # type: ignore[assignment]
        self._first += keep_from
