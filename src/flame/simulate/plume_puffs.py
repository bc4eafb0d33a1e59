"""Tracers carried through a turbulent wind, and their sum as a column on the pixel grid.

The wind is a mean flow plus a two-dimensional field of eddies with Kolmogorov's spectrum that travels with the mean
flow (Taylor's frozen turbulence). Eddies larger than a puff displace it, smaller ones only make it grow: each tracer
reads the field smoothed to its own size. Mass is never created or lost, only moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
from jaxtyping import Complex64, Float32, Float64

__all__ = ["Eddies", "Puffs", "carry", "make_eddies", "splat"]

_FIELD_CELLS = 128
_LEVELS = 6
_STEPS = 24


@dataclass(frozen=True, eq=False)
class Eddies:
    """A periodic field of eddies at several smoothing levels.

    Attributes:
        velocity_m_s: Along-wind plus 1j times cross-wind velocity, for each of two air layers and each level.
        level_sigma_m: Gaussian smoothing of each level, increasing from 0.
        cell_m: Grid step; the field repeats after `_FIELD_CELLS` steps.
    """

    velocity_m_s: Complex64[np.ndarray, "layer level y x"]
    level_sigma_m: Float64[np.ndarray, " level"]
    cell_m: float


@dataclass(frozen=True, eq=False)
class Puffs:
    """Gaussian puffs of methane.

    Attributes:
        x_m: Place of each centre, column direction.
        y_m: Place of each centre, row direction.
        sigma_m: Standard deviation of each puff.
        mass_kg: Mass of each puff.
    """

    x_m: Float64[np.ndarray, " puff"]
    y_m: Float64[np.ndarray, " puff"]
    sigma_m: Float64[np.ndarray, " puff"]
    mass_kg: Float64[np.ndarray, " puff"]


def make_eddies(
    rng: np.random.Generator, extent_m: float, outer_scale_m: float, speed_m_s: float, divergent_share: float
) -> Eddies:
    """Two independent layers of eddies with root-mean-square speed `speed_m_s` in each direction.

    Args:
        rng: Source of randomness.
        extent_m: Period of the field; should cover the plume.
        outer_scale_m: Wavelength of the largest eddies with energy.
        speed_m_s: Root-mean-square turbulent speed in each direction.
        divergent_share: Share of the kinetic energy that converges and diverges, as the projection of a
            three-dimensional flow does; it gathers the column into clumps and opens gaps.
    """
    n = _FIELD_CELLS
    cell_m = extent_m / n
    k = 2 * np.pi * scipy.fft.fftfreq(n, d=cell_m)
    kx, ky = np.meshgrid(k, k)
    k2 = kx**2 + ky**2
    # E(k) ~ k^-5/3 in two dimensions spreads over rings of length k: amplitude k^-4/3, flat below the outer scale.
    outer_k2 = (2 * np.pi / outer_scale_m) ** 2
    amplitude = (k2 + outer_k2) ** (-2.0 / 3.0)
    amplitude[0, 0] = 0.0
    direction = np.divide(kx + 1j * ky, np.sqrt(k2), out=np.zeros((n, n), np.complex128), where=k2 > 0)
    levels = np.concatenate([[0.0], cell_m * 2.0 ** np.arange(_LEVELS - 1)])
    blur = np.exp(-0.5 * k2 * levels[:, None, None] ** 2)
    layers = []
    for _ in range(2):
        # The spectra of two real potentials: turning (stream function) and converging (velocity potential).
        turning, converging = (scipy.fft.fft2(rng.standard_normal((n, n))) for _ in range(2))
        mix = np.sqrt(1 - divergent_share) * 1j * turning + np.sqrt(divergent_share) * converging
        spectrum = 1j * direction * amplitude * mix
        field = scipy.fft.ifft2((spectrum * blur).astype(np.complex64), axes=(-2, -1))
        rms = np.sqrt(0.5 * np.mean(np.abs(field[0]) ** 2))
        layers.append(field * np.float32(speed_m_s / rms))
    return Eddies(np.stack(layers).astype(np.complex64), levels, cell_m)


def _read(eddies: Eddies, layer: int, level: np.ndarray, place_m: np.ndarray) -> np.ndarray:
    """Bilinear look-up of one layer's velocity at complex places, each at its own level."""
    n = _FIELD_CELLS
    x, y = place_m.real / eddies.cell_m, place_m.imag / eddies.cell_m
    x0, y0 = np.floor(x), np.floor(y)
    fx, fy = x - x0, y - y0
    c0, r0 = x0.astype(np.intp) % n, y0.astype(np.intp) % n
    c1, r1 = (c0 + 1) % n, (r0 + 1) % n
    flat = eddies.velocity_m_s[layer].reshape(-1)
    base = level * (n * n)
    upper = flat.take(base + r0 * n + c0) * (1 - fx) + flat.take(base + r0 * n + c1) * fx
    lower = flat.take(base + r1 * n + c0) * (1 - fx) + flat.take(base + r1 * n + c1) * fx
    return np.asarray(upper * (1 - fy) + lower * fy)


def carry(
    eddies: Eddies,
    age_s: Float64[np.ndarray, " puff"],
    wind_m_s: float,
    start_m: np.ndarray,
    sigma0_m: float,
    growth: float,
    layer_turn: Float64[np.ndarray, " puff"],
) -> tuple[np.ndarray, Float64[np.ndarray, " puff"]]:
    """Where tracers are now, relative to the source, and how large their puffs have grown.

    In the frame of the mean wind a tracer of age `a` starts at `U a` downwind and drifts for `a` seconds through
    eddies that stand still. Layers of air slide over each other, so a tracer turns from one to the other with age.

    Args:
        eddies: The turbulent part of the wind.
        age_s: Time since release of each tracer.
        wind_m_s: Mean wind U.
        start_m: Where inside the source each tracer left, complex (along wind, cross wind).
        sigma0_m: Puff size at release.
        growth: Growth of the puff's standard deviation per metre of mean travel.
        layer_turn: Angle by which each tracer turns from the first layer to the second over its life.

    Returns:
        Complex places (along wind, cross wind) in metres from the source, and puff sizes in metres.
    """
    place = start_m + wind_m_s * age_s
    step_s = age_s / _STEPS
    sigma_end = np.sqrt(sigma0_m**2 + (growth * wind_m_s * age_s) ** 2)
    for i in range(_STEPS):
        life = (i + 0.5) / _STEPS
        sigma = np.sqrt(sigma0_m**2 + (growth * wind_m_s * age_s * life) ** 2)
        level = np.searchsorted(eddies.level_sigma_m, sigma, side="right") - 1
        angle = layer_turn * life
        velocity = np.cos(angle) * _read(eddies, 0, level, place) + np.sin(angle) * _read(eddies, 1, level, place)
        place = place + velocity * step_s
    return place, sigma_end


def splat(puffs: Puffs, shape: tuple[int, int], pixel_m: float, sizes: int = 10) -> Float32[np.ndarray, "row col"]:
    """Column mass of the puffs on the pixel grid, in kg m-2.

    Puffs are shared out between a few sizes (conserving mass and variance); each size is deposited bilinearly and all
    are blurred at once in Fourier space on a padded grid, so nothing wraps around.
    """
    sigma_px = np.maximum(puffs.sigma_m / pixel_m, 1e-3)
    widest = float(sigma_px.max(initial=0.0))
    pad = int(np.ceil(3.5 * widest)) + 2
    rows, cols = (scipy.fft.next_fast_len(s + 2 * pad, real=True) for s in shape)
    x, y = puffs.x_m / pixel_m - 0.5 + pad, puffs.y_m / pixel_m - 0.5 + pad
    near = (x >= 0) & (x < cols - 1) & (y >= 0) & (y < rows - 1)
    if not near.any():
        return np.zeros(shape, np.float32)
    x, y, sigma_px, mass = x[near], y[near], sigma_px[near], puffs.mass_kg[near]
    ladder = np.geomspace(sigma_px.min(), sigma_px.max() * (1 + 1e-9), sizes)
    lower = np.clip(np.searchsorted(ladder, sigma_px, side="right") - 1, 0, sizes - 2)
    span = np.maximum(ladder[lower + 1] ** 2 - ladder[lower] ** 2, 1e-12)
    share = np.clip((sigma_px**2 - ladder[lower] ** 2) / span, 0.0, 1.0)
    c0, r0 = x.astype(np.intp), y.astype(np.intp)
    fx, fy = x - c0, y - r0
    corner = r0 * cols + c0
    places, weights = [], []
    for offset, weight in ((0, (1 - fx) * (1 - fy)), (1, fx * (1 - fy)), (cols, (1 - fx) * fy), (cols + 1, fx * fy)):
        for size, part in ((lower, 1 - share), (lower + 1, share)):
            places.append(size * (rows * cols) + corner + offset)
            weights.append(mass * weight * part)
    deposit = np.bincount(np.concatenate(places), np.concatenate(weights), sizes * rows * cols)
    spectra = scipy.fft.rfft2(deposit.reshape(sizes, rows, cols).astype(np.float32))
    k2_row = (2 * np.pi * scipy.fft.fftfreq(rows)) ** 2
    k2_col = (2 * np.pi * scipy.fft.rfftfreq(cols)) ** 2
    blur_row = np.exp(-0.5 * ladder[:, None] ** 2 * k2_row).astype(np.float32)
    blur_col = np.exp(-0.5 * ladder[:, None] ** 2 * k2_col).astype(np.float32)
    total = np.einsum("sij,si,sj->ij", spectra, blur_row, blur_col)
    column = scipy.fft.irfft2(total, s=(rows, cols))[pad : pad + shape[0], pad : pad + shape[1]]
    return np.maximum(column, 0.0).astype(np.float32) / np.float32(pixel_m**2)
