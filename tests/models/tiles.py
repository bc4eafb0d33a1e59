"""Small random tiles with plumes put in by the physics, for model and training tests."""

from dataclasses import dataclass

import numpy as np

from flame.physics import beer_lambert, sensor, unit_absorption

BANDS = sensor("aviris-ng").bands.methane()
SPECTRUM = unit_absorption(BANDS)


@dataclass(frozen=True)
class ToyTile:
    """Layers named as those of a cached tile, each (channel?, row, col)."""

    radiance: np.ndarray
    rgb: np.ndarray
    label: np.ndarray
    valid: np.ndarray
    teacher: np.ndarray
    enhancement: np.ndarray


def _smooth(rng: np.random.Generator, size: int, scale: float) -> np.ndarray:
    """A unit-variance random field whose power falls beyond one cycle in `scale` pixels."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((size, size))) * np.exp(-((frequency * scale) ** 2))).real
    return (field - field.mean()) / field.std()


def toy_tile(rng: np.random.Generator, size: int = 48, plume: bool = True, peak_ppm_m: float = 4000.0) -> ToyTile:
    """Log-linear surfaces (three smooth materials and brightness), 0.5 % noise and at most one Gaussian plume."""
    x = np.linspace(-1, 1, len(BANDS))
    shapes = np.stack([np.ones_like(x), x, np.cos(3 * x), np.sin(7 * x)])
    log = np.log(0.5) + np.einsum(
        "mb,mrc->brc", shapes, np.stack([a * _smooth(rng, size, 6) for a in (0.4, 0.15, 0.08, 0.04)])
    )
    enhancement = np.zeros((size, size))
    if plume:
        row, col = rng.uniform(0.25, 0.75, 2) * size
        r, c = np.mgrid[:size, :size]
        turn = rng.uniform(0, 2 * np.pi)
        along = (r - row) * np.cos(turn) + (c - col) * np.sin(turn)
        across = (c - col) * np.cos(turn) - (r - row) * np.sin(turn)
        width = size * rng.uniform(0.04, 0.07)
        enhancement = peak_ppm_m * np.exp(-0.5 * (along / (2 * width)) ** 2 - 0.5 * (across / width) ** 2)
    radiance = beer_lambert(np.exp(log), enhancement, SPECTRUM)
    radiance *= 1 + 0.005 * rng.standard_normal(radiance.shape)
    noisy = enhancement + 500.0 * rng.standard_normal((size, size))
    return ToyTile(
        radiance.astype(np.float32),
        (5 * np.exp(log[:3])).astype(np.float32),
        enhancement > 1000.0,
        np.ones((size, size), bool),
        np.maximum(noisy, 0).astype(np.float32),
        enhancement.astype(np.float32),
    )
