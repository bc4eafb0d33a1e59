"""The steps of the preparation on the compiled kernels, each in one pass over the spectra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.kernels import Kernels, pack
from flame.prepare.fields import FIELDS, TileView
from flame.prepare.fill import block_counts, block_means
from flame.prepare.reference import NumpySteps, Spectra

__all__ = ["KernelSteps"]


class KernelSteps:
    """`flame.prepare.reference.Steps` in C.

    Args:
        kernels: The compiled kernels.
        threads: Threads to share rows among.
    """

    def __init__(self, kernels: Kernels, threads: int = 1) -> None:
        self._kernels = kernels
        self._threads = threads
        self._reference = NumpySteps(threads)

    def take_logarithm(
        self,
        radiance: Float32[np.ndarray, "band seen_row seen_col"],
        first: int,
        floor: float,
        share: Float32[np.ndarray, " band"],
        spectra: Spectra,
        low: Float32[np.ndarray, "tile_row tile_col"],
        high: Float32[np.ndarray, "tile_row tile_col"],
    ) -> None:
        """See `Steps`."""
        if any(stride % 4 for stride in radiance.strides) or radiance.strides[2] != 4:
            self._reference.take_logarithm(radiance, first, floor, share, spectra, low, high)
            return
        bands, rows, cols = radiance.shape
        band_step, row_step = radiance.strides[0] // 4, radiance.strides[1] // 4
        self._kernels.take_logarithm(
            *(self._threads, rows, cols, bands, radiance.ctypes.data, band_step, row_step, first, floor),
            *(share.ctypes.data, spectra.ctypes.data, *spectra.shape[2:], low.ctypes.data, high.ctypes.data),
        )

    def fill(self, spectra: Spectra, usable: Bool[np.ndarray, "row col"], block: int) -> None:
        """See `Steps`."""
        if usable.all():
            return
        bands, block_rows = spectra.shape[1:3]
        usable = np.ascontiguousarray(usable)
        count = block_counts(usable, block)
        means = np.empty((count.shape[0], bands, count.shape[1]), dtype=np.float32)
        given = (self._threads, *usable.shape, spectra.ctypes.data, bands, block_rows, usable.ctypes.data, block)
        self._kernels.block_sums(*given, means.ctypes.data)
        for band in range(bands):
            means[:, band] = block_means(means[:, band], count)
        self._kernels.fill_holes(*given, means.ctypes.data)

    def whiten(
        self,
        spectra: Spectra,
        mean: Float[np.ndarray, " band"],
        whitening: Float[np.ndarray, "band band"],
        unit: Float[np.ndarray, " band"],
        planes: Float32[np.ndarray, "4 row col"] | None,
    ) -> None:
        """See `Steps`."""
        blocks, bands, rows, cols = spectra.shape
        weight, centre, along = pack(whitening), mean.astype(np.float32), unit.astype(np.float32)
        self._kernels.whiten(
            *(self._threads, blocks * rows, cols, spectra.ctypes.data, bands, rows, centre.ctypes.data),
            *(weight.ctypes.data, along.ctypes.data, None if planes is None else planes.ctypes.data),
        )

    def find_fields(self, view: TileView, names: Sequence[str], out: Float32[np.ndarray, "field row col"]) -> None:
        """See `Steps`; fields that have no kernel are found by NumPy."""
        numbers = [(FIELDS[name].kernel, place) for place, name in enumerate(names)]
        known = np.array([pair for pair in numbers if pair[0] is not None], dtype=np.int32).reshape(-1, 2)
        kinds, places = (np.ascontiguousarray(column) for column in known.T)
        facts = view.settings
        self._kernels.pixel_fields(
            *(self._threads, *view.usable.shape, view.planes.ctypes.data, kinds.ctypes.data, places.ctypes.data),
            *(len(known), view.noise_ppm_m / facts.faint_ppm_m, facts.tiny, facts.clutter_clip),
            *(facts.clutter_window // 2, out.ctypes.data),
        )
        for number, place in numbers:
            if number is None:
                out[place] = FIELDS[names[place]].find(view)
