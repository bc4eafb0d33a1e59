"""Sunlight through air: the look-up table's clear sky with another air mass, water vapour and elevation.

The table's clear-sky radiance is split on its fine grid into sunlight and an absorbance. The share of the
absorbance that has methane's line shape belongs to the well-mixed background methane and scales with air mass and
pressure. The rest, in this window almost all water vapour, scales with air mass and the vapour column. Light is
attenuated on the fine grid and only then averaged over the bands, so that saturated lines stay saturated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Float32

from flame.physics import TABLE_AIRMASS, BandSet, airmass_of, gaussian_response, methane_table, path_factor
from flame.simulate.fields import fractal
from flame.simulate.materials import solar_irradiance, surface_table
from flame.simulate.settings import AtmosphereSettings

__all__ = ["AirState", "airmass_of", "band_sunlight", "draw_air", "fine_absorbance", "path_factor", "visible_sunlight"]

_TRANSPARENT = 0.99
"""Quantile of the radiance per sunlight that counts as air without absorption."""
_STEP = 0.02


@dataclass(frozen=True)
class AirState:
    """The air above one tile.

    Attributes:
        solar_zenith_deg: Sun's angle from the vertical.
        view_zenith_deg: Sensor's angle from the vertical.
        water_vapour: Vapour column relative to the table's.
        dry_column: Column of well-mixed gases relative to sea level.
        path_reflectance: Scattered light at 2.1 µm, as a reflectance.
        haze: The same at 460 nm.
        vapour_field: Relative departure of the vapour column from its mean, inside the tile.
        dry_field: The same for the well-mixed gases.
    """

    solar_zenith_deg: float
    view_zenith_deg: float
    water_vapour: float
    dry_column: float
    path_reflectance: float
    haze: float
    vapour_field: Float32[np.ndarray, "row col"]
    dry_field: Float32[np.ndarray, "row col"]

    @property
    def airmass(self) -> float:
        """Length of the light's path through the air, down and up, in vertical columns."""
        return airmass_of(self.solar_zenith_deg, self.view_zenith_deg)


def draw_air(rng: np.random.Generator, shape: tuple[int, int], settings: AtmosphereSettings) -> AirState:
    """One atmosphere; elevation moves vapour and dry gas together, weather moves vapour alone."""
    relief, weather = fractal(rng, shape, 3.6, 2)
    dry = -np.float32(settings.elevation_spread.draw(rng)) * relief
    vapour = np.float32(settings.vapour_spread.draw(rng)) * weather + 3.0 * dry
    return AirState(
        solar_zenith_deg=settings.solar_zenith_deg.draw(rng),
        view_zenith_deg=settings.view_zenith_deg.draw(rng),
        water_vapour=settings.water_vapour.draw(rng),
        dry_column=settings.dry_column.draw(rng),
        path_reflectance=settings.path_radiance.draw(rng),
        haze=settings.haze.draw(rng),
        vapour_field=np.clip(vapour, -0.3, 0.3),
        dry_field=np.clip(dry, -0.1, 0.1),
    )


@lru_cache(maxsize=1)
def fine_absorbance() -> tuple[
    Float[np.ndarray, " cell"], Float[np.ndarray, " cell"], Float[np.ndarray, " cell"], Float[np.ndarray, " cell"]
]:
    """Wavelengths (nm), sample weights, and the table's absorbance by background methane and by vapour."""
    table = methane_table()
    window = (table.wavelength_nm > 2085.0) & (table.wavelength_nm < 2515.0)
    nm, radiance = table.wavelength_nm[window], table.clear_radiance[window]
    surface = surface_table()
    per_sun = radiance / np.interp(nm, surface.swir_nm, surface.swir_irradiance)
    absorbance = np.maximum(-np.log(np.maximum(per_sun, 1e-9) / np.quantile(per_sun, _TRANSPARENT)), 0.0)
    shape = table.absorbance[-1][window]
    where = (nm > 2230.0) & (nm < 2370.0)
    design = np.stack([shape[where], np.ones(int(where.sum()))], axis=1)
    share = float(np.linalg.lstsq(design, absorbance[where], rcond=None)[0][0])
    methane = np.minimum(max(share, 0.0) * shape, absorbance)
    return nm, table.samples[window], methane, absorbance - methane


@lru_cache(maxsize=64)
def _response(bands: BandSet, shift_nm: float, fwhm_factor: float) -> Float32[np.ndarray, "band cell"]:
    nm, samples, _, _ = fine_absorbance()
    moved = BandSet(bands.centres_nm + shift_nm, bands.fwhm_nm * fwhm_factor)
    return gaussian_response(nm, moved, samples).astype(np.float32)


def band_sunlight(
    bands: BandSet,
    air: AirState,
    shift_nm: float,
    fwhm_factor: float,
    smile_nm: Float32[np.ndarray, "row col"],
) -> Float32[np.ndarray, "band row col"]:
    """Radiance of a white, flat, fully lit ground in each pixel, in µW cm-2 nm-1 sr-1.

    Around the tile's mean state the log-radiance is expanded to second order in the fields of vapour, dry gas and
    wavelength shift; over their ranges the error is below the noise.
    """
    _, _, methane, vapour = fine_absorbance()
    ratio = air.airmass / TABLE_AIRMASS
    # Quantised so that the response matrices are made once a process.
    shift, width = round(shift_nm / 0.1) * 0.1, round(fwhm_factor / 0.02) * 0.02

    def log_light(step_vapour: float, step_dry: float, step_nm: float) -> Float[np.ndarray, " band"]:
        depth = ratio * (air.dry_column * (1.0 + step_dry) * methane + air.water_vapour * (1.0 + step_vapour) * vapour)
        response = _response(bands, round(shift + step_nm, 3), round(width, 3))
        return np.asarray(np.log(response @ np.exp(-depth).astype(np.float32)))

    base = log_light(0.0, 0.0, 0.0)
    smile_step = 0.2
    terms, fields = [], []
    for field, step, names in (
        (air.vapour_field, _STEP, (1.0, 0.0, 0.0)),
        (air.dry_field, _STEP, (0.0, 1.0, 0.0)),
        (smile_nm, smile_step, (0.0, 0.0, 1.0)),
    ):
        up = log_light(*(step * n for n in names))
        down = log_light(*(-step * n for n in names))
        terms += [(up - down) / (2 * step), (up + down - 2 * base) / (2 * step**2)]
        fields += [field, np.square(field)]
    change = np.stack(terms, axis=1).astype(np.float32) @ np.stack(fields).reshape(len(fields), -1)
    cosine = np.cos(np.deg2rad(air.solar_zenith_deg))
    aerosol = np.exp(-0.03 * air.airmass)
    white = solar_irradiance(bands) * cosine / np.pi * aerosol
    light = np.exp(change + base[:, None].astype(np.float32)) * white[:, None].astype(np.float32)
    return np.asarray(light.reshape(len(bands), *smile_nm.shape))


def visible_sunlight(air: AirState) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]]:
    """Radiance of white ground and of the air itself at 640, 550 and 460 nm, in µW cm-2 nm-1 sr-1."""
    nm = np.array([640.0, 550.0, 460.0])
    rayleigh = 0.008569 * (nm / 1000.0) ** -4.0
    depth = 0.5 * rayleigh * air.dry_column + np.array([0.04, 0.05, 0.02])
    cosine = np.cos(np.deg2rad(air.solar_zenith_deg))
    top = surface_table().visible_irradiance[::-1] * cosine / np.pi
    return top * np.exp(-depth * air.airmass), top * air.haze * (nm / 460.0) ** -3.0
