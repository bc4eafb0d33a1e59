"""Every classical filter beside the detection limit on simulated tiles: the scale on which other methods are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32
from rich.table import Table

from flame.bench.limit import LimitTable, limit_scores
from flame.bench.tables import shown
from flame.detection import RULES, PixelCounts, ScoreJudge
from flame.files import write_json
from flame.filters import FILTERS, Filter, filter_named
from flame.pipeline.datasets import SimulationPlan, map_tiles

__all__ = ["limit_rows", "published_starcop_rows", "rule_title", "run_limit"]


@cache
def published_starcop_rows() -> dict[str, PixelCounts]:
    """Counts of each filter on STARCOP's test set, at its canonical threshold and opened: the paper's tab:main."""
    stored = json.loads((files("flame.bench") / "data" / "starcop_filters.json").read_text(encoding="utf-8"))
    return {name: PixelCounts(**parts["canonical_opened"]["all"]) for name, parts in stored["filters"].items()}


def rule_title(method: Filter, rule: str) -> str:
    """A row's name: the filter and the rule it is judged by."""
    return f"{method.title}, {_rule_words(method, rule)}"


def _rule_words(method: Filter, rule: str) -> str:
    threshold = f"{method.threshold:g}" + (" ppm m" if method.unit == "ppm m" else "") if method.threshold else ""
    return RULES[rule].format(threshold=threshold)


@dataclass(frozen=True, eq=False)
class _TileScores:
    label: Bool[np.ndarray, "row col"]
    valid: Bool[np.ndarray, "row col"]
    limit: dict[tuple[float, float], Float32[np.ndarray, "row col"]]
    filters: dict[str, Float32[np.ndarray, "row col"]]


@dataclass(frozen=True)
class _Scorer:
    """A function of (plan, index) that can be sent to a worker; None for tiles of another split."""

    split: str | None
    filters: tuple[str, ...]

    def __call__(self, plan: SimulationPlan, index: int) -> _TileScores | None:
        if self.split is not None and plan.split(index) != self.split:
            return None
        simulated = plan.draw(index)
        tile, scene = simulated.tile, simulated.tile.scene
        return _TileScores(
            tile.label & scene.valid,
            scene.valid,
            limit_scores(simulated, plan.settings().label),
            {name: filter_named(name).score(scene.radiance, scene.bands, scene.valid) for name in self.filters},
        )


def run_limit(
    plan: SimulationPlan,
    split: str | None = None,
    out: Path | None = None,
    workers: int | None = None,
    on_tile: Callable[[], None] | None = None,
    filters: Iterable[str] = tuple(FILTERS),
) -> dict[str, Any]:
    """Draws the tiles of a plan and judges the known-background detector and the classical filters on them.

    Filters are judged by every rule of `flame.detection.RULES`. Their best thresholds and widths are chosen on the very
    tiles they are judged on, which favours them; the limit's smoothing and threshold are chosen on the other half of
    the tiles, which does not.

    Args:
        plan: The tiles.
        split: `train` or `test` for only that split of the plan.
        out: JSON file to write, if any.
        workers: Number of processes; by default one for each core.
        on_tile: Called after each tile, for a progress bar.
        filters: Names of the filters to judge; all unless given.
    """
    limit, names = LimitTable(), tuple(filters)
    judged = {name: ScoreJudge(filter_named(name).threshold) for name in names}
    tiles = plume_pixels = valid_pixels = plume_tiles = 0
    for tile in map_tiles(_Scorer(split, names), plan, workers):
        if on_tile is not None:
            on_tile()
        if tile is None:
            continue
        tiles += 1
        limit.add(tile.limit, tile.label, tile.valid)
        for name, score in tile.filters.items():
            judged[name].add(score, tile.label, tile.valid)
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
        "filters": {
            name: {rule: row.to_dict() for rule, row in judge.rows().items()} for name, judge in judged.items()
        },
    }
    if out is not None:
        write_json(out, report)
    return report


def limit_rows(report: dict[str, Any]) -> Table:
    """The report as a table; rows named STARCOP are the published figures on real tiles, opened."""
    table = Table(
        title=f"{report['tiles']} tiles, {100 * report['plume_pixel_share']:.2f} % plume pixels, "
        f"{100 * report['plume_tile_share']:.0f} % of tiles with a plume",
        caption="FPR: share of background pixels called plume, in 1e-4",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for heading in ("", "threshold", "F1", "precision", "recall", "FPR"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)

    def row(title: str, threshold: str, figures: dict[str, Any]) -> None:
        ratios = [shown(figures[key]) for key in ("f1", "precision", "recall")]
        table.add_row(title, threshold, *ratios, shown(figures["pixel_fpr"], 1e4, 1))

    row("limit", "", report["limit"])
    for name, rows in report["filters"].items():
        method = FILTERS[name]
        table.add_row(method.title, style="bold")
        for rule, figures in rows.items():
            width = f" {figures['smoothing_px']:g} px" if "smoothing_px" in figures else ""
            row(f"  {_rule_words(method, rule)}{width}", f"{figures['threshold']:.4g}", figures)
        if name in published_starcop_rows():
            row("  STARCOP, opened", f"{method.threshold:g}", published_starcop_rows()[name].summary())
    return table
