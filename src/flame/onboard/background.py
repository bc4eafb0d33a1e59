"""The tile's own background: its mean and covariance, and the spectra whitened by them in place."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.kernels import Kernels, pack
from flame.onboard.manifest import BackgroundFacts

__all__ = ["STATISTICS", "Whitener", "tile_background"]

STATISTICS = ("response", "power", "brightness", "steps")
"""Layers of the graph input `statistics`; see docs/onboard.md."""

_CHUNK_PIXELS = 4096
_STEP_BANDS = 4


class Whitener:
    """Whitens blocks of log-radiance in place, and takes the statistics of their pixels while they are in cache.

    Args:
        mean: Mean log-spectrum.
        whitening: `C^-1/2`.
        target: The whitened unit absorption spectrum.
    """

    def __init__(
        self,
        mean: Float[np.ndarray, " band"],
        whitening: Float[np.ndarray, "band band"],
        target: Float[np.ndarray, " band"],
    ) -> None:
        self._mean = mean.astype(np.float32)[:, None]
        self._whitening = whitening.astype(np.float32)
        self._unit = (target / max(float(np.linalg.norm(target)), 1e-6)).astype(np.float32)
        self._share = np.full(mean.size, 1 / mean.size, dtype=np.float32)

    def whiten(
        self, block: Float32[np.ndarray, "band rows col"], layers: Float32[np.ndarray, "4 rows col"] | None
    ) -> None:
        """Whitens one block in place.

        Args:
            block: Log-radiance; afterwards whitened.
            layers: Where to put the `STATISTICS` of its pixels, if they are wanted; `brightness` is not yet relative to
                the tile's median, and the last column of `steps` is left alone.
        """
        bands = block.shape[0]
        flat = block.reshape(bands, -1)
        scratch = np.empty((bands, min(_CHUNK_PIXELS, flat.shape[1])), dtype=np.float32)
        for start in range(0, flat.shape[1], _CHUNK_PIXELS):
            part = flat[:, start : start + _CHUNK_PIXELS]
            centred = scratch[:, : part.shape[1]]
            if layers is not None:
                response, power, brightness, _ = layers.reshape(4, -1)[:, start : start + _CHUNK_PIXELS]
                np.matmul(self._share, part, out=brightness)
            np.subtract(part, self._mean, out=centred)
            np.matmul(self._whitening, centred, out=part)
            if layers is not None:
                np.matmul(self._unit, part, out=response)
                np.einsum("bp,bp->p", part, part, out=power)
                power *= self._share[0]
        if layers is not None:
            some = block[::_STEP_BANDS]
            steps = some[:, :, 1:] - some[:, :, :-1]
            np.multiply(steps, steps, out=steps)
            steps.mean(axis=0, out=layers[3, :, :-1])

    def whiten_all(
        self, kernels: Kernels, threads: int, blocks: Float32[np.ndarray, "block band rows col"], layers: int | None
    ) -> None:
        """The same for all blocks of a tile by compiled kernels; `layers` is the address of its `STATISTICS`."""
        count, bands, rows, cols = blocks.shape
        weight = pack(self._whitening)
        kernels.whiten(
            *(threads, count * rows, cols, blocks.ctypes.data, bands, rows, self._mean.ctypes.data),
            *(weight.ctypes.data, self._unit.ctypes.data, layers),
        )


def tile_background(
    log: Float32[np.ndarray, "block band rows col"],
    usable: Bool[np.ndarray, "row col"],
    unit_spectrum: Float[np.ndarray, " band"],
    facts: BackgroundFacts,
) -> tuple[Float[np.ndarray, " band"], Float[np.ndarray, "band band"]]:
    """Mean log-spectrum of a tile and `C^-1/2`, from a regular sample of its usable pixels, in float64.

    Args:
        log: Log-radiance in blocks of rows.
        usable: Pixels that may be used.
        unit_spectrum: Unit absorption spectrum.
        facts: How the background is estimated.
    """
    rows, cols = usable.shape
    step = max(1, int((rows * cols / facts.samples) ** 0.5))
    seen = usable[::step, ::step]
    if step > 1 and int(seen.sum()) < 2 * log.shape[1]:
        step, seen = 1, usable
    block, row = np.divmod(np.arange(0, rows, step), log.shape[2])
    sample = np.moveaxis(log[block, :, row, ::step].astype(np.float64), 1, 0)
    sample = sample.reshape(len(sample), -1) if seen.all() else sample[:, seen]
    weight = np.ones(sample.shape[1])
    mean, whitening = _weighted_whitening(sample, weight, facts.floor)
    for _ in range(facts.passes - 1):
        white = whitening @ (sample - mean[:, None])
        target = whitening @ unit_spectrum
        response = target @ white / max(float(np.linalg.norm(target)), 1e-12)
        power = np.einsum("bp,bp->p", white, white) / len(white)
        near = np.minimum(1.0 / np.maximum(power, 1e-12), 1.0)
        weight = near * (response < facts.plume_sigma)
        mean, whitening = _weighted_whitening(sample, weight, facts.floor)
    return mean, whitening


def _weighted_whitening(
    sample: Float[np.ndarray, "band pixel"], weight: Float[np.ndarray, " pixel"], floor: float
) -> tuple[Float[np.ndarray, " band"], Float[np.ndarray, "band band"]]:
    """Weighted mean and inverse root of the covariance, its eigenvalues raised by what so few samples leave unknown."""
    total = max(float(weight.sum()), 1.0)
    mean = sample @ weight / total
    centred = sample - mean[:, None]
    covariance = (centred * weight) @ centred.T / total
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    noise = values[(values.size - 1) // 2]  # the lower median
    raised = values + noise * (values.size / total) + floor
    return mean, (vectors / np.sqrt(raised)) @ vectors.T
