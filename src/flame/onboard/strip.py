"""One row of tiles after another: prepare, infer, blend, and give out the rows that no later tile can change."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from flame.detection import RowStitcher, Span, TileGrid
from flame.onboard.backends import Backend
from flame.onboard.manifest import Manifest, ModelError
from flame.onboard.turns import Turn
from flame.prepare import UNUSABLE, PreparedTile, Quality, TilePreparer
from flame.prepare.planes import PlanePreparer

__all__ = ["Rows", "StripEngine", "TileReport", "Timings"]

_NOT_JUDGED = Quality.TOO_FEW | Quality.FAILED

_LOG = logging.getLogger(__name__)


@dataclass
class Timings:
    """Where the time went, in seconds, summed over tiles."""

    prepare_s: float = 0.0
    infer_s: float = 0.0
    blend_s: float = 0.0
    decide_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True)
class TileReport:
    """What happened to one tile.

    Attributes:
        row: First row of the tile in the scene or stream.
        col: First column.
        flags: Quality bits of its pixels and of the tile.
        seconds: Preparation and inference.
    """

    row: int
    col: int
    flags: Quality
    seconds: float


@dataclass(frozen=True, eq=False)
class Rows:
    """Finished rows of the scene, full width.

    Attributes:
        first: Number of the first row.
        probability: Plume probability, 0 where unusable.
        score_ppm_m: Methane score, 0 where unusable.
        usable: Pixels that were judged.
        quality: Quality bits.
        tiles: Reports of the tiles that were run for these rows.
        more_ppm_m: What else the model says of each pixel, by the names of `Backend.more`.
    """

    first: int
    probability: Float32[np.ndarray, "row col"]
    score_ppm_m: Float32[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]
    quality: UInt8[np.ndarray, "row col"]
    tiles: tuple[TileReport, ...] = field(default=())
    more_ppm_m: Mapping[str, Float32[np.ndarray, "row col"]] = field(default_factory=dict)


class StripEngine:
    """Runs rows of tiles across a strip of fixed width; its memory is one row of tiles of results.

    Args:
        manifest: The model's facts.
        backend: The loaded model.
        preparer: Makes the model's inputs.
        grid: How the strip is cut.
        width: Columns of the strip.
        forgiving: Whether a tile that fails is flagged (in flight) instead of raising (on the ground).
        turn: Held while a tile is prepared and inferred: engines of one detector share its buffers.
    """

    def __init__(
        self,
        manifest: Manifest,
        backend: Backend,
        preparer: TilePreparer | PlanePreparer,
        grid: TileGrid,
        width: int,
        forgiving: bool = False,
        turn: Turn | None = None,
    ) -> None:
        self._tau_ppm_m = np.float32(manifest.tau_ppm_m)
        self._backend = backend
        self._preparer = preparer
        self._columns = list(grid.spans(width))
        self._stitcher = RowStitcher(len(backend.more) + 3, width, grid)
        self._settled = 0
        self._forgiving = forgiving
        self._turn = turn or Turn()
        self.timings = Timings()

    def tile_row(
        self,
        span: Span,
        radiance: Float32[np.ndarray, "band row col"],
        valid: Bool[np.ndarray, "row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None,
        first: int = 0,
    ) -> Rows:
        """Runs the tiles of one span of rows and returns the rows they settle.

        Args:
            span: The rows.
            radiance: Their radiance; a ring if `first` is not 0.
            valid: Their valid pixels.
            rgb: Their colours, if known.
            first: Where in `radiance` the span's first row stands; after the last row comes row 0.
        """
        quality = np.zeros(valid.shape, dtype=np.uint8)
        reports = []
        for cols in self._columns:
            across = slice(cols.start, cols.stop)
            colour = None if rgb is None else rgb[:, :, across]
            with self._turn:
                began = time.perf_counter()
                tile = self._prepare(radiance[:, :, across], valid[:, across], colour, first)
                prepared = time.perf_counter()
                maps, failed = (None, Quality.FAILED) if tile is None else self._infer(tile)
                inferred = time.perf_counter()
            quality[:, across] |= np.uint8(failed) if tile is None else tile.quality | np.uint8(failed)
            if maps is not None:
                self._stitcher.add(span, cols, maps)
            flags = failed if tile is None else tile.flags | failed
            reports.append(TileReport(span.start, cols.start, flags, inferred - began))
            self.timings.prepare_s += prepared - began
            self.timings.infer_s += inferred - prepared
            self.timings.blend_s += time.perf_counter() - inferred
        return self._give_out(span, quality, tuple(reports))

    def _prepare(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        valid: Bool[np.ndarray, "row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None,
        first: int,
    ) -> PreparedTile | None:
        """The model's inputs; None if a stream must go on without them."""
        try:
            return self._preparer.prepare(radiance, valid, rgb, first)
        except Exception:
            if not self._forgiving:
                raise
            _LOG.exception("tile could not be prepared; its mask is left empty")
            return None

    def _infer(self, tile: PreparedTile) -> tuple[Float32[np.ndarray, "map row col"] | None, Quality]:
        """Probability, score, what else it says, and weight of one tile; None if it could not be judged."""
        if tile.inputs is None:
            return None, Quality.TOO_FEW
        rows, cols = tile.usable.shape
        try:
            found = [layer[:rows, :cols] for layer in self._backend.infer(tile.inputs)]
            maps = np.stack([*found, np.ones_like(found[0])])
            maps[:-1] *= tile.usable
            if not np.isfinite(maps).all():
                raise ModelError(f"{self._backend.name}: the model gave NaN or infinity for a tile of finite inputs")
        except Exception:
            if not self._forgiving:
                raise
            _LOG.exception("tile failed; its mask is left empty")
            return None, Quality.FAILED
        return maps, Quality.GOOD

    def _give_out(self, span: Span, quality: UInt8[np.ndarray, "row col"], reports: tuple[TileReport, ...]) -> Rows:
        first, self._settled = self._settled, span.settled
        probability, score, *more, weight = self._stitcher.take(span.settled)
        quality = quality[first - span.start : span.settled - span.start]
        judged = weight > 0
        # Where some of the overlapping tiles could not be judged, the others count in full.
        for layer in (probability, score, *more):
            np.divide(layer, weight, out=layer, where=judged)
        quality[judged] &= ~np.uint8(_NOT_JUDGED)
        quality[~judged & (quality & _NOT_JUDGED == 0)] |= np.uint8(Quality.TOO_FEW)
        usable = judged & ((quality & UNUSABLE) == 0)
        named = {name: layer * self._tau_ppm_m for name, layer in zip(self._backend.more, more, strict=True)}
        return Rows(first, probability, score * self._tau_ppm_m, usable, quality, reports, named)
