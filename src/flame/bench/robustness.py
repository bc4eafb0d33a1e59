"""A packaged model on tiles as they are, at another gain and with miscalibrated bands; MAG1C under the same rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.bench.baselines import rule_title
from flame.bench.tables import shown
from flame.detection import RULES, Evaluation, PixelCounts, ScoreJudge
from flame.files import write_json, write_whole
from flame.filters import FILTERS, filter_named
from flame.onboard import Asked, Detector, choose_model
from flame.pipeline.datasets import SimulationPlan, map_tiles
from flame.scene import BandSet, Scene

__all__ = ["CONDITIONS", "robustness_table", "run_robustness"]

_CALIBRATION_ERROR = 0.05
_CHOSEN = ("best_opened", "best_smoothed")


def _scaled(scene: Scene, factor: Float[np.ndarray, " band"], colour_factor: Float[np.ndarray, " rgb"]) -> Scene:
    spread, colour_spread = (np.float32(values[:, None, None]) for values in (factor, colour_factor))
    colour = None if scene.rgb is None else scene.rgb * colour_spread
    return replace(scene, radiance=scene.radiance * spread, rgb=colour)


def _gain(factor: float) -> Callable[[Scene, int], Scene]:
    return lambda scene, _: _scaled(scene, np.full(len(scene.bands), factor), np.full(3, factor))


def _miscalibrated(scene: Scene, index: int) -> Scene:
    rng = np.random.default_rng((index, 5))
    error = 1.0 + _CALIBRATION_ERROR * rng.standard_normal(len(scene.bands) + 3)
    return _scaled(scene, error[:-3], error[-3:])


CONDITIONS: dict[str, Callable[[Scene, int], Scene]] = {
    "as they are": lambda scene, _: scene,
    "radiance x 0.1": _gain(0.1),
    "radiance x 10": _gain(10.0),
    "5 % error of each band": _miscalibrated,
}
"""What is done to a tile, given its number, before the model sees it."""


@dataclass(frozen=True, eq=False)
class _Judged:
    label: Bool[np.ndarray, "row col"]
    valid: Bool[np.ndarray, "row col"]
    emission_kg_h: float | None
    found: dict[str, tuple[Float32[np.ndarray, "row col"], Bool[np.ndarray, "row col"]]]
    mag1c: Float32[np.ndarray, "row col"]


@lru_cache(maxsize=1)
def _detector(model: str, runtime: str, bands: BandSet) -> Detector:
    return Detector(choose_model(model, bands), runtime, threads=1, asked=Asked(level="visible"))


@dataclass(frozen=True)
class _Judge:
    """A function of (plan, index) that can be sent to a worker; None for tiles of another split."""

    model: str
    runtime: str
    split: str | None

    def __call__(self, plan: SimulationPlan, index: int) -> _Judged | None:
        if self.split is not None and plan.split(index) != self.split:
            return None
        tile = plan.draw(index).tile
        scene = tile.scene
        found = {}
        for name, change in CONDITIONS.items():
            detection = _detector(self.model, self.runtime, scene.bands).run(change(scene, index))
            found[name] = detection.probability, detection.mask
        mag1c = filter_named("mag1c").score(scene.radiance, scene.bands, scene.valid)
        return _Judged(tile.label & scene.valid, scene.valid, tile.emission_kg_h, found, mag1c)


def run_robustness(
    plan: SimulationPlan,
    split: str | None,
    model: str,
    out: Path,
    runtime: str = "auto",
    workers: int | None = None,
    on_tile: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Judges a packaged model under every condition; writes `robustness.json` and `robustness.md`.

    The model on the tiles as they are and MAG1C are also judged by every rule of `flame.detection.RULES`; best
    thresholds and widths are chosen on these very tiles.

    Args:
        plan: The tiles.
        split: `train` or `test` for only that split of the plan.
        model: A packaged name or an ONNX file.
        out: Folder for the figures.
        runtime: Engine, as for `Detector`.
        workers: Number of processes; by default one for each core.
        on_tile: Called after each tile, for a progress bar.
    """
    manifest = choose_model(model, plan.draw(0).tile.scene.bands).manifest
    judged = {name: Evaluation() for name in CONDITIONS}
    overlap = {name: PixelCounts() for name in CONDITIONS}
    own, mag1c = ScoreJudge(manifest.threshold, probabilities=True), ScoreJudge(FILTERS["mag1c"].threshold)
    nothing = next(iter(CONDITIONS))
    tiles = 0
    for tile in map_tiles(_Judge(model, runtime, split), plan, workers):
        if on_tile is not None:
            on_tile()
        if tile is None:
            continue
        tiles += 1
        for name, (probability, mask) in tile.found.items():
            judged[name].add(probability, mask, tile.label, tile.valid, tile.emission_kg_h)
            overlap[name] += PixelCounts.of(mask, tile.found[nothing][1], tile.valid)
        own.add(tile.found[nothing][0], tile.label, tile.valid)
        mag1c.add(tile.mag1c, tile.label, tile.valid)
    report: dict[str, Any] = {
        "model": manifest.name,
        "sha256": manifest.sha256,
        "plan": plan.facts(),
        "split": split,
        "tiles": tiles,
        "conditions": {
            name: {**judged[name].metrics().to_dict(), "mask_iou": overlap[name].iou} for name in CONDITIONS
        },
        "rules": {rule: row.to_dict() for rule, row in own.rows().items()},
        "mag1c": {rule: row.to_dict() for rule, row in mag1c.rows().items()},
    }
    write_json(out / "robustness.json", report)
    write_whole(out / "robustness.md", robustness_table(report))
    return report


def robustness_table(report: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    lines = [
        f"| {report['model']}, {report['tiles']} tiles | F1 | precision | recall | pixel FPR x 1e4 | same mask (IoU) |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    rows = dict(report["conditions"])
    rows |= {f"as they are, {RULES[rule]}": report["rules"][rule] for rule in _CHOSEN}
    rows |= {rule_title(FILTERS["mag1c"], rule): row for rule, row in report["mag1c"].items() if rule != "canonical"}
    for name, figures in rows.items():
        cells = [shown(figures.get(key)) for key in ("f1", "precision", "recall")]
        cells += [shown(figures["pixel_fpr"], 1e4, 1), shown(figures.get("mask_iou"))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
