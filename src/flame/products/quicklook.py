"""The quick look: the scene as the eye would see it, the plumes on it, and how strong they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from flame.detection import Plume, outline
from flame.files import whole_file
from flame.products.geolocate import pixel_area_m2
from flame.scene import AnyScene

__all__ = ["plot_quicklook", "stretched_rgb"]

_PLUME_COLOURS = "inferno"
_OUTLINE = "#38e8ff"
_TRUTH = "#7dff5a"
_LABELLED_PLUMES = 12


def stretched_rgb(scene: AnyScene, step: int = 1) -> Float32[np.ndarray, "row col 3"]:
    """Colours for the screen, 0 to 1; grey from the first band if the sensor sees no colour. Invalid pixels dark.

    Args:
        scene: What to show.
        step: Every so many pixels.
    """
    layers = scene.colour()[:, ::step, ::step]
    out = np.full((*layers.shape[1:], 3), 0.08, dtype=np.float32)
    seen = scene.valid[::step, ::step] & np.isfinite(layers).all(axis=0)
    for at, layer in enumerate(layers):
        low, high = np.percentile(layer[seen], (1, 99)) if seen.any() else (0.0, 1.0)
        stretched = np.clip((layer[seen] - low) / max(float(high - low), 1e-12), 0, 1)
        out[seen, at] = np.power(stretched, 0.8)
    return out


def plot_quicklook(
    path: Path,
    scene: AnyScene,
    score_ppm_m: Float[np.ndarray, "row col"],
    mask: Bool[np.ndarray, "row col"],
    plumes: Sequence[Plume],
    title: str,
    truth: Bool[np.ndarray, "row col"] | None = None,
    dpi: int = 130,
) -> None:
    """Draws RGB with the plumes' outlines beside the methane score, into a PNG.

    Args:
        path: The PNG file.
        scene: What was looked at.
        score_ppm_m: Methane score.
        mask: Plume pixels.
        plumes: Their outlines are drawn and the strongest numbered, as in the GeoJSON.
        title: Headline.
        truth: The true plume mask, if known; its outline is drawn over the score.
        dpi: Dots per inch.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, cols = scene.shape
    height = float(np.clip(5.2 * rows / cols, 3.0, 16.0))
    figure = Figure(figsize=(12.4, height + 0.9), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    # The picture has some 750 pixels across and 1,000 to 2,000 down: more only cost memory.
    step = max(1, rows // 1000, cols // 750)
    spread = (-0.5, cols - 0.5, rows - 0.5, -0.5)
    colours = stretched_rgb(scene, step)
    left.imshow(colours, interpolation="nearest", extent=spread)
    left.set_title("RGB and plume outlines" if scene.has_rgb else "radiance and plume outlines", fontsize=10)
    grey = colours.mean(axis=2)
    right.imshow(grey, cmap="gray", vmin=0, vmax=1.6, interpolation="nearest", extent=spread)
    top = _upper(score_ppm_m, mask, scene.valid)
    shown = np.ma.masked_where(~mask[::step, ::step], score_ppm_m[::step, ::step])
    image = right.imshow(shown, cmap=_PLUME_COLOURS, vmin=0, vmax=top, interpolation="nearest", extent=spread)
    known = "; true outlines in green" if truth is not None else ""
    right.set_title(f"methane score inside plumes{known}", fontsize=10)
    for polygon in outline(truth) if truth is not None else ():
        _ring(right, polygon.exterior, _TRUTH)
    figure.colorbar(image, ax=right, label="methane score (ppm m)", fraction=0.046, pad=0.02)
    ordered = sorted(plumes, key=lambda plume: -plume.integrated_ppm_m_px)
    for number, plume in enumerate(ordered, start=1):
        _outline(left, plume, number if number <= _LABELLED_PLUMES else None)
    for axes in (left, right):
        axes.set_xlabel("column", fontsize=9)
        axes.tick_params(labelsize=8)
    left.set_ylabel("row", fontsize=9)
    _scale_bar(left, scene)
    figure.suptitle(title, fontsize=12, parse_math=False)  # a file may be called anything
    with whole_file(path) as partial:
        FigureCanvasAgg(figure).print_figure(partial, dpi=dpi, format="png")


def _upper(score: Float[np.ndarray, "row col"], mask: Bool[np.ndarray, "row col"], valid: np.ndarray) -> float:
    """Top of the colour bar: nearly the highest score inside plumes."""
    inside = score[mask & valid]
    return max(float(np.percentile(inside, 99)) if inside.size else 0.0, 100.0)


def _ring(axes: Any, ring: Int[np.ndarray, "corner 2"], colour: str) -> None:
    closed = np.concatenate([ring, ring[:1]]) - 0.5  # matplotlib counts from pixel centres
    axes.plot(closed[:, 1], closed[:, 0], color=colour, linewidth=0.9)


def _outline(axes: Any, plume: Plume, number: int | None) -> None:
    for polygon in plume.polygons:
        for ring in (polygon.exterior, *polygon.holes):
            _ring(axes, ring, _OUTLINE)
    if number is not None:
        axes.annotate(
            str(number),
            (plume.end_col - 0.5, plume.first_row - 0.5),
            xytext=(3, 3),
            textcoords="offset points",
            color="white",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "black", "alpha": 0.6, "linewidth": 0},
            annotation_clip=True,
        )


def _scale_bar(axes: Any, scene: AnyScene) -> None:
    """A bar of a round number of metres, if the scene's position is known."""
    if scene.geo is None:
        return
    rows, cols = scene.shape
    pixel_m = pixel_area_m2(scene.geo, rows / 2, cols / 2) ** 0.5
    if not np.isfinite(pixel_m) or pixel_m <= 0:
        return
    wanted = 0.2 * cols * pixel_m
    base = 10 ** np.floor(np.log10(wanted))
    length_m = base * max(step for step in (1, 2, 5) if step * base <= wanted)
    label = f"{length_m / 1000:g} km" if length_m >= 1000 else f"{length_m:g} m"
    start, level = 0.04 * cols, 0.955 * rows
    end = start + length_m / pixel_m
    axes.plot([start, end], [level, level], color="white", linewidth=3, solid_capstyle="butt")
    axes.text((start + end) / 2, level - 0.015 * rows, label, color="white", ha="center", va="bottom", fontsize=9)
