"""The detector: a model package and an engine, scenes in and detections out. No torch anywhere."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from flame.detection import DecisionRule, Plume, TileGrid, find_plumes, plume_mask
from flame.onboard.asked import Asked
from flame.onboard.backends import chosen_threads, open_backend
from flame.onboard.guard import Guard, GuardSettings, Runtime
from flame.onboard.manifest import ModelError
from flame.onboard.package import ModelPackage, band_mismatch, fitting_bands, load_model, opened_for
from flame.onboard.plane_backends import plane_arrays
from flame.onboard.stream import LineStream
from flame.onboard.strip import (
    Rows,
    StripEngine,
    TileReport,
    Timings,
    judge_known,
    known_sigma,
)
from flame.onboard.turns import Turn
from flame.physics import BandSet
from flame.prepare import Quality, TilePreparer
from flame.prepare.planes import PlanePreparer
from flame.scene import AnyScene

__all__ = ["Detection", "Detector", "DetectorIdentity"]

_GUARDED = GuardSettings()


@dataclass(frozen=True)
class DetectorIdentity:
    """What products say of the detector that made them.

    Attributes:
        model: For people.
        sha256: Checksum of the model's graph; None for a detector without a model.
        rule: How its probabilities become a mask.
        key: Tells it from every other detector and version.
    """

    model: str
    sha256: str | None
    rule: DecisionRule
    key: str


@dataclass(frozen=True, eq=False)
class Detection:
    """What was found in a scene, in its pixels.

    Attributes:
        probability: Plume probability, 0 where unusable.
        score_ppm_m: Methane score, 0 where unusable.
        mask: Plume pixels after the decision rule.
        usable: Pixels that were judged.
        quality: `Quality` bits of each pixel.
        plumes: The plumes, from top to bottom.
        tiles: What happened to each tile.
        timings: Where the time went.
        runtime: Engine that ran the model.
        sigma_ppm_m: Standard deviation of the score, infinite where unusable; None for models that do not tell.
        estimate_ppm_m: The noise-aware filter's estimate, right on average where a network's score is shrunk: what a
            mass is summed from. None for models that do not stand on it.
        estimate_sigma_ppm_m: Its standard deviation, infinite where unusable or too dark to tell.
        core_sigmas: How surely there is gas: the geometric mean of the score in its own standard deviations, three
            times, and of the filter's estimate, averaged over the widest Gaussian of the planes, in its own; what a
            core is told by. 0 where unusable, None for models that do not tell.
        level_ppm_m: Enhancement that outlines run at; where the level follows the noise, in the middle of all pixels.
            None where they follow what an annotator would see.
        unasked: Whether the detector drew by its own rule, which rates and the smallest visible ones are fitted to.
    """

    probability: Float32[np.ndarray, "row col"]
    score_ppm_m: Float32[np.ndarray, "row col"]
    mask: Bool[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]
    quality: UInt8[np.ndarray, "row col"]
    plumes: tuple[Plume, ...]
    tiles: tuple[TileReport, ...]
    timings: Timings
    runtime: str
    sigma_ppm_m: Float32[np.ndarray, "row col"] | None = None
    estimate_ppm_m: Float32[np.ndarray, "row col"] | None = None
    estimate_sigma_ppm_m: Float32[np.ndarray, "row col"] | None = None
    core_sigmas: Float32[np.ndarray, "row col"] | None = None
    level_ppm_m: float | None = None
    unasked: bool = True

    @property
    def flags(self) -> Quality:
        """All quality bits of all tiles."""
        return reduce(or_, (tile.flags for tile in self.tiles), Quality.GOOD)


class Detector:
    """Finds plumes with a packaged model.

    Threads may share one: they take turns, tile by tile. A forked process may go on using its parent's.

    Args:
        model: A loaded package, a packaged name, the path of an ONNX file beside its manifest, or None for the default.
        runtime: "auto", "native", "onnxruntime" or "openvino".
        threads: CPU threads; all that this process may use unless given.
        overlap: Pixels shared by neighbouring tiles; an eighth of a tile unless given.
        asked: Sensitivity, threshold, level and core; the model's own unless given.

    Raises:
        ModelError: If the model or the engine cannot be used, or the model cannot do what is asked.
    """

    def __init__(
        self,
        model: ModelPackage | str | Path | None = None,
        runtime: str = "auto",
        threads: int | None = None,
        overlap: int | None = None,
        asked: Asked | None = None,
    ) -> None:
        package = model if isinstance(model, ModelPackage) else load_model(model)
        threads = chosen_threads(threads)
        self.manifest = facts = package.manifest
        self._given = (runtime, threads, overlap, asked)
        self._siblings: dict[BandSet, Detector] = {}
        self._of_lines: Detector | None = None
        side = self.manifest.tile
        self.grid = TileGrid.usual(side) if overlap is None else TileGrid(side, overlap)
        self._asked = asked or Asked()
        self._asked.check(facts)
        self._rule = self._asked.rule(facts)
        self._opening = package, runtime, threads
        self._open_runtime()
        self._turn = Turn()
        self._guard: Guard | None = None

    @property
    def rule(self) -> DecisionRule:
        """How its probabilities become a mask."""
        return self._rule

    @property
    def identity(self) -> DetectorIdentity:
        """What products say of it."""
        facts = self.manifest
        return DetectorIdentity(
            f"{facts.name} for {facts.sensor}", facts.sha256, self._rule, self._asked.key(facts.key)
        )

    @property
    def runtime(self) -> str:
        """Name and version of the engine."""
        return self._backend.name

    def run(self, scene: AnyScene) -> Detection:
        """Finds plumes in a scene of any size; beyond the scene itself, memory is one row of tiles and the result.

        A scene that stays in its file is read one row of tiles at a time.

        Raises:
            BandMismatchError: If the scene lacks bands the model was made for.
            ModelError: If the model takes RGB and the scene has none.
        """
        began = time.perf_counter()
        if self.manifest.takes(scene.bands) and scene.bands.methane() != self.manifest.bands:
            return self._sibling(scene.bands.methane()).run(scene)
        bands = self._fitting(scene)
        if not scene.has_rgb and "rgb" in self.manifest.inputs:
            where = scene.acquisition.source or "the scene"
            raise ModelError(f"{where} has no RGB, which {self.manifest.name} takes; give the visible bands too")
        rows, cols = scene.shape
        engine = self._engine(cols)
        parts: list[Rows] = []
        for span in self.grid.spans(rows):
            lines = scene.rows(span.start, span.stop)
            parts.append(engine.tile_row(span, lines.radiance[bands], lines.valid, lines.rgb))
            del lines  # else two rows of tiles would be in memory while the next is read
        deciding = time.perf_counter()
        probability = _joined([part.probability for part in parts])
        score_ppm_m = _joined([part.score_ppm_m for part in parts])
        usable = _joined([part.usable for part in parts])
        more = _more(parts, usable)
        mask = plume_mask(probability, usable, self._rule, more.get("core_sigmas"))
        plumes = find_plumes(mask, probability, score_ppm_m)
        engine.timings.decide_s = time.perf_counter() - deciding
        engine.timings.total_s = time.perf_counter() - began
        return Detection(
            probability=probability,
            score_ppm_m=score_ppm_m,
            mask=mask,
            usable=usable,
            quality=_joined([part.quality for part in parts]),
            plumes=plumes,
            tiles=tuple(tile for part in parts for tile in part.tiles),
            timings=engine.timings,
            runtime=self.runtime,
            level_ppm_m=self._level(more.get("estimate_sigma_ppm_m")),
            unasked=self._asked in (Asked(), Asked(level="scene")),
            **more,
        )

    def _level(self, sigma_ppm_m: Float32[np.ndarray, "row col"] | None) -> float | None:
        """Where outlines run in the scene as a whole."""
        facts = self.manifest.plane_facts
        if not self._asked.follows_scene(self.manifest) or facts is None or sigma_ppm_m is None:
            return self._asked.level_ppm_m
        known = sigma_ppm_m[np.isfinite(sigma_ppm_m)]
        return facts.scene_level(float(np.median(known))) if known.size else None

    def _sibling(self, bands: BandSet) -> Detector:
        """The same model opened for other bands."""
        if bands not in self._siblings:
            runtime, threads, overlap, asked = self._given
            self._siblings[bands] = Detector(opened_for(self._opening[0], bands), runtime, threads, overlap, asked)
        return self._siblings[bands]

    def stream(self, width: int, max_plume_rows: int = 2048, guard: GuardSettings | None = _GUARDED) -> LineStream:
        """A stream for pushbroom lines of that many columns, in the model's bands; see `LineStream`.

        It draws what an annotator would outline, unless a level was asked for in ppm m. Plumes need the core that was
        asked for, the sensitivity's unless given; the masks of lines, which are given out before a plume's end is seen,
        do not. A detector that was asked for nothing opens the model a second time for it: one that is only for
        streams is asked for the "visible" level.

        Args:
            width: Columns of a line.
            max_plume_rows: Rows after which a plume that has not ended is given out in pieces.
            guard: How faults in memory are looked for; None: not at all.

        Raises:
            ModelError: If the scene's level was asked for.
        """
        rule = self._asked.rule_of_lines(self.manifest)
        if self._asked.follows_scene(self.manifest):
            if self._of_lines is None:
                runtime, threads, overlap, asked = self._given
                visible = replace(asked or Asked(), level="visible")
                self._of_lines = Detector(self._opening[0], runtime, threads, overlap, visible)
            return self._of_lines.stream(width, max_plume_rows, guard)
        engine = self._engine(width, forgiving=True, guard=self._guarded(guard))
        stream = LineStream(engine, self.manifest, self.grid, width, max_plume_rows)
        stream.rule = rule
        return stream

    def _engine(self, width: int, forgiving: bool = False, guard: Guard | None = None) -> StripEngine:
        return StripEngine(self.manifest, self._backend, self._preparer, self.grid, width, forgiving, self._turn, guard)

    def _guarded(self, settings: GuardSettings | None) -> Guard | None:
        """The guard of this detector's runtime, one for all its streams."""
        if settings is None:
            return None
        runtime = Runtime(self._backend, self._preparer)
        with self._turn:
            if self._guard is None or self._guard.settings != settings or not self._guard.watches(runtime):
                self._guard = Guard(self.manifest, runtime, self._open_runtime, judge_known, settings)
            return self._guard

    def _open_runtime(self) -> Runtime:
        """Opens engine and preparation from the verified package."""
        package, runtime, threads = self._opening
        asked = self._asked
        self._backend = open_backend(package, runtime, threads, asked.level_ppm_m, asked.follows_scene(self.manifest))
        self._preparer = self._prepared_by(package, threads)
        return Runtime(self._backend, self._preparer)

    def _prepared_by(self, package: ModelPackage, threads: int) -> TilePreparer | PlanePreparer:
        facts, shape = self.manifest, (self.manifest.tile, self.manifest.tile)
        if facts.plane_facts is not None:
            functions = plane_arrays(package)["functions"]
            how = facts.plane_facts.planes
            return PlanePreparer(how, functions, facts.bands, shape, facts.prepare.pixels, threads=threads)
        return TilePreparer(
            *(facts.prepare, facts.inputs, facts.bands, shape, np.array(facts.absorption), threads),
            block_rows=self._backend.block_rows,
        )

    def _fitting(self, scene: AnyScene) -> slice | list[int]:
        """Where the model's bands stand in the scene; a slice, which copies nothing, where they are neighbours."""
        if scene.bands == self.manifest.bands:
            return slice(0, len(scene.bands))
        chosen = fitting_bands(scene.bands, self.manifest.bands)
        if chosen is None:
            raise band_mismatch(self.manifest.bands, scene.bands, scene.acquisition.source or "the scene")
        if chosen == list(range(chosen[0], chosen[0] + len(chosen))):
            return slice(chosen[0], chosen[-1] + 1)
        return chosen


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Rows one under the other; those of one part are not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _more(parts: list[Rows], usable: Bool[np.ndarray, "row col"]) -> dict[str, Float32[np.ndarray, "row col"]]:
    """What else a model says of each pixel; standard deviations are infinite where nothing is known."""
    found = {}
    for name in parts[0].more:
        layer = _joined([part.more[name] for part in parts])
        if name == "core":
            found["core_sigmas"] = layer * usable
        else:
            found[f"{name}_ppm_m"] = known_sigma(layer, usable) if name.endswith("sigma") else layer
    return found
