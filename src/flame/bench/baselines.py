"""MAG1C beside the detection limit on simulated tiles, the scale on which every other method is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32
from rich.table import Table

from flame.bench.limit import LimitTable, limit_scores
from flame.detection import DecisionRule, Evaluation, PixelCounts, plume_mask
from flame.files import write_json
from flame.filters import FILTERS, filter_named
from flame.pipeline.datasets import SimulationPlan, map_tiles

__all__ = ["BASELINES", "PUBLISHED", "limit_rows", "run_limit"]

BASELINES = ("mag1c", "mag1c-sas")
"""The filters the paper's table is read against; they are scored without an opening, as there."""

PUBLISHED: dict[str, dict[str, float]] = {
    "mag1c": {"f1": 0.300, "iou": 0.176, "precision": 0.228, "recall": 0.437, "pixel_fpr": 35.0e-4},
    "mag1c-sas": {"f1": 0.284, "iou": 0.166, "precision": 0.194, "recall": 0.528, "pixel_fpr": 52.0e-4},
}
"""tab:main of the paper: STARCOP's test set, threshold 300 ppm m."""


@dataclass(frozen=True, eq=False)
class _TileScores:
    label: Bool[np.ndarray, "row col"]
    valid: Bool[np.ndarray, "row col"]
    emission_kg_h: float | None
    limit: dict[tuple[float, float], Float32[np.ndarray, "row col"]]
    filters: dict[str, Float32[np.ndarray, "row col"]]


@dataclass(frozen=True)
class _Scorer:
    """A function of (plan, index) that can be sent to a worker; None for tiles of another split."""

    split: str | None

    def __call__(self, plan: SimulationPlan, index: int) -> _TileScores | None:
        if self.split is not None and plan.split(index) != self.split:
            return None
        simulated = plan.draw(index)
        tile, scene = simulated.tile, simulated.tile.scene
        return _TileScores(
            tile.label & scene.valid,
            scene.valid,
            tile.emission_kg_h,
            limit_scores(simulated, plan.settings().label),
            {name: filter_named(name).score(scene.radiance, scene.bands, scene.valid) for name in BASELINES},
        )


def run_limit(
    plan: SimulationPlan,
    split: str | None = None,
    out: Path | None = None,
    workers: int | None = None,
    on_tile: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Draws the tiles of a plan and judges the known-background detector, MAG1C and MAG1C-SAS on them.

    MAG1C's best threshold is chosen on the very tiles it is judged on, which favours it; the limit's smoothing and
    threshold are chosen on the other half of the tiles, which does not.

    Args:
        plan: The tiles.
        split: `train` or `test` for only that split of the plan.
        out: JSON file to write, if any.
        workers: Number of processes; by default one for each core.
        on_tile: Called after each tile, for a progress bar.
    """
    limit = LimitTable()
    judged = {name: Evaluation(probabilities=False) for name in BASELINES}
    tiles = plume_pixels = valid_pixels = plume_tiles = 0
    for tile in map_tiles(_Scorer(split), plan, workers):
        if on_tile is not None:
            on_tile()
        if tile is None:
            continue
        tiles += 1
        limit.add(tile.limit, tile.label, tile.valid)
        for name, score in tile.filters.items():
            rule = DecisionRule(FILTERS[name].threshold or 0.0, opening=False)
            mask = plume_mask(score, tile.valid, rule)
            judged[name].add(score, mask, tile.label, tile.valid, tile.emission_kg_h)
        plume_pixels += int(tile.label.sum())
        valid_pixels += int(tile.valid.sum())
        plume_tiles += bool(tile.label.any())
    counts, choices = limit.result()
    report: dict[str, Any] = {
        "plan": plan.facts(),
        "split": split,
        "tiles": tiles,
        "plume_pixel_share": plume_pixels / valid_pixels,
        "plume_tile_share": plume_tiles / tiles,
        "limit": {**counts.summary(), "chosen_on_other_half": [asdict(choice) for choice in choices]},
    }
    for name, evaluation in judged.items():
        threshold = evaluation.histogram.best_threshold().threshold
        best = PixelCounts(*evaluation.histogram.counts(threshold))
        report[name] = {
            "canonical": {"threshold": FILTERS[name].threshold, **evaluation.metrics().counts.summary()},
            "best": {"threshold": threshold, **best.summary()},
            "auprc": evaluation.metrics().auprc,
            "published_starcop": PUBLISHED[name],
        }
    if out is not None:
        write_json(out, report)
    return report


def limit_rows(report: dict[str, Any]) -> Table:
    """The report as a table; rows named STARCOP are the paper's figures on real tiles."""
    table = Table(
        title=f"{report['tiles']} tiles, {100 * report['plume_pixel_share']:.2f} % plume pixels, "
        f"{100 * report['plume_tile_share']:.0f} % of tiles with a plume"
    )
    for heading in ("", "threshold", "F1", "precision", "recall", "FPR x 1e4"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)

    def row(title: str, threshold: str, figures: dict[str, float]) -> None:
        shown = [f"{figures[key]:.3f}" for key in ("f1", "precision", "recall")]
        table.add_row(title, threshold, *shown, f"{1e4 * figures['pixel_fpr']:.1f}")

    row("limit", "", report["limit"])
    for name in BASELINES:
        title, parts = FILTERS[name].title, report[name]
        row(title, f"{parts['canonical']['threshold']:.0f} ppm m", parts["canonical"])
        row(f"{title}, best", f"{parts['best']['threshold']:.0f} ppm m", parts["best"])
        row(f"{title}, STARCOP", "300 ppm m", parts["published_starcop"])
    return table
