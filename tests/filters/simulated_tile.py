"""A small labelled tile from first principles: clear-sky radiance x mixed surfaces x methane, then sensor noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from flame.physics import (
    BandSet,
    beer_lambert,
    clear_sky_radiance,
    noise_model,
    sensor,
    transmittance,
    unit_absorption,
)


@dataclass(frozen=True)
class SimulatedTile:
    radiance: np.ndarray
    bands: BandSet
    valid: np.ndarray
    enhancement_ppm_m: np.ndarray

    @property
    def inputs(self) -> tuple[np.ndarray, BandSet, np.ndarray]:
        return self.radiance, self.bands, self.valid


def mixed_surfaces(rng: np.random.Generator, bands: BandSet, size: int, contrast: float) -> np.ndarray:
    """Four reflectance spectra with smooth, positive abundances."""
    x = np.linspace(-1.0, 1.0, len(bands))
    spectra = np.stack(
        [np.ones_like(x), 1 + 0.3 * x, 1 - 0.4 * np.exp(-(((x + 0.3) / 0.1) ** 2)), 0.5 + 0.2 * np.cos(5 * x)]
    )
    fields = np.stack([gaussian_filter(rng.standard_normal((size, size)), 4.0, mode="wrap") for _ in spectra])
    fields /= fields.std(axis=(1, 2), keepdims=True)
    return np.tensordot(spectra, 0.15 * np.exp(contrast * fields), axes=(0, 0))


def simulated_tile(
    seed: int = 0,
    size: int = 96,
    peak_ppm_m: float = 3000.0,
    contrast: float = 0.3,
    law: str = "true",
    shape: str = "gaussian",
    sensor_name: str = "aviris-ng",
) -> SimulatedTile:
    """A tile with one plume in its middle.

    Args:
        seed: Seed of surfaces and noise.
        size: Rows and columns.
        peak_ppm_m: Enhancement at the plume's middle.
        contrast: Spread of the logarithm of surface abundances; 0 is a homogeneous tile.
        law: `true` for the saturating transmittance, `exponential` for the paper's Beer-Lambert law.
        shape: `gaussian`, or `box` for a plume of one enhancement over 1 % of the tile.
        sensor_name: Whose bands and noise.
    """
    rng = np.random.default_rng(seed)
    bands = sensor(sensor_name).bands.methane()
    background = clear_sky_radiance(bands)[:, None, None] * mixed_surfaces(rng, bands, size, contrast)
    row, col = np.mgrid[:size, :size] / size
    if shape == "box":
        alpha = np.where((np.abs(row - 0.5) <= 0.05) & (np.abs(col - 0.5) <= 0.05), peak_ppm_m, 0.0)
    else:
        alpha = peak_ppm_m * np.exp(-((row - 0.5) ** 2 / 0.002 + (col - 0.4) ** 2 / 0.01))
        alpha[alpha < 50] = 0.0
    clean = background * transmittance(alpha, bands)
    if law == "exponential":
        clean = beer_lambert(background, alpha, unit_absorption(bands))
    noisy = clean + rng.standard_normal(clean.shape) * noise_model(sensor_name).sigma(clean, bands)
    return SimulatedTile(noisy.astype(np.float32), bands, np.ones((size, size), dtype=bool), alpha)
