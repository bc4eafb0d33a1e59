"""Reflectance of what the ground is made of: library spectra and the sharp absorbers they cannot resolve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from flame.physics import BandSet

__all__ = ["FEATURES", "SurfaceTable", "feature_absorbance", "solar_irradiance", "spectra_of", "surface_table"]


@dataclass(frozen=True)
class SurfaceTable:
    """The packaged library (`data/surfaces.npz`, made by `tools/make_surface_table.py`).

    Attributes:
        kind: Kind of each spectrum: soil, sand, canopy, dry_plant, char, road, roof or paint.
        visible: Reflectance at 460, 550 and 640 nm.
        swir: Reflectance on `swir_nm`.
        swir_nm: Wavelengths of the short-wave infrared part.
        visible_irradiance: Solar irradiance above the air at 460, 550 and 640 nm, in µW cm-2 nm-1.
        swir_irradiance: The same on `swir_nm`.
    """

    kind: np.ndarray
    visible: Float[np.ndarray, "spectrum 3"]
    swir: Float[np.ndarray, "spectrum wavelength"]
    swir_nm: Float[np.ndarray, " wavelength"]
    visible_irradiance: Float[np.ndarray, " 3"]
    swir_irradiance: Float[np.ndarray, " wavelength"]


@lru_cache(maxsize=1)
def surface_table() -> SurfaceTable:
    """The packaged library, read once."""
    with (files("flame.simulate") / "data" / "surfaces.npz").open("rb") as stream, np.load(stream) as stored:
        reflectance = stored["reflectance"].astype(np.float64) / float(stored["scale"])
        irradiance = stored["irradiance"].astype(np.float64)
        return SurfaceTable(
            kind=stored["kind"],
            visible=reflectance[:, :3],
            swir=reflectance[:, 3:],
            swir_nm=stored["swir_nm"],
            visible_irradiance=irradiance[:3],
            swir_irradiance=irradiance[3:],
        )


@lru_cache(maxsize=8)
def _library_at(bands: BandSet) -> Float[np.ndarray, "spectrum band"]:
    table = surface_table()
    smooth = CubicSpline(table.swir_nm, table.swir, axis=1)(np.clip(bands.centres_nm, 2090.0, 2510.0))
    return np.clip(smooth, 0.002, 1.0)


@lru_cache(maxsize=8)
def solar_irradiance(bands: BandSet) -> Float[np.ndarray, " band"]:
    """Solar irradiance above the air in each band, in µW cm-2 nm-1."""
    table = surface_table()
    return np.asarray(np.interp(bands.centres_nm, table.swir_nm, table.swir_irradiance))


@lru_cache(maxsize=1)
def _features() -> Float[np.ndarray, "spectrum feature"]:
    """Where each spectrum stands by colour, brightness and shape, in units in which one is a visible difference."""
    table = surface_table()
    swir, visible = np.log(table.swir), np.log(table.visible)
    level = swir.mean(axis=1, keepdims=True)
    return np.concatenate([(swir - level)[:, ::4] / 0.1, level / 0.2, visible / 0.4], axis=1)


def spectra_of(
    kind: str, count: int, bands: BandSet, rng: np.random.Generator, alike: float = 1.0
) -> tuple[Float[np.ndarray, "spectrum band"], Float[np.ndarray, "spectrum 3"]]:
    """Random library spectra of a kind: reflectance in the bands and at 460, 550 and 640 nm.

    `water` and `tar` are not in the library and are made here: nearly black, with a slight slope.

    Args:
        kind: A kind of `SurfaceTable`, `water` or `tar`.
        count: How many spectra.
        bands: Bands in which reflectance is wanted.
        rng: Source of randomness.
        alike: Share of the kind's spectra to choose from, the nearest neighbours of a random one: the soils of one
            place resemble each other.
    """
    nm = bands.centres_nm
    if kind == "water":
        level = np.exp(rng.uniform(np.log(0.0015), np.log(0.015), (count, 1)))
        swir = level * (1.0 - 0.3 * (nm - 2300.0) / 200.0)
        visible = np.array([0.06, 0.06, 0.03]) * rng.uniform(0.3, 1.8, (count, 1)) * rng.uniform(0.6, 1.4, (count, 3))
        return swir, visible
    if kind == "tar":
        level = np.exp(rng.uniform(np.log(0.008), np.log(0.04), (count, 1)))
        depth = rng.uniform(0.05, 0.3, (count, 1))
        return level * np.exp(-depth * feature_absorbance("hydrocarbon", bands)), np.repeat(level, 3, axis=1) * 1.2
    table = surface_table()
    pool = np.flatnonzero(table.kind == kind)
    place = _features()[pool]
    distance = np.linalg.norm(place - place[rng.integers(pool.size)], axis=1)
    pool = pool[np.argsort(distance, kind="stable")[: max(2, round(alike * pool.size))]]
    chosen = rng.choice(pool, size=count, replace=count > pool.size)
    return _library_at(bands)[chosen], table.visible[chosen]


FEATURES: dict[str, tuple[tuple[float, float, float], ...]] = {
    # Centre nm, half width (sigma) nm, relative depth. Shapes after the USGS spectral library's figures.
    "carbonate": ((2335.0, 13.0, 1.0), (2305.0, 20.0, 0.35), (2255.0, 12.0, 0.08), (2500.0, 25.0, 0.5)),
    "dolomite": ((2318.0, 13.0, 1.0), (2288.0, 20.0, 0.35), (2490.0, 25.0, 0.4)),
    "clay": ((2207.0, 9.0, 1.0), (2170.0, 14.0, 0.35), (2350.0, 10.0, 0.25), (2440.0, 14.0, 0.2)),
    "chlorite": ((2340.0, 12.0, 1.0), (2252.0, 9.0, 0.45), (2390.0, 12.0, 0.25)),
    "gypsum": ((2215.0, 16.0, 1.0), (2265.0, 10.0, 0.3), (2435.0, 25.0, 0.5)),
    "hydrocarbon": ((2310.0, 9.0, 1.0), (2348.0, 8.0, 0.75), (2450.0, 18.0, 0.4)),
    "plastic": ((2308.0, 6.0, 1.0), (2351.0, 6.0, 0.6), (2270.0, 8.0, 0.3), (2415.0, 9.0, 0.5)),
    "pvc_roof": ((2305.0, 9.0, 0.7), (2343.0, 8.0, 0.5), (2167.0, 10.0, 0.6), (2432.0, 12.0, 0.5)),
    "lignin": ((2105.0, 30.0, 0.6), (2272.0, 16.0, 0.6), (2330.0, 18.0, 1.0), (2380.0, 16.0, 0.3)),
}
"""Sharp absorbers near methane's lines: Gaussian bands, strongest depth 1."""


def feature_absorbance(name: str, bands: BandSet) -> Float[np.ndarray, " band"]:
    """Absorbance of a sharp absorber in each band, at unit strength."""
    nm = bands.centres_nm
    return np.asarray(sum(depth * np.exp(-0.5 * ((nm - at) / width) ** 2) for at, width, depth in FEATURES[name]))
