"""Tables of the comparison in Markdown, from the kept files alone; what has not been run is shown as missing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from flame.bench.comparison.experiments import published
from flame.bench.comparison.methods import FAMILIES, Method
from flame.bench.comparison.records import Records

__all__ = ["Order", "method_table", "order_of", "order_words", "rules_table", "spread_of"]

NOT_RUN = "not run yet"
Run = Mapping[str, Any]


def spread_of(runs: Sequence[Run], *path: str) -> tuple[float, float] | None:
    """Mean and standard deviation over the seeds of a figure, where it is defined."""
    values = []
    for run in runs:
        value: Any = run
        for name in path:
            value = None if value is None else value.get(name)
        if value is not None:
            values.append(float(value))
    if not values:
        return None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def _cell(runs: Sequence[Run], *path: str, scale: float = 1.0, digits: int = 3) -> str:
    found = spread_of(runs, *path)
    if found is None:
        return "–"
    mean, spread = found
    return f"{scale * mean:.{digits}f}" + (f" ± {scale * spread:.{digits}f}" if len(runs) > 1 else "")


def method_table(records: Records, methods: Iterable[Method], experiment: str) -> str:
    """Every method by the paper's rule, beside the paper's figures, and at its best threshold.

    Args:
        records: The kept files.
        methods: Rows.
        experiment: Whose figures of the paper stand beside ours.
    """
    runs, times = records.runs(), records.latency().get("methods", {})
    lines = [
        "| method | F1 | F1 in the paper | IoU | precision | recall | pixel FPR, 1e-4 (paper) "
        "| F1, best threshold, opened | F1, best threshold, smoothed | parameters, M | ms a tile | seeds |",
        "|---|" + "---:|" * 11,
    ]
    members = list(methods)
    for family in FAMILIES:
        rows = [method for method in members if method.family == family]
        if rows and len({method.family for method in members}) > 1:
            lines.append(f"| **{family}** |" + " |" * 11)
        lines += [_method_row(method, runs.get(method.key, []), times, experiment) for method in rows]
    return "\n".join(lines) + "\n"


def _method_row(method: Method, runs: Sequence[Run], times: Mapping[str, Any], experiment: str) -> str:
    paper = published(experiment, method.key) or {}
    theirs = f"{paper['f1']:.3f}" if paper else ""
    theirs += f" ± {paper['f1_std']:.3f}" if "f1_std" in paper else ""
    fpr = f" ({paper['pixel_fpr_e4']:.0f})" if "pixel_fpr_e4" in paper else ""
    time = f"{times[method.key]['ms']:.1f}" if method.key in times else "–"
    if not runs:
        return f"| {method.title} | {NOT_RUN} | {theirs} |" + " |" * 6 + f" | {time} | |"
    no_rule = bool(runs[0].get("threshold_chosen_on_test"))
    by_rule = ["–" if no_rule else _cell(runs, "metrics", name) for name in ("f1", "iou", "precision", "recall")]
    rate = "–" if no_rule else _cell(runs, "metrics", "pixel_fpr", scale=1e4, digits=1) + fpr
    best = [_cell(runs, "rules", rule, "f1") for rule in ("best_opened", "best_smoothed")]
    size = _cell(runs[:1], "parameters", scale=1e-6, digits=2)
    cells = [by_rule[0], theirs, *by_rule[1:], rate, *best, size, time, str(len(runs))]
    return f"| {method.title} | " + " | ".join(cells) + " |"


def rules_table(records: Records, methods: Iterable[Method]) -> str:
    """Classical filters under every rule."""
    runs = records.runs()
    rules = ("canonical", "canonical_opened", "best", "best_opened", "best_smoothed")
    lines = [
        "| filter | canonical threshold | the same, opened (the paper's rule) | best threshold | best, opened "
        "| best, smoothed | best threshold, opened | smoothing, px |",
        "|---|" + "---:|" * 7,
    ]
    for method in methods:
        if method.filtered is None:
            continue
        found = runs.get(method.key, [])
        if not found:
            lines.append(f"| {method.title} | {NOT_RUN} |" + " |" * 6)
            continue
        cells = [_cell(found, "rules", rule, "f1") for rule in rules]
        threshold = f"{found[0]['rules']['best_opened']['threshold']:.3g}"
        width = f"{found[0]['rules']['best_smoothed']['smoothing_px']:g}"
        lines.append(f"| {method.title} | " + " | ".join([*cells, threshold, width]) + " |")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Order:
    """Our order of methods beside the paper's, by F1.

    Attributes:
        methods: Keys, best first by our F1.
        ours: F1 here.
        paper: F1 in the paper.
        correlation: Spearman's rank correlation; NaN for fewer than three methods.
    """

    methods: tuple[str, ...]
    ours: tuple[float, ...]
    paper: tuple[float, ...]
    correlation: float

    def moved(self) -> dict[str, int]:
        """By how many places a method stands better here than in the paper."""
        here = {key: place for place, key in enumerate(self.methods)}
        there = sorted(self.methods, key=lambda key: -self.paper[here[key]])
        return {key: there.index(key) - here[key] for key in self.methods}


def order_of(records: Records, methods: Iterable[Method], experiment: str) -> Order:
    """The order of the methods that were run here and are in the paper."""
    runs, found = records.runs(), []
    for method in methods:
        paper = published(experiment, method.key)
        mine = spread_of(runs.get(method.key, []), "metrics", "f1")
        if paper is not None and mine is not None:
            found.append((mine[0], paper["f1"], method.key))
    found.sort(reverse=True)
    ours, paper_f1 = tuple(row[0] for row in found), tuple(row[1] for row in found)
    enough = len(found) > 2 and len(set(ours)) > 1
    correlation = float(np.asarray(spearmanr(ours, paper_f1).statistic)) if enough else float("nan")
    return Order(tuple(row[2] for row in found), ours, paper_f1, correlation)


def order_words(order: Order, methods: Mapping[str, Method]) -> str:
    """A plain word on where the order is the paper's and where it is not."""
    if len(order.methods) < 3:
        return "Too few methods of the paper's have been run to compare the order.\n"
    text = (
        f"Over the {len(order.methods)} methods that were run and are in the paper, the rank correlation (Spearman) of "
        f"F1 with the paper's is **{order.correlation:.2f}**. "
    )
    best = methods[order.methods[0]].title
    there = methods[order.methods[int(np.argmax(order.paper))]].title
    text += f"The best of them is {best}, " + ("as in the paper. " if best == there else f"in the paper {there}. ")
    moves = order.moved()
    for words, sign in (("Better placed here than in the paper", 1), ("Worse placed", -1)):
        far = [f"{methods[key].title} (by {sign * by})" for key, by in moves.items() if sign * by > 1]
        if far:
            text += f"{words}: {', '.join(far)}. "
    if all(abs(by) < 2 for by in moves.values()):
        text += "No method moved by more than one place. "
    return text.rstrip() + "\n"
