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
from flame.onboard.guard import Guard, Judged, KnownTile, Runtime
from flame.onboard.manifest import Manifest, ModelError
from flame.onboard.turns import Turn
from flame.prepare import UNUSABLE, PreparedTile, Quality, TilePreparer
from flame.prepare.planes import MOST_SIGMA_PPM_M, PlanePreparer

__all__ = [
    "Rows",
    "StripEngine",
    "TileReport",
    "Timings",
    "infer_tile",
    "judge_known",
    "judge_tile",
    "known_sigma",
]

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
        more: What else the model says of each pixel, by the names of `Backend.more`: in ppm m, the core in standard
            deviations.
    """

    first: int
    probability: Float32[np.ndarray, "row col"]
    score_ppm_m: Float32[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]
    quality: UInt8[np.ndarray, "row col"]
    tiles: tuple[TileReport, ...] = field(default=())
    more: Mapping[str, Float32[np.ndarray, "row col"]] = field(default_factory=dict)


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
        guard: Finds faults and has tiles done again; it has the runtime then.
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
        guard: Guard | None = None,
    ) -> None:
        self._tau_ppm_m = np.float32(manifest.tau_ppm_m)
        self._runtime = Runtime(backend, preparer)
        self._guard = guard
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
                judged = self._judge(radiance[:, :, across], valid[:, across], colour, first)
                inferred = time.perf_counter()
            tile, maps, failed = judged.tile, judged.maps, judged.failed
            quality[:, across] |= np.uint8(failed) if tile is None else tile.quality | np.uint8(failed)
            if maps is not None:
                self._stitcher.add(span, cols, maps)
            flags = failed if tile is None else tile.flags | failed
            reports.append(TileReport(span.start, cols.start, flags, inferred - began))
            self.timings.blend_s += time.perf_counter() - inferred
        return self._give_out(span, quality, tuple(reports))

    @property
    def guard(self) -> Guard | None:
        """What watches it."""
        return self._guard

    @property
    def tells_core(self) -> bool:
        """Whether the model tells how surely there is gas in a pixel."""
        return "core" in self._runtime.backend.more

    def _judge(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        valid: Bool[np.ndarray, "row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None,
        first: int,
    ) -> Judged:
        """One tile, by the guard if there is one."""

        def run(runtime: Runtime) -> Judged:
            return judge_tile(runtime, radiance, valid, rgb, first, self._forgiving, self.timings)

        return run(self._runtime) if self._guard is None else self._guard.judge(run)

    def _give_out(self, span: Span, quality: UInt8[np.ndarray, "row col"], reports: tuple[TileReport, ...]) -> Rows:
        first, self._settled = self._settled, span.settled
        probability, score, *more, weight = self._stitcher.take(span.settled)
        quality = quality[first - span.start : span.settled - span.start]
        judged = weight > 0
        # Where some of the overlapping tiles could not be judged, the others count in full.
        if not (weight == 1).all():
            for layer in (probability, score, *more):
                np.divide(layer, weight, out=layer, where=judged)
        quality &= ~(judged.view(np.uint8) * np.uint8(_NOT_JUDGED))
        if not judged.all():
            quality[~judged & (quality & _NOT_JUDGED == 0)] |= np.uint8(Quality.TOO_FEW)
        usable = judged & ((quality & UNUSABLE) == 0)
        named = dict(zip(self._runtime.backend.more, more, strict=True))
        for layer in (score, *(layer for name, layer in named.items() if name != "core")):
            layer *= self._tau_ppm_m
        return Rows(first, probability, score, usable, quality, reports, named)


def judge_tile(
    runtime: Runtime,
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
    rgb: Float32[np.ndarray, "3 row col"] | None,
    first: int = 0,
    forgiving: bool = False,
    timings: Timings | None = None,
) -> Judged:
    """Prepares and infers one tile.

    Args:
        runtime: What it goes through.
        radiance: The tile's radiance; a ring of rows if `first` is not 0.
        valid: Its valid pixels.
        rgb: Its colours, if known.
        first: Where in `radiance` its first row stands.
        forgiving: Whether what fails is told in the outcome instead of raised.
        timings: Where the time is added to.
    """
    began = prepared = time.perf_counter()
    tile = None
    try:
        tile = runtime.preparer.prepare(radiance, valid, rgb, first)
        prepared = time.perf_counter()
        return Judged(tile, None, Quality.TOO_FEW) if tile.inputs is None else infer_tile(runtime.backend, tile)
    except Exception:
        if not forgiving:
            raise
        _LOG.exception("a tile could not be %s; its mask is left empty", "prepared" if tile is None else "judged")
        return Judged(tile, None, Quality.FAILED)
    finally:
        if timings is not None:
            timings.prepare_s += prepared - began
            timings.infer_s += time.perf_counter() - prepared


def judge_known(runtime: Runtime, known: KnownTile) -> Judged:
    """A known tile through the runtime."""
    return judge_tile(runtime, known.radiance, known.valid, known.rgb, forgiving=True)


def infer_tile(backend: Backend, tile: PreparedTile) -> Judged:
    """Probability, score, what else the model says, and weight of a tile, where usable."""
    assert tile.inputs is not None
    rows, cols = tile.usable.shape
    found = [layer[:rows, :cols] for layer in backend.infer(tile.inputs)]
    maps = np.ones((len(found) + 1, rows, cols), dtype=np.float32)
    for layer, given in zip(maps, found, strict=False):
        np.multiply(given, tile.usable, out=layer)
        if not np.isfinite(layer).all():
            raise ModelError(f"{backend.name}: the model gave NaN or infinity for a tile of finite inputs")
    return Judged(tile, maps, Quality.GOOD)


def known_sigma(
    sigma_ppm_m: Float32[np.ndarray, "row col"], usable: Bool[np.ndarray, "row col"]
) -> Float32[np.ndarray, "row col"]:
    """A standard deviation that is infinite where nothing is known."""
    return np.where(usable & (sigma_ppm_m < MOST_SIGMA_PPM_M), sigma_ppm_m, np.float32(np.inf))
