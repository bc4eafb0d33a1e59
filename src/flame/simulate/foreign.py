"""Things that no library has: patches and objects with spectra of their own, drawn afresh for every tile.

A network that only ever sees the simulator's materials, or those of a few real scenes, learns them by heart and takes
others for methane. Random absorption curves on random shapes teach it what a foreign material looks like.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from flame.physics import BandSet, unit_absorption
from flame.simulate.fields import fractal

__all__ = ["ForeignSettings", "draw_foreign"]

_FWHM_PER_SIGMA = 2.0 * np.sqrt(2.0 * np.log(2.0))
_LEAST_BLUR_NM, _MOST_BLUR_NM = 6.0, 40.0
"""Below, what absorbs would be methane itself, which a spectrum cannot tell from gas."""


@dataclass(frozen=True)
class ForeignSettings:
    """How many foreign things there are and how strange they look.

    Attributes:
        chance: Chance that a tile has any.
        most: Most kinds of them in one tile.
        weakest, strongest: Range of the curves' depth, as absorbance; drawn in the logarithm.
        narrowest_nm, widest_nm: Range of the features' standard deviation; drawn in the logarithm.
        contrast: Standard deviation of the log-brightness of objects against their ground.
        most_objects: Most objects of a kind.
        largest_px: Largest side of an object.
        methane_like: Share of the curves that are methane's own absorption, blurred and weighed anew along wavelength:
            paint, plastics, asphalt and carbonates absorb where it does.
        parcel_chance: Chance that a tile with foreign things is divided into parcels, like fields, each with its own
            mixture of a few curves.
        narrowest_parcel_px: Sides below twice this are not divided further.
    """

    chance: float = 0.7
    most: int = 5
    weakest: float = 0.002
    strongest: float = 0.2
    narrowest_nm: float = 4.0
    widest_nm: float = 80.0
    contrast: float = 0.5
    most_objects: int = 30
    largest_px: int = 24
    methane_like: float = 0.0
    parcel_chance: float = 0.35
    narrowest_parcel_px: float = 8.0


def _features(rng: np.random.Generator, bands: BandSet, settings: ForeignSettings) -> Float64[np.ndarray, " band"]:
    total = np.zeros(len(bands))
    for _ in range(int(rng.integers(1, 5))):
        centre = rng.uniform(2100.0, 2500.0)
        own = np.exp(rng.uniform(np.log(settings.narrowest_nm), np.log(settings.widest_nm)))
        seen = np.hypot(own, bands.fwhm_nm / _FWHM_PER_SIGMA)
        total += rng.normal() * own / seen * np.exp(-0.5 * np.square((bands.centres_nm - centre) / seen))
    return total


def _like_methane(rng: np.random.Generator, bands: BandSet) -> Float64[np.ndarray, " band"]:
    """Methane's absorption without its finest lines, some parts of it too strong and others too weak."""
    blur = np.exp(rng.uniform(np.log(_LEAST_BLUR_NM), np.log(_MOST_BLUR_NM)))
    apart = (bands.centres_nm[:, None] - bands.centres_nm) / blur
    near = np.exp(-0.5 * np.square(apart))
    blurred = -(near / near.sum(axis=1, keepdims=True)) @ unit_absorption(bands)
    knots = np.linspace(bands.centres_nm[0], bands.centres_nm[-1], 6)
    factor = np.exp(rng.uniform(0.0, 0.6) * np.interp(bands.centres_nm, knots, rng.normal(size=knots.size)))
    return np.asarray(blurred * factor)


def _curve(rng: np.random.Generator, bands: BandSet, settings: ForeignSettings) -> Float64[np.ndarray, " band"]:
    """A spectrum of a few features, as the bands see it."""
    # No draw at all where none is like methane: tiles without keep their bytes.
    if settings.methane_like and rng.uniform() < settings.methane_like:
        total = _like_methane(rng, bands)
    else:
        total = _features(rng, bands, settings)
    depth = np.exp(rng.uniform(np.log(settings.weakest), np.log(settings.strongest)))
    return np.asarray(depth * total / max(1e-9, float(np.abs(total).max())))


def _objects(
    rng: np.random.Generator, shape: tuple[int, int], settings: ForeignSettings
) -> Float32[np.ndarray, "row col"]:
    """Rectangles and disks, some faint, with sharp borders."""
    layer = np.zeros(shape, np.float32)
    for _ in range(int(rng.integers(1, settings.most_objects + 1))):
        high, wide = (int(np.ceil(np.exp(rng.uniform(0, np.log(settings.largest_px))))) for _ in range(2))
        row, col = (int(rng.integers(0, side)) for side in shape)
        part = (slice(row, min(row + high, shape[0])), slice(col, min(col + wide, shape[1])))
        value = np.float32(rng.uniform(0.3, 1.0))
        if rng.uniform() < 0.4:
            rows, cols = np.mgrid[part]
            inside = np.square((rows - row + 0.5) / high - 0.5) + np.square((cols - col + 0.5) / wide - 0.5) <= 0.25
            layer[part] = np.where(inside, value, layer[part])
        else:
            layer[part] = value
    return layer


def _patch(rng: np.random.Generator, shape: tuple[int, int]) -> Float32[np.ndarray, "row col"]:
    """A part of the ground with a soft or sharp border."""
    field = fractal(rng, shape, float(rng.uniform(1.5, 3.5)))[0]
    edge = np.float32(np.quantile(field, rng.uniform(0.4, 0.97)))
    softness = np.float32(rng.uniform(0.02, 0.6) * float(field.std()))
    return np.asarray(np.clip((field - edge) / softness + np.float32(0.5), 0, 1), dtype=np.float32)


def _parcels(
    rng: np.random.Generator, shape: tuple[int, int], settings: ForeignSettings
) -> Int64[np.ndarray, "row col"]:
    """Number of the parcel that each pixel lies in: a turned rectangle, divided again and again."""
    turn = rng.uniform(0, np.pi)
    rows, cols = np.mgrid[: shape[0], : shape[1]]
    places = np.stack([rows * np.cos(turn) + cols * np.sin(turn), cols * np.cos(turn) - rows * np.sin(turn)])
    smallest = settings.narrowest_parcel_px * np.exp(rng.uniform(0, 1))
    number = np.zeros(shape, dtype=np.int64)
    waiting = [(0, places.min(axis=(1, 2)), places.max(axis=(1, 2)))]
    count = 1
    while waiting:
        own, low, high = waiting.pop()
        axis = int(np.argmax(high - low))
        if (high - low)[axis] < 2 * smallest or (own and rng.uniform() < 0.1):
            continue
        cut = rng.uniform(low[axis] + smallest, high[axis] - smallest)
        number[(number == own) & (places[axis] > cut)] = count
        left, right = high.copy(), low.copy()
        left[axis] = right[axis] = cut
        waiting += [(own, low, left), (count, right, high)]
        count += 1
    return number


def _add_parcels(
    rng: np.random.Generator, bands: BandSet, settings: ForeignSettings, total: Float32[np.ndarray, "band row col"]
) -> None:
    """Adds fields: in each a mixture of a few curves, with some texture, and its own brightness."""
    number = _parcels(rng, total.shape[1:], settings)
    kinds = int(rng.integers(1, 4))
    texture = np.float32(1) + np.float32(rng.uniform(0, 0.3)) * fractal(rng, total.shape[1:], 2.0)[0]
    for _ in range(kinds):
        amount = rng.normal(size=int(number.max()) + 1).astype(np.float32)[number] * texture
        total -= _curve(rng, bands, settings).astype(np.float32)[:, None, None] * amount
    total += rng.normal(0.0, 0.6 * settings.contrast, int(number.max()) + 1).astype(np.float32)[number]


def draw_foreign(
    rng: np.random.Generator, bands: BandSet, shape: tuple[int, int], settings: ForeignSettings
) -> Float32[np.ndarray, "band row col"] | None:
    """What foreign things add to log-radiance; None for a tile without."""
    if rng.uniform() >= settings.chance:
        return None
    count = int(rng.integers(1, settings.most + 1))
    curves, maps = np.zeros((len(bands), count)), np.zeros((count, *shape), np.float32)
    for kind in range(count):
        objects = rng.uniform() < 0.6
        maps[kind] = _objects(rng, shape, settings) if objects else _patch(rng, shape)
        flat = rng.normal(0.0, settings.contrast) if objects else rng.normal(0.0, 0.3 * settings.contrast)
        curves[:, kind] = flat - _curve(rng, bands, settings)
    mixed = (curves.astype(np.float32) @ maps.reshape(count, -1)).reshape(len(bands), *shape)
    if rng.uniform() < settings.parcel_chance:
        _add_parcels(rng, bands, settings, mixed)
    return np.asarray(mixed)
