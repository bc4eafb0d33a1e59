"""Tracers carried through a turbulent wind, and their sum as a column on the pixel grid.

The wind is a mean flow plus a two-dimensional field of eddies with Kolmogorov's spectrum that travels with the mean
flow (Taylor's frozen turbulence). Eddies larger than a puff displace it, smaller ones only make it grow: each tracer
reads the field smoothed to its own size. Mass is never created or lost, only moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
from jaxtyping import Complex64, Float32, Float64, Int

__all__ = ["Eddies", "Puffs", "carry", "make_eddies", "splat"]

_LEVELS = 5
_STEPS = 16


@dataclass(frozen=True, eq=False)
class Eddies:
    """A periodic field of eddies at several smoothing levels, twice as long down the wind as across it.

    Attributes:
        velocity_m_s: Along-wind plus 1j times cross-wind velocity in two layers of air, at each level.
        level_sigma_m: Gaussian smoothing of each level, increasing from 0.
        cell_m: Grid step.
    """

    velocity_m_s: Complex64[np.ndarray, "level y x layer=2"]
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
    rng: np.random.Generator,
    length_m: float,
    cells: int,
    outer_scale_m: float,
    speed_m_s: float,
    divergent_share: float,
) -> Eddies:
    """Two independent layers of eddies with root-mean-square speed `speed_m_s` in each direction.

    Args:
        rng: Source of randomness.
        length_m: Period of the field down the wind; should cover the plume.
        cells: Grid steps in that length, a power of two; half as many across.
        outer_scale_m: Wavelength of the largest eddies that hold energy.
        speed_m_s: Root-mean-square turbulent speed in each direction.
        divergent_share: Share of the kinetic energy that converges and diverges, as the projection of a
            three-dimensional flow does; it gathers the column into clumps and opens gaps.
    """
    shape = (cells // 2, cells)
    cell_m = length_m / cells
    k_y, k_x = (2 * np.pi * scipy.fft.fftfreq(n, d=cell_m).astype(np.float32) for n in shape)
    k2 = k_y[:, None] ** 2 + k_x**2
    # E(k) ~ k^-5/3, shared out over a ring of length k, is an amplitude of k^-4/3; flat beyond the outer scale.
    amplitude = (k2 + np.float32(2 * np.pi / outer_scale_m) ** 2) ** np.float32(-2 / 3)
    direction = (k_x + 1j * k_y[:, None]) / np.sqrt(np.maximum(k2, 1e-12))
    levels = np.concatenate([[0.0], 1.5 * cell_m * 2.0 ** np.arange(_LEVELS - 1)])
    blur = np.exp(np.float32(-0.5) * k2 * np.square(levels[:, None, None]).astype(np.float32))
    velocity = np.empty((_LEVELS, *shape, 2), np.complex64)
    for layer in range(2):
        # Spectra of two real potentials: a stream function, whose eddies turn, and one whose eddies converge.
        turning, converging = scipy.fft.fft2(rng.standard_normal((2, *shape), np.float32))
        mix = (
            np.float32(np.sqrt(1 - divergent_share)) * 1j * turning + np.float32(np.sqrt(divergent_share)) * converging
        )
        field = scipy.fft.ifft2(blur * (1j * direction * amplitude * mix))
        rms = np.sqrt(0.5 * np.mean(np.square(np.abs(field[0]))))
        velocity[..., layer] = field * np.float32(speed_m_s / rms)
    return Eddies(velocity, levels, cell_m)


def _read(
    eddies: Eddies, level: Int[np.ndarray, " puff"], place_m: Complex64[np.ndarray, " puff"]
) -> Complex64[np.ndarray, "puff layer"]:
    """Bilinear look-up of both layers' velocity, each puff at its own level."""
    _, rows, cols, _ = eddies.velocity_m_s.shape
    flat = eddies.velocity_m_s.reshape(-1, 2)
    x, y = place_m.real / np.float32(eddies.cell_m), place_m.imag / np.float32(eddies.cell_m)
    x0, y0 = np.floor(x), np.floor(y)
    fx, fy = (x - x0)[:, None], (y - y0)[:, None]
    c0, r0 = x0.astype(np.int32) & (cols - 1), y0.astype(np.int32) & (rows - 1)
    c1, r1 = (c0 + 1) & (cols - 1), (r0 + 1) & (rows - 1)
    upper, lower = (level * rows + r0) * cols, (level * rows + r1) * cols
    top = flat.take(upper + c0, axis=0) * (1 - fx) + flat.take(upper + c1, axis=0) * fx
    bottom = flat.take(lower + c0, axis=0) * (1 - fx) + flat.take(lower + c1, axis=0) * fx
    return np.asarray(top * (1 - fy) + bottom * fy)


def carry(
    eddies: Eddies,
    age_s: Float64[np.ndarray, " puff"],
    wind_m_s: float,
    start_m: Complex64[np.ndarray, " puff"],
    sigma0_m: float,
    growth: float,
    layer_turn: Float32[np.ndarray, " puff"],
) -> tuple[Complex64[np.ndarray, " puff"], Float64[np.ndarray, " puff"]]:
    """Where tracers are now, relative to the source, and how large their puffs have grown.

    In the frame of the mean wind a tracer of age `a` starts at `U a` downwind and drifts for `a` seconds through
    eddies that stand still. Gas mixes upwards into air that moves on its own: with age each tracer turns, at its own
    pace, from one layer of eddies to the other, so that gas released together fans out into sheets and filaments.

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
    travel_m = wind_m_s * age_s
    place = (start_m + travel_m).astype(np.complex64)
    step_s = (age_s / _STEPS).astype(np.float32)
    for i in range(_STEPS):
        life = (i + 0.5) / _STEPS
        sigma_m = np.hypot(sigma0_m, growth * life * travel_m)
        level = np.searchsorted(eddies.level_sigma_m, sigma_m, side="right") - 1
        velocity = _read(eddies, level, place)
        angle = layer_turn * np.float32(life)
        place += (np.cos(angle) * velocity[:, 0] + np.sin(angle) * velocity[:, 1]) * step_s
    return place, np.hypot(sigma0_m, growth * travel_m)


def splat(puffs: Puffs, shape: tuple[int, int], pixel_m: float, sizes: int = 8) -> Float32[np.ndarray, "row col"]:
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
    # The discrete Gaussian (Lindeberg 1990) has exactly this variance, never rings and never goes negative.
    k_row, k_col = 2 * np.pi * scipy.fft.fftfreq(rows), 2 * np.pi * scipy.fft.rfftfreq(cols)
    blur_row = np.exp(ladder[:, None] ** 2 * (np.cos(k_row) - 1)).astype(np.float32)
    blur_col = np.exp(ladder[:, None] ** 2 * (np.cos(k_col) - 1)).astype(np.float32)
    total = np.einsum("sij,si,sj->ij", spectra, blur_row, blur_col)
    column = scipy.fft.irfft2(total, s=(rows, cols))[pad : pad + shape[0], pad : pad + shape[1]]
    return np.maximum(column, 0.0).astype(np.float32) / np.float32(pixel_m**2)
