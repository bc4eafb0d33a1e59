"""The quick look: a scene on its map, the plumes marked, and the strongest of them close by. Readable at any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.detection import Plume, outline
from flame.files import whole_file
from flame.products.colours import ramp
from flame.products.layers import FADE, LAYERS, SceneMaps, scale_top
from flame.products.map_view import MapView, round_length_m
from flame.scene import AnyScene

__all__ = ["MarkedPlume", "close_window", "plot_quicklook", "stretched_rgb"]

ENHANCEMENT = LAYERS["enhancement"]

_OUTLINE = "#38e8ff"
_TRUTH = "#7dff5a"
_MOST_MARKED = 40
_MOST_CLOSE = 6
_INK = "#1c2430"
_NO_DATA = 0.9
_PANEL_IN = 7.0
"""Height of the scene's panel."""
_LONGEST_ASPECT = 5.0
_MOST_PIECES = 8
"""A longer strip is cut into pieces that stand side by side, or one below the other."""
_MOST_PIXELS = 1400


@dataclass(frozen=True)
class MarkedPlume:
    """A plume to mark.

    Attributes:
        plume: Its outline.
        label: Its letter or number.
        caption: Its numbers in a line.
    """

    plume: Plume
    label: str
    caption: str = ""


def stretched_rgb(scene: AnyScene, step: int = 1) -> Float32[np.ndarray, "row col 3"]:
    """Colours for the screen, 0 to 1; grey from the first band if the sensor sees no colour. Without data, light grey.

    One stretch for all three colours keeps their hue; what the air scatters is taken off each by itself.

    Args:
        scene: What to show.
        step: Every so many pixels.
    """
    layers = scene.colour()[:, ::step, ::step]
    finite = np.isfinite(layers).all(axis=0)
    seen = scene.valid[::step, ::step] & finite
    shown = seen | (finite & (layers > 0).all(axis=0))  # clouds and water are not valid, yet worth seeing
    out = np.full((*layers.shape[1:], 3), _NO_DATA, dtype=np.float32)
    if not seen.any():
        return out
    low = np.percentile(layers[:, seen], 0.5, axis=1)[:, None] * 0.75
    high = float(np.percentile(layers[:, seen] - low, 99.3))
    out[shown] = (np.clip((layers[:, shown] - low) / max(high, 1e-12), 0.0, 1.0) ** (1 / 1.7)).T
    return out


def plot_quicklook(
    path: Path,
    scene: AnyScene,
    maps: SceneMaps,
    plumes: Sequence[MarkedPlume],
    title: str,
    truth: Bool[np.ndarray, "row col"] | None = None,
    view: MapView | None = None,
    dpi: int = 110,
) -> None:
    """Draws the scene with the plumes' outlines, and the strongest plumes close by with their enhancement, into a PNG.

    Args:
        path: The PNG file.
        scene: What was looked at.
        maps: What was found.
        plumes: The plumes, strongest first.
        title: Headline.
        truth: The true plume mask, if known; its outline is drawn too.
        view: The scene's map; made unless given.
        dpi: Dots per inch.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    view = view or MapView.of(scene.geo, scene.shape)
    pieces = _pieces(view.shape, view.aspect)
    rows = pieces[0][0].stop - pieces[0][0].start
    cols = (pieces[0][1].stop - pieces[0][1].start) * view.aspect  # as high as rows are
    tall = rows >= cols
    close = list(plumes[:_MOST_CLOSE])
    panel_in = _PANEL_IN if tall else _PANEL_IN * 1.6
    width = (panel_in * cols / rows + 1.05) * len(pieces) if tall else panel_in + 1.2
    height = panel_in + 0.7 if tall else panel_in * rows / cols * len(pieces) + 0.7 * len(pieces) + 0.4
    beside = tall or rows / cols > 0.75
    across = min(2, len(close)) if beside else max(1, min(3, len(close)))
    down = -(-len(close) // across) if close else 0
    side = 3.1 if beside else 3.6
    total_w = width + (across * side if beside and close else 0)
    total_h = max(height, down * side) if beside else height + down * side
    figure = Figure(figsize=(max(total_w, 6.0), max(total_h, 3.2) + 0.75), layout="constrained", facecolor="white")
    if close:
        shares = [width, across * side] if beside else [height, down * side]
        parts: Any = (
            figure.subfigures(1, 2, width_ratios=shares) if beside else figure.subfigures(2, 1, height_ratios=shares)
        )
        scene_part, close_part = parts[0], parts[1]
    else:
        scene_part, close_part = figure, None
    colours = stretched_rgb(scene)
    true_rings = [] if truth is None else view.rings(outline(truth))
    axes = scene_part.subplots(*((1, len(pieces)) if tall else (len(pieces), 1)), squeeze=False).ravel()
    for panel, window in zip(axes, pieces, strict=True):
        _overview(panel, view, colours, window, plumes, true_rings)
    if close_part is not None:
        _close_views(close_part, (down, across), view, colours, maps, close, true_rings)
    figure.suptitle(title, fontsize=12, color=_INK, parse_math=False)  # a file may be called anything
    with whole_file(path) as partial:
        FigureCanvasAgg(figure).print_figure(partial, dpi=dpi, format="png")


def _pieces(shape: tuple[int, int], aspect: float) -> list[tuple[slice, slice]]:
    """The map whole, or for long strips in so many equal pieces that each is of a shape one can look at."""
    rows, cols = shape
    tall = rows >= cols * aspect
    form = rows / (cols * aspect) if tall else cols * aspect / rows
    count = int(np.clip(np.ceil(form / _LONGEST_ASPECT), 1, _MOST_PIECES))
    edges = np.linspace(0, rows if tall else cols, count + 1).round().astype(int)
    cuts = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    return [(cut, slice(0, cols)) if tall else (slice(0, rows), cut) for cut in cuts]


def _overview(
    axes: Any,
    view: MapView,
    colours: Float32[np.ndarray, "row col 3"],
    window: tuple[slice, slice],
    plumes: Sequence[MarkedPlume],
    true_rings: Sequence[Float[np.ndarray, "_corner 2"]],
) -> None:
    rows, cols = window
    step = max(1, max(rows.stop - rows.start, cols.stop - cols.start) // _MOST_PIXELS)
    _ground(axes, view, colours, window, step)
    for ring in true_rings:
        _ring(axes, ring, _TRUTH, 0.8)
    for marked in plumes[:_MOST_MARKED]:
        _mark(axes, view, marked, window)
    _edges(axes, view, window)
    _scale_bar(axes, view, window)
    _north(axes, view)


def _ground(
    axes: Any, view: MapView, colours: Float32[np.ndarray, "row col 3"], window: tuple[slice, slice], step: int
) -> None:
    rows, cols = (slice(side.start, side.stop, step) for side in window)
    picture = np.stack([view.grid.onto(colours[..., at], np.float32(1.0), rows, cols) for at in range(3)], axis=-1)
    extent = (window[1].start, window[1].stop, window[0].stop, window[0].start)
    axes.imshow(picture, extent=extent, interpolation="nearest" if step == 1 else "antialiased")
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    axes.set_aspect(1 / view.aspect)
    axes.set_anchor("N")


def _ring(axes: Any, ring: Float[np.ndarray, "corner 2"], colour: str, width: float) -> None:
    closed = np.concatenate([ring, ring[:1]])
    axes.plot(closed[:, 1], closed[:, 0], color=colour, linewidth=width)


def _mark(axes: Any, view: MapView, marked: MarkedPlume, window: tuple[slice, slice]) -> None:
    """Outline and label of a plume, as far as it lies in the window."""
    rings = view.rings(marked.plume.polygons)
    corners = np.concatenate(rings) if rings else np.empty((0, 2))
    inside = np.array(
        [(side.start <= corners[:, axis]) & (corners[:, axis] <= side.stop) for axis, side in enumerate(window)]
    )
    if not corners.size or not inside.all(axis=0).any():
        return
    for ring in rings:
        _ring(axes, ring, _OUTLINE, 1.0)
    (top, left), (bottom, right) = corners.min(axis=0), corners.max(axis=0)
    to_left = right > window[1].start + 0.85 * (window[1].stop - window[1].start)
    axes.annotate(
        marked.label,
        (left if to_left else right, np.clip((top + bottom) / 2, window[0].start, window[0].stop)),
        xytext=(-6 if to_left else 6, 0),
        textcoords="offset points",
        ha="right" if to_left else "left",
        va="center",
        color="white",
        fontsize=9,
        fontweight="bold",
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "black", "alpha": 0.65, "linewidth": 0},
        annotation_clip=True,
    )


def _edges(axes: Any, view: MapView, window: tuple[slice, slice]) -> None:
    """Longitude and latitude along the edges, or rows and columns where the scene is nowhere."""
    axes.tick_params(labelsize=7.5, colors=_INK, length=3)
    if not view.placed:
        axes.set_xlabel("column", fontsize=8)
        axes.set_ylabel("row", fontsize=8)
        return
    rows, cols = window
    wide, high = cols.stop - cols.start, rows.stop - rows.start
    most_x, most_y = (3, 6) if high > 2 * wide else (6, 6) if high > wide / 2 else (8, 3)
    across = view.ticks(1, cols.start, cols.stop, rows.stop, most_x)
    down = view.ticks(0, rows.start, rows.stop, cols.start, most_y)
    axes.set_xticks([tick.at for tick in across], [tick.label for tick in across])
    axes.set_yticks([tick.at for tick in down], [tick.label for tick in down])


def _scale_bar(axes: Any, view: MapView, window: tuple[slice, slice]) -> None:
    """A bar of a round number of metres, if the scene's position is known."""
    cell_m = view.cell_m[1]
    if not np.isfinite(cell_m) or cell_m <= 0:
        return
    from matplotlib.patheffects import withStroke

    rows, cols = window
    length_m, label = round_length_m(0.4 * (cols.stop - cols.start) * cell_m)
    start = cols.start + 0.05 * (cols.stop - cols.start)
    level = rows.stop - 0.03 * (rows.stop - rows.start)
    end = start + length_m / cell_m
    halo = [withStroke(linewidth=3.5, foreground="black", alpha=0.6)]
    axes.plot([start, end], [level, level], color="white", linewidth=2.5, solid_capstyle="butt", path_effects=halo)
    box = {"boxstyle": "round,pad=0.15", "facecolor": "black", "alpha": 0.5, "linewidth": 0}
    text = {"color": "white", "ha": "center", "va": "bottom", "fontsize": 8.5, "bbox": box}
    axes.annotate(label, ((start + end) / 2, level), xytext=(0, 4), textcoords="offset points", **text)


def _north(axes: Any, view: MapView) -> None:
    """An arrow to the north in the top right corner, if the scene's position is known."""
    if not np.isfinite(view.north_deg):
        return
    from matplotlib.offsetbox import AnchoredOffsetbox, DrawingArea
    from matplotlib.patches import Polygon
    from matplotlib.patheffects import withStroke
    from matplotlib.text import Text

    angle = np.deg2rad(view.north_deg)
    toward, aside = np.array([np.sin(angle), np.cos(angle)]), np.array([np.cos(angle), -np.sin(angle)])
    middle, halo = np.array([15.0, 15.0]), [withStroke(linewidth=2, foreground="black", alpha=0.7)]
    area = DrawingArea(30, 30)
    corners = np.stack([middle + 6 * toward, middle - 9 * toward + 4.5 * aside, middle - 6 * toward])
    mirrored = np.stack([middle + 6 * toward, middle - 9 * toward - 4.5 * aside, middle - 6 * toward])
    for side, colour in ((corners, "white"), (mirrored, "0.75")):
        area.add_artist(Polygon(side, closed=True, facecolor=colour, edgecolor="black", linewidth=0.4))
    at = middle + 12 * toward
    area.add_artist(
        Text(float(at[0]), float(at[1]), "N", color="white", fontsize=8, fontweight="bold", ha="center", va="center",
             path_effects=halo)
    )  # fmt: skip
    axes.add_artist(AnchoredOffsetbox("upper right", child=area, pad=0.1, borderpad=0.2, frameon=False))


def _close_views(
    part: Any,
    grid: tuple[int, int],
    view: MapView,
    colours: Float32[np.ndarray, "row col 3"],
    maps: SceneMaps,
    close: Sequence[MarkedPlume],
    true_rings: Sequence[Float[np.ndarray, "_corner 2"]],
) -> None:
    """The strongest plumes, each with its surroundings and the enhancement there."""
    from matplotlib.colors import ListedColormap

    scale = ramp(ENHANCEMENT.colours or "", FADE, 256)
    shades = ListedColormap(np.column_stack([scale.rgb, scale.alpha]) / 255)
    top = scale_top(maps)
    panels = part.subplots(*grid, squeeze=False).ravel()
    for panel in panels[len(close) :]:
        panel.set_axis_off()
    image = None
    for panel, marked in zip(panels, close, strict=False):
        window = close_window(view, marked.plume)
        if window is None:
            panel.set_axis_off()
            continue
        _ground(panel, view, colours, window, 1)
        shown = view.grid.shown(maps.usable, *window)
        values = np.ma.masked_where(~shown, view.grid.onto(maps.enhancement_ppm_m, np.float32(0), *window))
        extent = (window[1].start, window[1].stop, window[0].stop, window[0].start)
        shades_over = {"cmap": shades, "vmin": 0, "vmax": top, "interpolation": "nearest"}
        image = panel.imshow(values, extent=extent, aspect=1 / view.aspect, **shades_over)
        for ring in true_rings:
            _ring(panel, ring, _TRUTH, 1.0)
        for ring in view.rings(marked.plume.polygons):
            _ring(panel, ring, _OUTLINE, 1.2)
        panel.set_xlim(extent[:2])
        panel.set_ylim(extent[2:])
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_title(f"{marked.label}  {marked.caption}", fontsize=8.5, color=_INK, loc="left", parse_math=False)
        _scale_bar(panel, view, window)
    if image is not None:
        below = {"location": "top", "fraction": 0.035, "pad": 0.02, "shrink": 0.7, "panchor": False}
        bar = part.colorbar(image, ax=panels.tolist(), **below)
        bar.set_label(ENHANCEMENT.titled, fontsize=8.5)
        bar.ax.tick_params(labelsize=7.5)


def close_window(view: MapView, plume: Plume, least: int = 48) -> tuple[slice, slice] | None:
    """A square piece of ground around a plume, with as much ground as plume; None if its place is not known."""
    rings = view.rings(plume.polygons)
    if not rings:
        return None
    corners = np.concatenate(rings)
    (top, left), (bottom, right) = corners.min(axis=0), corners.max(axis=0)
    high = max(least, 1.7 * max(bottom - top, (right - left) * view.aspect))
    centre, sizes = ((top + bottom) / 2, (left + right) / 2), (high, high / view.aspect)
    found = []
    for middle, wanted, side in zip(centre, sizes, view.shape, strict=True):
        size = int(min(side, np.ceil(wanted)))
        first = int(np.clip(round(middle - size / 2), 0, side - size))
        found.append(slice(first, first + size))
    return found[0], found[1]
