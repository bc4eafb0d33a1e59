"""How land is laid out: fractal ground, parcels, roads, well pads, tanks, buildings, rivers, shadow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32
from scipy import ndimage
from scipy.special import expit, softmax

from flame.simulate.fields import across_course, disk, fractal, rectangle, strip
from flame.simulate.settings import Range, SurfaceSettings

__all__ = ["BIOMES", "Biome", "Layout", "draw_layout"]

Cover = Float32[np.ndarray, "row col"]


@dataclass(frozen=True)
class Biome:
    """A kind of landscape.

    Attributes:
        ground: Kinds of material of the open ground and their weights.
        parcels: Factor on the chance of parcels.
        built: Factor on the numbers of roads, pads, tanks and buildings.
        water: Whether a shore runs through the tile.
    """

    ground: tuple[tuple[str, float], ...]
    parcels: float = 0.0
    built: float = 1.0
    water: bool = False


BIOMES: dict[str, Biome] = {
    "desert": Biome((("soil", 4.0), ("sand", 3.0), ("dry_plant", 0.5)), built=0.4),
    "oilfield": Biome((("soil", 5.0), ("sand", 1.0), ("dry_plant", 1.5), ("canopy", 0.5)), built=2.0),
    "farmland": Biome((("soil", 3.0), ("canopy", 3.0), ("dry_plant", 2.0)), parcels=2.5, built=0.6),
    "rangeland": Biome((("soil", 4.0), ("dry_plant", 3.0), ("canopy", 1.5)), built=0.5),
    "town": Biome((("soil", 2.0), ("road", 2.0), ("canopy", 2.0), ("dry_plant", 1.0)), parcels=1.0, built=5.0),
    "forest": Biome((("canopy", 5.0), ("dry_plant", 2.0), ("soil", 1.0), ("char", 0.5)), built=0.3),
    "coast": Biome((("sand", 3.0), ("soil", 2.0), ("canopy", 2.0), ("dry_plant", 1.0)), built=1.0, water=True),
}


@dataclass
class Layout:
    """Which material covers how much of each pixel, and how brightly it is lit. Grows while it is drawn.

    Attributes:
        kinds: Kind of each material.
        shares: Share of each pixel covered by each material; sums to one.
        light: Light on each pixel relative to flat open ground: relief, texture and shadow.
        heat: Share of each pixel filled by flame.
    """

    kinds: list[str]
    shares: list[Cover]
    light: Cover
    heat: Cover = field(init=False)

    def __post_init__(self) -> None:
        self.heat = np.zeros_like(self.light)

    def paint(self, kind: str, cover: Cover) -> None:
        """Lays a new material over what is there."""
        for share in self.shares:
            share *= 1.0 - cover
        self.kinds.append(kind)
        self.shares.append(cover.copy())

    def paint_over(self, material: int, cover: Cover) -> None:
        """Lays an existing material over what is there."""
        for share in self.shares:
            share *= 1.0 - cover
        self.shares[material] += cover

    def shade(self, cover: Cover, light: float) -> None:
        """Casts a shadow."""
        self.light *= 1.0 - cover * np.float32(1.0 - light)


def draw_layout(rng: np.random.Generator, shape: tuple[int, int], settings: SurfaceSettings) -> Layout:
    """One landscape."""
    names, weights = zip(*settings.biome_weights, strict=True)
    share = np.array(weights) / sum(weights)
    biome = BIOMES[str(rng.choice(names, p=share))]
    layout = _open_ground(rng, shape, biome, settings)
    if rng.uniform() < min(1.0, settings.parcel_chance * biome.parcels):
        _parcels(rng, shape, layout)
    if biome.water:
        _shore(rng, shape, layout)
    elif rng.uniform() < settings.water_chance:
        _river_or_pond(rng, shape, layout)
    _built(rng, shape, layout, biome.built * (min(shape) / 128.0), settings)
    _light(rng, shape, layout, settings)
    return layout


def _open_ground(rng: np.random.Generator, shape: tuple[int, int], biome: Biome, settings: SurfaceSettings) -> Layout:
    """Fractal mixtures: each material has its own field, and the largest wins softly."""
    count = settings.ground_spectra.count(rng)
    kinds, weights = zip(*biome.ground, strict=True)
    chosen = [str(k) for k in rng.choice(kinds, size=count, p=np.array(weights) / sum(weights))]
    fields = fractal(rng, shape, settings.roughness.draw(rng), count)
    lift = rng.normal(0.0, 0.7, (count, 1, 1)).astype(np.float32)
    shares = softmax((fields + lift) / np.float32(settings.blending.draw(rng)), axis=0)
    return Layout(chosen, list(shares.astype(np.float32)), np.ones(shape, np.float32))


def _parcels(rng: np.random.Generator, shape: tuple[int, int], layout: Layout) -> None:
    """Fields in a rotated, uneven grid; each holds one of a few crops."""
    angle = rng.uniform(0.0, np.pi / 2)
    row, col = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    u = row * np.cos(angle) + col * np.sin(angle)
    v = col * np.cos(angle) - row * np.sin(angle)
    size = float(np.exp(rng.uniform(np.log(8.0), np.log(60.0))))
    cell = np.zeros(shape, np.int64)
    for axis, stretch in ((u, 1.0), (v, float(np.exp(rng.uniform(-0.7, 0.7))))):
        span = float(np.ptp(axis))
        steps = size * stretch * rng.uniform(0.5, 1.5, int(span / (0.5 * size * stretch)) + 2)
        cell = cell * 1000 + np.searchsorted(float(axis.min()) - steps[0] * rng.uniform() + np.cumsum(steps), axis)
    _, cell = np.unique(cell, return_inverse=True)
    cell = cell.reshape(shape)
    crops = [str(k) for k in rng.choice(["soil", "canopy", "dry_plant"], size=5, p=[0.35, 0.4, 0.25])]
    crop_of = rng.integers(-1, len(crops), int(cell.max()) + 1)
    lit = np.exp(rng.normal(0.0, 0.15, int(cell.max()) + 1)).astype(np.float32)
    strength = np.float32(rng.uniform(0.6, 1.0))
    for index, kind in enumerate(crops):
        cover = ndimage.gaussian_filter((crop_of[cell] == index).astype(np.float32), 0.5)
        layout.paint(kind, strength * cover)
    layout.light *= ndimage.gaussian_filter(lit[cell], 0.5)


def _shore(rng: np.random.Generator, shape: tuple[int, int], layout: Layout) -> None:
    height = fractal(rng, shape, 3.2)[0]
    level = float(np.quantile(height, rng.uniform(0.1, 0.55)))
    layout.paint(
        "sand", np.clip(1.0 - np.abs(height - level) / np.float32(rng.uniform(0.05, 0.25)), 0, 1) * np.float32(0.8)
    )
    layout.paint("water", ndimage.gaussian_filter((height < level).astype(np.float32), 0.5))


def _river_or_pond(rng: np.random.Generator, shape: tuple[int, int], layout: Layout) -> None:
    if rng.uniform() < 0.6:
        width = rng.uniform(1.5, 10.0)
        across = across_course(rng, shape, rng.uniform(3.0, 15.0), rng.uniform(0, np.pi))
        layout.paint("canopy", 0.6 * strip(across, 2.2 * width))
        layout.paint("water", strip(across, width))
        return
    for _ in range(int(rng.integers(1, 4))):
        centre = tuple(rng.uniform(0, n) for n in shape)
        layout.paint(
            str(rng.choice(["water", "water", "tar"])), disk(shape, (centre[0], centre[1]), rng.uniform(2.0, 10.0))
        )


def _built(
    rng: np.random.Generator, shape: tuple[int, int], layout: Layout, factor: float, settings: SurfaceSettings
) -> None:
    """Roads, well pads with tanks, buildings with shadows, now and then a flare."""

    def how_many(kind: Range, most: int) -> int:
        return min(int(rng.poisson(kind.count(rng) * factor)), most)

    sun = rng.uniform(0, 2 * np.pi)
    grid_angle = rng.uniform(0, np.pi / 2)
    for _ in range(how_many(settings.roads, 10)):
        angle = grid_angle + np.pi / 2 * rng.integers(0, 2) + rng.normal(0.0, 0.1)
        kind = str(rng.choice(["road", "road", "soil", "sand"]))
        layout.paint(kind, strip(across_course(rng, shape, rng.uniform(0.0, 4.0), angle), rng.uniform(0.6, 3.0)))
    pads: list[tuple[float, float]] = []
    for _ in range(how_many(settings.pads, 8)):
        centre = (rng.uniform(0, shape[0]), rng.uniform(0, shape[1]))
        half = (rng.uniform(4.0, 12.0), rng.uniform(4.0, 12.0))
        layout.paint(str(rng.choice(["soil", "sand", "road"])), 0.9 * rectangle(shape, centre, half, grid_angle))
        pads.append(centre)
    _tanks(rng, shape, layout, how_many(settings.tanks, 30), pads, sun)
    _buildings(rng, shape, layout, how_many(settings.buildings, 45), grid_angle, sun)
    if rng.uniform() < settings.flare_chance:
        where = pads[0] if pads else (rng.uniform(0, shape[0]), rng.uniform(0, shape[1]))
        layout.heat += np.float32(10 ** rng.uniform(-4.5, -3.2)) * disk(shape, where, 0.8)


def _tanks(
    rng: np.random.Generator,
    shape: tuple[int, int],
    layout: Layout,
    count: int,
    pads: list[tuple[float, float]],
    sun: float,
) -> None:
    if not count:
        return
    first = len(layout.kinds)
    for kind in ("paint", "roof"):
        layout.paint(kind, np.zeros(shape, np.float32))
    for _ in range(count):
        near = pads[int(rng.integers(len(pads)))] if pads else (rng.uniform(0, shape[0]), rng.uniform(0, shape[1]))
        centre = (near[0] + rng.normal(0, 5.0), near[1] + rng.normal(0, 5.0))
        radius = rng.uniform(0.4, 3.0)
        shadow = (centre[0] + radius * np.cos(sun), centre[1] + radius * np.sin(sun))
        cover = disk(shape, centre, radius)
        layout.shade(disk(shape, shadow, radius) * (1 - cover), rng.uniform(0.05, 0.3))
        layout.paint_over(first + int(rng.integers(2)), cover)


def _buildings(
    rng: np.random.Generator, shape: tuple[int, int], layout: Layout, count: int, angle: float, sun: float
) -> None:
    if not count:
        return
    first = len(layout.kinds)
    kinds = ["roof", "roof", "paint", "tar", "plastic_roof"]
    for kind in kinds:
        layout.paint(kind, np.zeros(shape, np.float32))
    for _ in range(count):
        centre = (rng.uniform(0, shape[0]), rng.uniform(0, shape[1]))
        half = (rng.uniform(0.8, 5.0), rng.uniform(0.8, 5.0))
        height = rng.uniform(0.3, 3.0)
        cover = rectangle(shape, centre, half, angle)
        fallen = (centre[0] + height * np.cos(sun), centre[1] + height * np.sin(sun))
        layout.shade(rectangle(shape, fallen, half, angle) * (1 - cover), rng.uniform(0.05, 0.3))
        layout.paint_over(first + int(rng.integers(len(kinds))), cover)


def _light(rng: np.random.Generator, shape: tuple[int, int], layout: Layout, settings: SurfaceSettings) -> None:
    """Texture, relief and cast shadow."""
    texture = settings.texture.draw(rng) * fractal(rng, shape, rng.uniform(1.5, 3.0))[0]
    grain = settings.grain.draw(rng) * rng.standard_normal(shape, dtype=np.float32)
    height = fractal(rng, shape, 3.4)[0]
    slope = np.asarray(np.gradient(height, axis=int(rng.integers(2))), dtype=np.float32)
    slope *= np.float32(settings.relief.draw(rng) / max(float(slope.std()), 1e-6))
    layout.light *= np.exp(np.clip(texture + grain + slope, -2.5, 0.9)).astype(np.float32)
    if rng.uniform() < settings.shade_chance:
        cloud = fractal(rng, shape, 3.2)[0]
        edge = float(np.quantile(cloud, rng.uniform(0.5, 0.9)))
        cover = expit((cloud - edge) / np.float32(rng.uniform(0.01, 0.15)))
        layout.shade(cover.astype(np.float32), settings.shade_light.draw(rng))
