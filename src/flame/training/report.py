"""Metrics as files: `metrics.json`, a Markdown table, and F1 and false positives by plume size (fig:plume_analysis)."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path

from flame.detection import JudgedRow, Metrics, PixelCounts
from flame.files import write_whole

__all__ = ["markdown_table", "write_report"]


def write_report(
    folder: Path, metrics: Metrics, facts: dict[str, object], rules: Mapping[str, JudgedRow] | None = None
) -> None:
    """Writes `metrics.json`, `metrics.md` and `by_plume_size.png` into a folder.

    Args:
        folder: Made if it is not there.
        metrics: The figures.
        facts: What they belong to (model, data, rule); kept in `metrics.json` under `about`.
        rules: The same maps judged by the rules of `flame.detection.RULES`; kept under `rules`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    judged = {name: row.to_dict() for name, row in (rules or {}).items()}
    text = json.dumps(metrics.to_dict() | {"rules": judged, "about": facts}, indent=1) + "\n"
    for name, content in (
        ("metrics.json", text.encode()),
        ("metrics.md", markdown_table(metrics).encode()),
        ("by_plume_size.png", _figure(metrics)),
    ):
        write_whole(folder / name, content)


def _number(value: float, form: str = ".3f") -> str:
    return "–" if math.isnan(value) else format(value, form)


def _row(name: str, counts: PixelCounts) -> str:
    ratios = (counts.f1, counts.iou, counts.precision, counts.recall)
    return f"| {name} | " + " | ".join(map(_number, ratios)) + f" | {_number(1e4 * counts.pixel_fpr, '.1f')} |"


def markdown_table(metrics: Metrics) -> str:
    """All groups, with the pixel false positive rate in 1e-4 as in the paper's tables."""
    head = "| tiles | F1 | IoU | precision | recall | pixel FPR (1e-4) |\n|---|---|---|---|---|---|"
    rows = [_row(f"all {metrics.tiles}", metrics.counts)]
    rows += [_row(f"{name} plume pixels", counts) for name, counts in metrics.by_plume_size.items()]
    rows += [_row("strong, 1000 kg/h and more", metrics.strong), _row("weak", metrics.weak)]
    foot = (
        f"Tile FPR {_number(metrics.tile_fpr)} of {metrics.plume_free_tiles} plume-free tiles; "
        f"AUPRC {_number(metrics.auprc)}. Plume sizes are those of a 512 x 512 tile."
    )
    return "\n".join([head, *rows, "", foot, ""])


def _figure(metrics: Metrics) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes = dict(metrics.by_plume_size)
    with_plume = [name for name in sizes if name != "0"]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.bar(with_plume, [_or_zero(sizes[name].f1) for name in with_plume], color="#c4551b")
    left.set(xlabel="plume pixels", ylabel="F1", ylim=(0, 1))
    right.bar(list(sizes), [1e4 * _or_zero(counts.pixel_fpr) for counts in sizes.values()], color="#3b6ea5")
    right.set(xlabel="plume pixels", ylabel="pixel FPR (1e-4)")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=120)
    return target.getvalue()


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
