"""Sums over a sample in bins of brightness: all that clutter, noise and neighbours need, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from flame.filters.noise_aware.sample import RowSample, piece_of
from flame.filters.pixels import threads
from flame.kernels import Kernels, load_kernels
from flame.kernels.limits import CHUNK, MOST_BANDS, SUM_STEP

__all__ = ["CHUNK", "BinnedSample", "Moments", "PlumeSums", "bin_sample"]

# CHUNK pixels make one product: so few that BLAS stays on one thread, whose waking would take longer than the sums.


@dataclass(frozen=True, eq=False)
class PlumeSums:
    """What a known plume adds to the sums of products in each bin.

    Attributes:
        square: Sums of its square.
        cross: Sums of plume times spectra, which hold it.
        spectrum: Change of log-radiance by a plume of 1.
    """

    square: Float64[np.ndarray, " bin"]
    cross: Float64[np.ndarray, "bin band"]
    spectrum: Float64[np.ndarray, " band"]

    def taken_from(
        self, second: Float64[np.ndarray, "band band"], weight: Float64[np.ndarray, " bin"]
    ) -> Float64[np.ndarray, "band band"]:
        """Products of the first bands, summed over the bins with these weights, without the plume."""
        spectrum = self.spectrum[: len(second)]
        mixed = np.outer(weight @ self.cross[:, : len(second)], spectrum)
        return np.asarray(second - mixed - mixed.T + (weight @ self.square) * np.outer(spectrum, spectrum))


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments in each bin, of a pixel's spectrum and, behind it, that of its neighbours.

    Attributes:
        count: Pixels.
        first: Sums.
        second: Sums of products.
        inverse, inverse_square: Means of `1 / r` and `1 / r^2`, r the brightness.
        plume: What to take from `second`: it is taken from sums over bins, which are fewer.
    """

    count: Float64[np.ndarray, " bin"]
    first: Float64[np.ndarray, "bin band"]
    second: Float64[np.ndarray, "bin band band"]
    inverse: Float64[np.ndarray, " bin"]
    inverse_square: Float64[np.ndarray, " bin"]
    plume: PlumeSums | None = None

    def covariance(
        self, weight: Float64[np.ndarray, " bin"]
    ) -> tuple[Float64[np.ndarray, " band"], Float64[np.ndarray, "band band"]]:
        """Mean and covariance with a weight for the pixels of each bin."""
        total = float(weight @ self.count)
        mean = weight @ self.first / total
        second = np.tensordot(weight, self.second, axes=1)
        second = second if self.plume is None else self.plume.taken_from(second, weight)
        return mean, second / total - np.outer(mean, mean)

    def covariance_in(self, number: int, bands: int) -> Float64[np.ndarray, "band band"]:
        """Covariance of the first bands in one bin."""
        mean = self.first[number, :bands] / self.count[number]
        second = self.second[number, :bands, :bands]
        if self.plume is not None:
            second = self.plume.taken_from(second, np.eye(len(self.count))[number])
        return np.asarray(second / self.count[number] - np.outer(mean, mean))


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
        # Plumes are few: only their pixels are looked at.
        where = np.flatnonzero(plume_ppm_m)
        plume = plume_ppm_m[where].astype(np.float64)
        spectra = self.chunks[where // CHUNK, :, where % CHUNK].astype(np.float64)
        among = np.searchsorted(where, self.edges * CHUNK)
        parts = [slice(low, high) for low, high in pairwise(among)]
        cross = np.stack([plume[part] @ spectra[part] for part in parts])
        total, square = (np.array([values[part].sum() for part in parts]) for values in (plume, np.square(plume)))
        both = np.tile(spectrum, self.chunks.shape[1] // len(spectrum))
        first = self.moments.first - np.outer(total, both)
        return replace(self.moments, first=first, plume=PlumeSums(square, cross, both))


def _by_bin(values: Float[np.ndarray, "chunk ..."], edges: Int[np.ndarray, " edge"]) -> Float64[np.ndarray, "bin ..."]:
    return np.stack([values[low:high].sum(axis=0, dtype=np.float64) for low, high in pairwise(edges)])


def bin_sample(
    sample: RowSample,
    bins: int,
    *,
    neighbours: bool,
    kernels: Kernels | None = None,
    workers: int | None = None,
    room: Float32[np.ndarray, " float"] | None = None,
) -> BinnedSample:
    """Sorts a sample and adds it up.

    Args:
        sample: The sample.
        bins: How many bins at most; each holds whole chunks.
        neighbours: Whether neighbours' spectra are looked at too.
        kernels: The kernels to use; those of this processor if None.
        workers: Threads; as many as filters take if None.
        room: Memory that holds the sample's spectra, and behind them takes the chunks, if it is large enough.
    """
    used = np.flatnonzero(sample.usable)
    order = used[np.argsort(sample.brightness[used], kind="stable")].astype(np.int64, copy=False)
    count = -(-order.size // CHUNK)
    edges = np.linspace(0, count, min(bins, count) + 1).round().astype(np.int64)
    kernels = (kernels or load_kernels()) if len(sample.log_spectra) <= MOST_BANDS else None
    has_ring = sample.has_ring[order]
    if kernels is None:
        chunks, first, second = _add_up_with_numpy(sample, order, edges, neighbours)
    else:
        chunks = piece_of(
            room, (count, (1 + neighbours) * len(sample.log_spectra), CHUNK), after=2 * sample.log_spectra.size
        )
        first, second = _add_up(kernels, workers or threads(), sample, order, has_ring, edges, chunks)
    brightness = sample.brightness[order]
    ends = np.minimum(edges * CHUNK, order.size)
    sizes = np.diff(ends)
    inverse = 1.0 / brightness.astype(np.float64)
    moments = Moments(
        count=sizes.astype(np.float64),
        first=first,
        second=second,
        inverse=np.add.reduceat(inverse, ends[:-1]) / sizes,
        inverse_square=np.add.reduceat(np.square(inverse), ends[:-1]) / sizes,
    )
    return BinnedSample(order, brightness, has_ring, chunks, edges, moments)


_Sums: TypeAlias = tuple[
    Float32[np.ndarray, "chunk band 64"], Float64[np.ndarray, "bin band"], Float64[np.ndarray, "bin band band"]
]


def _add_up(
    kernels: Kernels,
    workers: int,
    sample: RowSample,
    order: Int[np.ndarray, " pixel"],
    has_ring: Bool[np.ndarray, " pixel"],
    edges: Int[np.ndarray, " edge"],
    chunks: Float32[np.ndarray, "chunk band 64"],
) -> tuple[Float64[np.ndarray, "bin band"], Float64[np.ndarray, "bin band band"]]:
    """Fills the chunks with the pixels, and adds up first and second moments of each bin."""
    bands, pixels = sample.log_spectra.shape
    parts, bins = chunks.shape[1] // bands, len(edges) - 1
    own, ring = (np.ascontiguousarray(part) for part in (sample.log_spectra, sample.ring))
    side = -(-parts * bands // SUM_STEP) * SUM_STEP
    first = np.empty((bins, parts * bands))
    second = np.empty((bins, side, side))
    address = [array.ctypes.data for array in (own, ring, order, has_ring, edges, chunks, first, second)]
    kernels.bin_spectra(workers, bins, order.size, pixels, bands, parts, *address)
    return first, second[:, : parts * bands, : parts * bands]


def _add_up_with_numpy(
    sample: RowSample, order: Int[np.ndarray, " pixel"], edges: Int[np.ndarray, " edge"], neighbours: bool
) -> _Sums:
    """The same in NumPy."""
    bands = len(sample.log_spectra)
    parts = [sample.log_spectra, sample.ring] if neighbours else [sample.log_spectra]
    count = int(edges[-1])
    flat = np.zeros((len(parts) * bands, count * CHUNK), dtype=np.float32)
    for number, part in enumerate(parts):
        np.take(part, order, axis=1, out=flat[number * bands : (number + 1) * bands, : order.size], mode="clip")
    if neighbours:
        alone = np.flatnonzero(~sample.has_ring[order])
        flat[bands:, alone] = flat[:bands, alone]
    chunks = np.ascontiguousarray(flat.reshape(len(flat), count, CHUNK).transpose(1, 0, 2))
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
    return chunks, _by_bin(exact.sum(axis=2), edges), second
