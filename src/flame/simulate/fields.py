"""Random fields and soft-edged shapes on the pixel grid."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float32

__all__ = ["across_course", "disk", "fractal", "rectangle", "strip"]


def fractal(
    rng: np.random.Generator, shape: tuple[int, int], slope: float, count: int = 1
) -> Float32[np.ndarray, "count row col"]:
    """Gaussian random fields of mean 0 and standard deviation 1 whose power falls as frequency to the power -slope.

    They are cut from a grid a quarter larger, so that opposite edges of the tile do not match.
    """
    rows, cols = (int(np.ceil(1.25 * n)) for n in shape)
    frequency = np.hypot(np.fft.fftfreq(rows)[:, None], np.fft.rfftfreq(cols)[None, :])
    frequency[0, 0] = np.inf
    amplitude = (frequency ** (-slope / 2.0)).astype(np.float32)
    white = rng.standard_normal((count, rows, cols), dtype=np.float32)
    field = np.fft.irfft2(np.fft.rfft2(white) * amplitude, s=(rows, cols))[:, : shape[0], : shape[1]].astype(np.float32)
    field -= field.mean(axis=(1, 2), keepdims=True)
    return np.asarray(field / np.maximum(field.std(axis=(1, 2), keepdims=True), 1e-6))


def _grid(shape: tuple[int, int]) -> tuple[Float[np.ndarray, "row 1"], Float[np.ndarray, "1 col"]]:
    return np.arange(shape[0], dtype=np.float32)[:, None], np.arange(shape[1], dtype=np.float32)[None, :]


def rectangle(
    shape: tuple[int, int], centre: tuple[float, float], half: tuple[float, float], angle_rad: float
) -> Float32[np.ndarray, "row col"]:
    """Coverage (0 to 1, part-covered at the edge) of a rotated rectangle with these half sides, in pixels."""
    row, col = _grid(shape)
    cos, sin = np.float32(np.cos(angle_rad)), np.float32(np.sin(angle_rad))
    u = np.abs((row - centre[0]) * cos + (col - centre[1]) * sin)
    v = np.abs((col - centre[1]) * cos - (row - centre[0]) * sin)
    cover = np.clip(half[0] + 0.5 - u, 0.0, 1.0) * np.clip(half[1] + 0.5 - v, 0.0, 1.0)
    return np.asarray(cover, dtype=np.float32)


def disk(shape: tuple[int, int], centre: tuple[float, float], radius: float) -> Float32[np.ndarray, "row col"]:
    """Coverage of a disk with this radius in pixels."""
    row, col = _grid(shape)
    cover = np.clip(radius + 0.5 - np.hypot(row - centre[0], col - centre[1]), 0.0, 1.0)
    return np.asarray(min(1.0, np.pi * radius**2) * cover, dtype=np.float32)


def across_course(
    rng: np.random.Generator, shape: tuple[int, int], wander: float, angle_rad: float
) -> Float32[np.ndarray, "row col"]:
    """Distance of each pixel from the course of a road or river across the tile, in pixels, sideways.

    Args:
        rng: Source of randomness.
        shape: Rows and columns.
        wander: Standard deviation of the course about a straight line, in pixels.
        angle_rad: Direction of that line.
    """
    row, col = _grid(shape)
    cos, sin = np.float32(np.cos(angle_rad)), np.float32(np.sin(angle_rad))
    middle = (shape[0] - 1) / 2, (shape[1] - 1) / 2
    along = (row - middle[0]) * cos + (col - middle[1]) * sin
    across = (col - middle[1]) * cos - (row - middle[0]) * sin
    reach = int(np.ceil(np.hypot(*shape))) + 2
    line = wander * fractal(rng, (1, reach), 3.0)[0, 0] + rng.uniform(-0.45, 0.45) * min(shape)
    return np.asarray(across - np.interp(along + reach / 2, np.arange(reach), line), dtype=np.float32)


def strip(across: Float32[np.ndarray, "row col"], width: float) -> Float32[np.ndarray, "row col"]:
    """Coverage of what runs along a course with this width, in pixels."""
    return np.asarray(min(1.0, width) * np.clip(width / 2 + 0.5 - np.abs(across), 0.0, 1.0), dtype=np.float32)
