"""The maps of a scene as pictures small enough for a page: the whole scene coarsely, each plume in full."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from flame.products.colours import Photo, class_png, palette_png, photo, ramp
from flame.products.layers import FADE, LAYERS, SceneMaps, quality_classes, scale_top
from flame.products.map_view import MapView

__all__ = ["Legend", "Overview", "Scales", "close_pictures", "overview"]

_MOST_PIXELS = 1_100_000


@dataclass(frozen=True)
class Scales:
    """Tops of the colour scales of a scene, so that every picture of it has the same.

    Attributes:
        enhancement_ppm_m: Enhancement.
        sigma_ppm_m: Sigma.
    """

    enhancement_ppm_m: float
    sigma_ppm_m: float

    @classmethod
    def of(cls, maps: SceneMaps) -> Scales:
        """The scales of a scene."""
        top = scale_top(maps)
        if maps.sigma_ppm_m is None:
            return cls(top, top)
        known = maps.sigma_ppm_m[maps.shown("sigma")]
        high = 2.5 * float(np.median(known)) if known.size else 1.0  # dark ground would stretch it without end
        step = 10.0 ** math.floor(math.log10(max(high, 1e-6))) / 2
        return cls(top, float(np.ceil(high / step) * step))

    def top(self, name: str) -> float:
        """The top of a map's scale."""
        return {"enhancement": self.enhancement_ppm_m, "sigma": self.sigma_ppm_m}.get(name, 1.0)


@dataclass(frozen=True)
class Legend:
    """The colour scale of a map.

    Attributes:
        picture: Its colours from low to high, as a PNG of one row.
        low: Number at its low end.
        high: Number at its high end.
    """

    picture: bytes
    low: float
    high: float


@dataclass(frozen=True)
class Overview:
    """A whole scene as pictures of one size.

    Attributes:
        step: Cells of the map that are one pixel of the pictures.
        size: Width and height of the pictures.
        ground: What the eye would see.
        layers: A PNG of each map by name.
        legends: Colour scales of those maps that have one.
    """

    step: int
    size: tuple[int, int]
    ground: Photo
    layers: dict[str, bytes]
    legends: dict[str, Legend]


def overview(view: MapView, colours: Float32[np.ndarray, "row col 3"], maps: SceneMaps, scales: Scales) -> Overview:
    """Pictures of a whole scene with at most about a million pixels each.

    Args:
        view: Its map.
        colours: What the eye would see, in scene pixels.
        maps: Its maps.
        scales: Tops of the colour scales.
    """
    rows, cols = view.shape
    step = max(1, math.ceil(math.sqrt(rows * cols / _MOST_PIXELS)))
    whole = np.ones(view.scene_shape, np.bool_)
    ground = np.stack([_reduced(view, colours[..., at], whole, step, "mean")[0] for at in range(3)], axis=-1)
    there = _reduced(view, whole.astype(np.float32), whole, step, "max")[1]
    layers, legends = {}, {}
    for name in maps.names:
        kind = LAYERS[name]
        if name == "quality":
            quality, flags = maps.bands(name)
            place = _nearest(view, quality_classes(quality, flags), step)
            layers[name] = class_png(place, there)
            continue
        how = "mean" if name in ("enhancement", "sigma") else "max"
        values, shown = _reduced(view, maps.bands(name)[0].astype(np.float32, copy=False), maps.shown(name), step, how)
        layers[name] = _shaded(name, values, shown, scales)
        if kind.colours is not None:
            scale = ramp(kind.colours, FADE if name == "enhancement" else 0.0)
            line = np.arange(len(scale.rgb), dtype=np.uint8)[None]
            legends[name] = Legend(palette_png(line, scale.rgb, scale.alpha), 0.0, scales.top(name))
    return Overview(step, (ground.shape[1], ground.shape[0]), photo(ground, there), layers, legends)


def close_pictures(
    view: MapView,
    colours: Float32[np.ndarray, "row col 3"],
    maps: SceneMaps,
    scales: Scales,
    window: tuple[slice, slice],
) -> tuple[Photo, bytes]:
    """Ground and enhancement (PNG) of a window of the map, cell by cell."""
    ground = np.stack([view.grid.onto(colours[..., at], np.float32(0.9), *window) for at in range(3)], axis=-1)
    there = view.grid.shown(np.ones(view.scene_shape, np.bool_), *window)
    values = view.grid.onto(maps.enhancement_ppm_m, np.float32(0), *window)
    shown = view.grid.shown(maps.usable, *window)
    return photo(ground, there), _shaded("enhancement", values, shown, scales)


def _shaded(
    name: str, values: Float32[np.ndarray, "row col"], shown: Bool[np.ndarray, "row col"], scales: Scales
) -> bytes:
    if name == "mask":
        index = np.where(shown, (values > 0).astype(np.uint8), 2).astype(np.uint8)
        rgb = np.array([[0, 184, 217], [0, 184, 217]], np.uint8)
        return palette_png(index, rgb, np.array([0, 190], np.uint8))
    scale = ramp(str(LAYERS[name].colours), FADE if name == "enhancement" else 0.0)
    return palette_png(scale.index(values, 0.0, scales.top(name), shown), scale.rgb, scale.alpha)


def _reduced(
    view: MapView, layer: Float32[np.ndarray, "row col"], shown: Bool[np.ndarray, "row col"], step: int, how: str
) -> tuple[Float32[np.ndarray, "down across"], Bool[np.ndarray, "down across"]]:
    """A layer on the map with squares of `step` cells made one, and where any of them is shown."""
    rows, cols = view.shape
    values, there = [], []
    block = max(step, 512 // step * step)
    for first in range(0, rows, block):
        part = slice(first, min(first + block, rows))
        ok = view.grid.shown(shown, part)
        cells = np.where(ok, view.grid.onto(layer, layer.dtype.type(0), part), 0 if how == "mean" else -np.inf)
        pad = ((0, -ok.shape[0] % step), (0, -cols % step))
        squares = np.pad(cells, pad, constant_values=0 if how == "mean" else -np.inf)
        count = np.pad(ok, pad).reshape(squares.shape[0] // step, step, -1, step).sum(axis=(1, 3))
        squares = squares.reshape(squares.shape[0] // step, step, -1, step)
        found = squares.sum(axis=(1, 3)) / np.maximum(count, 1) if how == "mean" else squares.max(axis=(1, 3))
        values.append(np.where(count > 0, found, 0).astype(np.float32))
        there.append(count > 0)
    return np.concatenate(values), np.concatenate(there)


def _nearest(view: MapView, layer: UInt8[np.ndarray, "row col"], step: int) -> UInt8[np.ndarray, "down across"]:
    rows, cols = view.shape
    half = step // 2
    down, across = (
        np.minimum(np.arange(0, rows, step) + half, rows - 1),
        np.minimum(np.arange(0, cols, step) + half, cols - 1),
    )
    return np.stack([view.grid.onto(layer, np.uint8(0), slice(at, at + 1))[0][across] for at in down])
