"""Charts of the comparison: figures by plume size (fig:plume_analysis), and speed, accuracy and size (fig:bubble)."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flame.bench.comparison.methods import FAMILIES, Method
from flame.bench.comparison.records import Records
from flame.bench.comparison.tables import spread_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bubble", "new_figure", "plume_size", "png"]

_COLOURS = ("#7a7a7a", "#3b6ea5", "#4a9a6b", "#c4551b", "#8a6bb0", "#222222")
"""One for each family of methods."""
_LINES = ("#7a7a7a", "#3b6ea5", "#4a9a6b", "#8a6bb0", "#222222", "#b0a030")
_FLAME = "#c4551b"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    """A figure as a file's content."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=130)
    return target.getvalue()


def plume_size(records: Records, methods: Iterable[Method]) -> bytes | None:
    """F1 and pixel FPR by the plume's size, a line for each method that was run."""
    runs = records.runs()
    shown = [method for method in methods if method.key in runs]
    if not shown:
        return None
    figure = new_figure(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    sizes = list(runs[shown[0].key][0]["metrics"]["by_plume_size"])
    for method, colour in zip(shown, _LINES * 3, strict=False):
        style: dict[str, Any] = {"marker": "o", "color": colour, "label": method.title, "linewidth": 1.3}
        if method.key == "flame":
            style |= {"color": _FLAME, "linewidth": 2.4}
        for axes, name, scale, bins in ((left, "f1", 1.0, sizes[1:]), (right, "pixel_fpr", 1e4, sizes)):
            points = [spread_of(runs[method.key], "metrics", "by_plume_size", size, name) for size in bins]
            heights = [float("nan") if point is None else scale * point[0] for point in points]
            axes.plot(range(len(bins)), heights, **style)
            axes.set_xticks(range(len(bins)), bins)
    left.set(xlabel="plume pixels, as in a tile of 512 x 512", ylabel="F1", ylim=(0, 1))
    right.set(xlabel="plume pixels", ylabel="pixel FPR, 1e-4")
    right.set_yscale("symlog", linthresh=10.0)  # a network that learned nothing may have a hundred times the others'
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    left.legend(fontsize=7, frameon=False)
    return png(figure)


def bubble(records: Records, methods: Iterable[Method]) -> bytes | None:
    """F1 against the time a tile; the area of a marker follows the number of parameters."""
    runs, times = records.runs(), records.latency().get("methods", {})
    shown = [method for method in methods if method.key in runs and method.key in times and _by_rule(runs[method.key])]
    if not shown:
        return None
    figure = new_figure(10.0, 5.2)
    axes, key = figure.subplots(1, 2, width_ratios=(2.4, 1.0))
    heights = {method.key: (spread_of(runs[method.key], "metrics", "f1") or (0.0,))[0] for method in shown}
    shown.sort(key=lambda method: -heights[method.key])
    for number, method in enumerate(shown, start=1):
        size = float(runs[method.key][0].get("parameters") or 0) / 1e6
        x, y = times[method.key]["ms"], heights[method.key]
        colour = _COLOURS[FAMILIES.index(method.family)]
        area = 25 + 70 * size
        axes.scatter([x], [y], s=area, color=colour, alpha=0.65, linewidth=0, zorder=2)
        # Numbers around the marker by turns: neighbours in F1 are neighbours in number and would lie on each other.
        turn, reach = math.radians(90 * number - 45), 4 + 0.5 * (area**0.5)
        place = (reach * math.cos(turn), reach * math.sin(turn))
        axes.annotate(
            str(number), (x, y), place, textcoords="offset points", fontsize=7, ha="center", va="center", zorder=3
        )
        line = f"{number}  {method.title}" + (" *" if method.conditioned else "")
        key.text(0.0, 1.0 - number / (len(shown) + 1), line, fontsize=6.2, color=colour, va="center")
    key.set_axis_off()
    key.set_title("by F1; * with FLAME's inputs", fontsize=7, loc="left")
    for family, colour in zip(FAMILIES, _COLOURS, strict=True):
        if any(method.family == family for method in shown):
            axes.scatter([], [], s=40, color=colour, alpha=0.65, label=family)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    size_px = records.latency()["scale"]["size"]
    machine = records.latency()["machine"]
    where = f"{machine['device']}, threads: {machine['threads']}"
    axes.set(xlabel=f"ms a tile of {size_px} x {size_px} pixels ({where})", ylabel="F1")
    axes.set_ylim(-0.06, 1.1 * axes.get_ylim()[1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7, frameon=False, loc="best")
    return png(figure)


def _by_rule(runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the method has a threshold that was not chosen on the tiles that it is judged on."""
    return not runs[0].get("threshold_chosen_on_test")
