"""Pictures of single tiles: what methods find (fig:qualitative), maps of scores and probabilities, the curriculum.

All are drawn from the kept maps. True positives are green, false positives blue, false negatives red, on darkened RGB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from flame.bench.comparison.figures import new_figure, png
from flame.bench.comparison.methods import Method
from flame.bench.comparison.records import Records
from flame.bench.comparison.tiles import Panel

__all__ = ["components", "curriculum", "method_maps", "overlay", "qualitative", "score_and_probability"]

_THREE = ("strong", "weak", "empty")
_FOUND, _FALSE, _MISSED = (0.15, 0.85, 0.25), (0.2, 0.45, 1.0), (1.0, 0.2, 0.15)
_DARKENED = 0.45
_TOP_PPM_M = 1750.0
_INCH = 1.5
_LETTERS = 22
"""Of a line above or beside a picture."""

Draw = Callable[[Any, Panel], Any]
"""Draws a tile on axes; gives the image if it has a colour scale."""


def overlay(panel: Panel, mask: Bool[np.ndarray, "row col"]) -> Float[np.ndarray, "row col 3"]:
    """A mask against the truth on darkened RGB."""
    picture = _DARKENED * panel.rgb.transpose(1, 2, 0)
    seen = panel.valid
    for pixels, colour in (
        (mask & panel.label & seen, _FOUND),
        (mask & ~panel.label & seen, _FALSE),
        (~mask & panel.label & seen, _MISSED),
    ):
        picture[pixels] = colour
    return picture


def _rgb(axes: Any, panel: Panel) -> None:
    axes.imshow(panel.rgb.transpose(1, 2, 0), interpolation="nearest")


def _truth(axes: Any, panel: Panel) -> None:
    axes.imshow(panel.label, cmap="gray", vmin=0, vmax=1, interpolation="nearest")


def _mask(maps: Mapping[str, np.ndarray]) -> Draw:
    def draw(axes: Any, panel: Panel) -> None:
        axes.imshow(maps[f"mask/{panel.kind}"], cmap="gray", vmin=0, vmax=1, interpolation="nearest")

    return draw


def _outcome(maps: Mapping[str, np.ndarray]) -> Draw:
    def draw(axes: Any, panel: Panel) -> None:
        axes.imshow(overlay(panel, maps[f"mask/{panel.kind}"]), interpolation="nearest")

    return draw


def _probability(maps: Mapping[str, np.ndarray]) -> Draw:
    def draw(axes: Any, panel: Panel) -> Any:
        shown = maps[f"probability/{panel.kind}"] / np.float32(255)
        return axes.imshow(shown, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")

    return draw


def _score(maps: Mapping[str, np.ndarray], prefix: str = "") -> Draw:
    def draw(axes: Any, panel: Panel) -> Any:
        shown = maps[f"{prefix}score/{panel.kind}"].astype(np.float32)
        return axes.imshow(shown, cmap="inferno", vmin=0, vmax=_TOP_PPM_M, interpolation="nearest")

    return draw


def _map(maps: Mapping[str, np.ndarray]) -> Draw:
    """A method's probability, or its enhancement if it is a filter."""
    return _probability(maps) if any(name.startswith("probability/") for name in maps) else _score(maps)


def _grid(cells: Sequence[Sequence[tuple[Panel, Draw]]], columns: Sequence[str], rows: Sequence[str]) -> bytes:
    """Tiles in rows and columns, with the colour scales that occur below."""
    width = _INCH * len(columns) + 0.3
    figure = new_figure(width, _INCH * len(cells))
    axes = np.asarray(figure.subplots(len(cells), len(columns), squeeze=False))
    scales: dict[str, Any] = {}
    for row, (line, name) in enumerate(zip(cells, rows, strict=True)):
        for col, (panel, draw) in enumerate(line):
            place = axes[row, col]
            image = draw(place, panel)
            place.set(xticks=[], yticks=[])
            place.spines[:].set_visible(False)
            if image is not None:
                scales["enhancement, ppm m" if image.norm.vmax > 1 else "probability"] = image
            if row == 0:
                place.set_title("\n".join(wrap(columns[col], _LETTERS)), fontsize=7)
            if col == 0:
                place.set_ylabel("\n".join(wrap(name, _LETTERS)), fontsize=7)
    figure.set_size_inches(width, _INCH * len(cells) + 0.3 + 0.5 * len(scales))
    for words, image in scales.items():
        bar = figure.colorbar(image, ax=axes.ravel().tolist(), location="bottom", shrink=0.45, aspect=40, pad=0.01)
        bar.set_label(words, fontsize=7)
        bar.ax.tick_params(labelsize=6)
    return png(figure)


def _with_maps(records: Records, methods: Iterable[Method]) -> list[tuple[Method, dict[str, np.ndarray]]]:
    found = [(method, records.maps(method.key)) for method in methods]
    return [(method, maps) for method, maps in found if maps is not None]


def qualitative(records: Records, methods: Iterable[Method]) -> bytes | None:
    """Masks of some methods on a strong, a weak and an empty tile."""
    shown, panels = _with_maps(records, methods), _chosen(records, _THREE)
    if not shown or not panels:
        return None
    columns = ["RGB", *(method.title for method, _ in shown), "truth"]
    draws: list[Draw] = [_rgb, *(_outcome(maps) for _, maps in shown), _truth]
    return _grid(
        [[(panel, draw) for draw in draws] for panel in panels],
        columns,
        [f"{p.kind} plume" if p.kind != "empty" else "no plume" for p in panels],
    )


def method_maps(records: Records, methods: Iterable[Method], kind: str) -> bytes | None:
    """Map, mask and outcome of every method on one tile; filters show ppm m in place of a probability."""
    shown, panels = _with_maps(records, methods), _chosen(records, (kind,))
    if not shown or not panels:
        return None
    columns = ["RGB", "probability, or ppm m", "mask", "truth", "found / false / missed"]
    cells = [[(panels[0], draw) for draw in (_rgb, _map(m), _mask(m), _truth, _outcome(m))] for _, m in shown]
    return _grid(cells, columns, [method.title for method, _ in shown])


def curriculum(records: Records) -> bytes | None:
    """FLAME's score after either phase of the training beside its teacher."""
    teacher, flame, panels = records.maps("mag1c-sas"), records.maps("flame"), _chosen(records, _THREE)
    if teacher is None or flame is None or not panels or f"phase-1 score/{panels[0].kind}" not in flame:
        return None
    columns = ["RGB", "MAG1C-SAS", "FLAME's score, phase 1", "FLAME's score, phase 2", "truth"]
    draws: list[Draw] = [_rgb, _score(teacher), _score(flame, "phase-1 "), _score(flame), _truth]
    return _grid([[(panel, draw) for draw in draws] for panel in panels], columns, [panel.kind for panel in panels])


def score_and_probability(records: Records) -> bytes | None:
    """FLAME's score beside the probability that it makes of it."""
    flame, panels = records.maps("flame"), records.panels()
    if flame is None or not panels:
        return None
    rows: list[tuple[str, Draw]] = [
        ("RGB", _rgb),
        ("score", _score(flame)),
        ("probability", _probability(flame)),
        ("truth", _truth),
    ]
    cells = [[(panel, draw) for panel in panels] for _, draw in rows]
    return _grid(cells, [panel.kind for panel in panels], [name for name, _ in rows])


def components(records: Records, methods: Iterable[Method]) -> bytes | None:
    """Probability maps of FLAME with none, some and all of its score."""
    shown, panels = _with_maps(records, methods), _chosen(records, _THREE)
    if len(shown) < 2 or not panels:
        return None
    columns = ["RGB", *(method.title.removeprefix("FLAME, ") for method, _ in shown), "truth"]
    draws: list[Draw] = [_rgb, *(_probability(maps) for _, maps in shown), _truth]
    return _grid([[(panel, draw) for draw in draws] for panel in panels], columns, [panel.kind for panel in panels])


def _chosen(records: Records, kinds: Iterable[str]) -> list[Panel]:
    panels = {panel.kind: panel for panel in records.panels()}
    return [panels[kind] for kind in kinds if kind in panels]
