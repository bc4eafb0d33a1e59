"""Sums over a sample in bins of brightness: all that clutter, noise and neighbours need, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from flame.filters.noise_aware.sample import RowSample

__all__ = ["CHUNK", "BinnedSample", "Moments", "bin_sample"]

CHUNK = 64
"""Pixels of one product: so few that BLAS stays on one thread, whose waking would take longer than the sums."""


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments in each bin, of a pixel's spectrum and, behind it, that of its neighbours.

    Attributes:
        count: Pixels.
        first: Sums.
        second: Sums of products.
        inverse, inverse_square: Means of `1 / r` and `1 / r^2`, r the brightness.
    """

    count: Float64[np.ndarray, " bin"]
    first: Float64[np.ndarray, "bin band"]
    second: Float64[np.ndarray, "bin band band"]
    inverse: Float64[np.ndarray, " bin"]
    inverse_square: Float64[np.ndarray, " bin"]

    def covariance(
        self, weight: Float64[np.ndarray, " bin"]
    ) -> tuple[Float64[np.ndarray, " band"], Float64[np.ndarray, "band band"]]:
        """Mean and covariance with a weight for the pixels of each bin."""
        total = float(weight @ self.count)
        mean = weight @ self.first / total
        return mean, np.tensordot(weight, self.second, axes=1) / total - np.outer(mean, mean)


@dataclass(frozen=True, eq=False)
class BinnedSample:
    """A sample's usable pixels in order of brightness, in chunks.

    Attributes:
        order: Where each pixel stands in the sample.
        brightness: Brightness of each pixel.
        has_ring: Pixels with neighbours.
        chunks: Log-radiance of pixel and neighbours, padded with zeros.
        edges: Chunks at which bins begin, and the end.
        moments: Sums with whatever plumes there are.
    """

    order: Int[np.ndarray, " pixel"]
    brightness: Float32[np.ndarray, " pixel"]
    has_ring: Bool[np.ndarray, " pixel"]
    chunks: Float32[np.ndarray, "chunk band 64"]
    edges: Int[np.ndarray, " edge"]
    moments: Moments

    def respond(self, weight: Float64[np.ndarray, "row band"]) -> Float32[np.ndarray, "row pixel"]:
        """`weight @ spectra` for every pixel; weights of fewer bands than there are take the first."""
        bands = weight.shape[1]
        products = np.matmul(weight.astype(np.float32), self.chunks[:, :bands])
        return np.asarray(products.transpose(1, 0, 2).reshape(len(weight), -1)[:, : self.order.size])

    def heard(self, weight: Float64[np.ndarray, " band"]) -> Float32[np.ndarray, " pixel"]:
        """`weight` times the neighbours' spectra."""
        products = np.matmul(weight.astype(np.float32), self.chunks[:, -len(weight) :])
        return np.asarray(products.reshape(-1)[: self.order.size])

    def without(self, plume_ppm_m: Float32[np.ndarray, " pixel"], spectrum: Float64[np.ndarray, " half"]) -> Moments:
        """The moments with `plume * spectrum` subtracted from each pixel and from its neighbours."""
        if not plume_ppm_m.any():
            return self.moments
        padded = np.zeros(len(self.chunks) * CHUNK, dtype=np.float32)
        padded[: plume_ppm_m.size] = plume_ppm_m
        plume = padded.reshape(-1, CHUNK)
        cross = _by_bin(np.matmul(self.chunks, plume[..., None], dtype=np.float64)[..., 0], self.edges)
        total = _by_bin(plume.sum(axis=1, dtype=np.float64), self.edges)
        square = _by_bin(np.square(plume).sum(axis=1, dtype=np.float64), self.edges)
        both = np.tile(spectrum, self.chunks.shape[1] // len(spectrum))
        m = self.moments
        mixed = cross[:, :, None] * both
        second = m.second - mixed - mixed.transpose(0, 2, 1) + square[:, None, None] * np.outer(both, both)
        return Moments(m.count, m.first - np.outer(total, both), second, m.inverse, m.inverse_square)


def _by_bin(values: Float[np.ndarray, "chunk ..."], edges: Int[np.ndarray, " edge"]) -> Float64[np.ndarray, "bin ..."]:
    return np.stack([values[low:high].sum(axis=0, dtype=np.float64) for low, high in pairwise(edges)])


def bin_sample(sample: RowSample, bins: int, *, neighbours: bool) -> BinnedSample:
    """Sorts a sample and adds it up.

    Args:
        sample: The sample.
        bins: How many bins at most; each holds whole chunks.
        neighbours: Whether neighbours' spectra are looked at too.
    """
    used = np.flatnonzero(sample.usable)
    order = used[np.argsort(sample.brightness[used], kind="stable")]
    bands = len(sample.log_spectra)
    parts = [sample.log_spectra, sample.ring] if neighbours else [sample.log_spectra]
    count = -(-order.size // CHUNK)
    flat = np.zeros((len(parts) * bands, count * CHUNK), dtype=np.float32)
    for number, part in enumerate(parts):
        np.take(part, order, axis=1, out=flat[number * bands : (number + 1) * bands, : order.size], mode="clip")
    if neighbours:
        alone = np.flatnonzero(~sample.has_ring[order])
        flat[bands:, alone] = flat[:bands, alone]
    chunks = np.ascontiguousarray(flat.reshape(len(flat), count, CHUNK).transpose(1, 0, 2))
    edges = np.linspace(0, count, min(bins, count) + 1).round().astype(np.intp)
    # In float64: a quiet sensor's noise is a hundred-millionth of the variance of brightness, and float32 loses it.
    exact = chunks.astype(np.float64)
    own = exact[:, :bands]
    second = np.zeros((len(edges) - 1, len(flat), len(flat)))
    second[:, :bands, :bands] = _by_bin(np.matmul(own, own.transpose(0, 2, 1)), edges)
    if neighbours:
        around = exact[:, bands:]
        second[:, bands:, bands:] = _by_bin(np.matmul(around, around.transpose(0, 2, 1)), edges)
        second[:, :bands, bands:] = _by_bin(np.matmul(own, around.transpose(0, 2, 1)), edges)
        second[:, bands:, :bands] = second[:, :bands, bands:].transpose(0, 2, 1)
    brightness = sample.brightness[order]
    ends = np.minimum(edges * CHUNK, order.size)
    sizes = np.diff(ends)
    inverse = 1.0 / brightness.astype(np.float64)
    moments = Moments(
        count=sizes.astype(np.float64),
        first=_by_bin(exact.sum(axis=2), edges),
        second=second,
        inverse=np.add.reduceat(inverse, ends[:-1]) / sizes,
        inverse_square=np.add.reduceat(np.square(inverse), ends[:-1]) / sizes,
    )
    return BinnedSample(order, brightness, sample.has_ring[order], chunks, edges, moments)
