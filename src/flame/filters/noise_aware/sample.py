"""Whole rows of a tile, with the neighbours of every pixel, for its statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64

from flame.filters.background import usable_pixels
from flame.filters.errors import FilterError
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.pixels import Pixels

__all__ = ["FLOOR", "RowSample", "Scale", "draw_sample", "neighbour_weight", "ring_kernel"]

FLOOR = 0.2
"""Least radiance whose logarithm is taken, as a share of what a pixel of that brightness has in the band on average: a
value below it is noise, and its logarithm would outweigh all others."""

_DEAD_BAND = 1e-6
_MOST_LIGHT = 2.0


@dataclass(frozen=True, eq=False)
class Scale:
    """What brightness means in a tile.

    Attributes:
        reference: Mean spectrum m; a pixel's brightness is the sum of its radiance over the sum of m.
        live: Bands that vary. The others are not looked at.
        darkest, brightest: Brightness between which a pixel is used.
    """

    reference: Float64[np.ndarray, " band"]
    live: Bool[np.ndarray, " band"]
    darkest: float
    brightest: float

    @property
    def light(self) -> Float32[np.ndarray, " band"]:
        """Weights whose sum with a spectrum is its brightness."""
        total = float(self.reference[self.live].sum())
        return np.where(self.live, 1.0 / total, 0.0).astype(np.float32)

    @property
    def factor(self) -> Float32[np.ndarray, " band"]:
        """What radiance is multiplied by before its logarithm: units cancel, and numbers near zero lose no digits."""
        least = 1e-3 * self.reference[self.live].max()
        return np.where(self.live, 1.0 / np.maximum(self.reference, least), 0.0).astype(np.float32)

    def usable(self, brightness: Float32[np.ndarray, ...]) -> Bool[np.ndarray, ...]:
        """Which pixels are neither dark nor saturated."""
        return np.asarray((brightness >= self.darkest) & (brightness <= self.brightest))


@dataclass(frozen=True, eq=False)
class RowSample:
    """Every k-th row of a tile.

    Attributes:
        shape: Rows and columns of the sample.
        step: Rows of the tile from one to the next.
        usable: Pixels that count.
        brightness: Brightness of each pixel, (row, col) flattened.
        log_spectra: Log-radiance of each pixel over the reference.
        ring: Mean log-radiance of its neighbours, weighted by their light.
        ring_noise: Variance of noise in that mean, in units of the pixel's own.
        has_ring: Pixels that have neighbours.
    """

    shape: tuple[int, int]
    step: int
    usable: Bool[np.ndarray, " pixel"]
    brightness: Float32[np.ndarray, " pixel"]
    log_spectra: Float32[np.ndarray, "band pixel"]
    ring: Float32[np.ndarray, "band pixel"]
    ring_noise: Float32[np.ndarray, " pixel"]
    has_ring: Bool[np.ndarray, " pixel"]


def ring_kernel() -> Float32[np.ndarray, "3 3"]:
    """Weights of the eight neighbours: nearer ones twice those at the corners."""
    kernel = np.outer([1.0, 2.0, 1.0], [1.0, 2.0, 1.0]).astype(np.float32)
    kernel[1, 1] = 0.0
    return np.asarray(kernel / kernel.sum())


def neighbour_weight(brightness: Float32[np.ndarray, ...], usable: Bool[np.ndarray, ...]) -> Float32[np.ndarray, ...]:
    """How much a neighbour counts: by its light, as its shot noise has it; very bright ones not without limit."""
    return np.asarray(np.where(usable, np.minimum(brightness, np.float32(_MOST_LIGHT)), np.float32(0)))


def draw_sample(
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
    settings: NoiseAwareSettings,
) -> tuple[Scale, RowSample]:
    """Looks at every k-th row and the rows beside it.

    Raises:
        FilterError: If a pixel marked valid holds no radiance, nothing varies, or nothing is lit.
    """
    rows, cols = valid.shape
    count = np.count_nonzero(valid, axis=1)
    step = max(1, int(count.sum()) // settings.sample_pixels)
    held = np.flatnonzero(count)
    middle = held[(step - 1) // 2 :: step] if held.size > step else held
    around = np.clip(middle[:, None] + np.arange(-1, 2), 0, rows - 1)
    seen = valid[around]
    seen[:, 0][middle == 0] = False
    seen[:, 2][middle == rows - 1] = False
    spectra = np.ascontiguousarray(radiance[:, around])  # band, row, 3, col
    flat = Pixels(spectra.reshape(len(radiance), -1), seen.reshape(-1), (1, seen.size))
    found = usable_pixels(flat, settings.background)
    reference = found.mean
    inner = spectra[:, :, 1][:, seen[:, 1]]
    spread = inner.std(axis=1, dtype=np.float64)
    live = spread > _DEAD_BAND * np.maximum(np.abs(reference), _DEAD_BAND * reference.max())
    live &= reference > 0
    if inner.shape[1] < 2 or not live.any():
        raise FilterError(
            f"no band varies over the {inner.shape[1]} usable pixels: there is no background to tell a plume from"
        )
    scale = Scale(reference, live, settings.background.min_albedo, settings.background.max_albedo)
    with np.errstate(invalid="ignore", over="ignore"):
        brightness = np.tensordot(scale.light, np.where(seen, spectra, np.float32(0)), axes=1)
    usable = seen & scale.usable(brightness)
    if not usable[:, 1].any():
        raise FilterError("no valid pixel is lit: there is no background to compare with")
    safe = np.where(usable, brightness, np.float32(1))
    spectra = spectra[live]
    np.copyto(spectra, np.float32(0), where=~usable)
    spectra *= scale.factor[live][:, None, None, None]
    np.maximum(spectra, np.float32(FLOOR) * safe, out=spectra)
    np.log(spectra, out=spectra)

    weight = neighbour_weight(brightness, usable)
    kernel = ring_kernel()
    padded = np.pad(weight, ((0, 0), (0, 0), (1, 1)))
    total = np.zeros_like(weight[:, 1])
    noise = np.zeros_like(total)
    ring = np.zeros(spectra[:, :, 1].shape, dtype=np.float32)
    wide = np.pad(spectra, ((0, 0), (0, 0), (0, 0), (1, 1)))
    light = np.pad(safe, ((0, 0), (0, 0), (1, 1)), constant_values=1.0)
    for row, col in np.argwhere(kernel > 0):
        share = kernel[row, col] * padded[:, row, col : col + cols]
        total += share
        noise += share * share / light[:, row, col : col + cols]
        ring += share * wide[:, :, row, col : col + cols]
    has_ring = usable[:, 1] & (total > 0)
    ring /= np.where(has_ring, total, np.float32(1))
    noise *= safe[:, 1] / np.square(np.where(has_ring, total, np.float32(1)))
    bands = int(live.sum())
    return scale, RowSample(
        shape=(len(middle), cols),
        step=step,
        usable=usable[:, 1].reshape(-1),
        brightness=safe[:, 1].reshape(-1),
        log_spectra=np.ascontiguousarray(spectra[:, :, 1]).reshape(bands, -1),
        ring=ring.reshape(bands, -1),
        ring_noise=noise.reshape(-1),
        has_ring=has_ring.reshape(-1),
    )
