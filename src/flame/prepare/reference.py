"""The steps of the preparation in NumPy: what they are by definition, and how they run where there are no kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.prepare.fields import FIELDS, TileView
from flame.prepare.fill import fill_unusable

__all__ = ["NumpySteps", "Steps"]

_CHUNK_ROWS = 16
_CHUNK_PIXELS = 4096
_STEP_BANDS = 4

Spectra = Float32[np.ndarray, "block band rows col"]


class Steps(Protocol):
    """The passes over a tile's spectra, which lie in blocks of rows, (block, band, row, col)."""

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
        """Least and greatest of each pixel's bands, NaN where one is, and the logarithm of each band times its share.

        Args:
            radiance: The tile's radiance, or a ring of its rows.
            first: Where in the ring the tile's first row stands; after the last row comes row 0.
            floor: What radiance is raised to.
            share: Factor of each band.
            spectra: Where the logarithms go.
            low: Where the least goes.
            high: Where the greatest goes.
        """
        ...

    def fill(self, spectra: Spectra, usable: Bool[np.ndarray, "row col"], block: int) -> None:
        """`fill_unusable` for spectra."""
        ...

    def whiten(
        self,
        spectra: Spectra,
        mean: Float[np.ndarray, " band"],
        whitening: Float[np.ndarray, "band band"],
        unit: Float[np.ndarray, " band"],
        planes: Float32[np.ndarray, "4 row col"] | None,
    ) -> None:
        """`C^-1/2 (l - mu)` in place.

        Args:
            spectra: Log-radiance; afterwards whitened.
            mean: Mean log-spectrum.
            whitening: `C^-1/2`.
            unit: The whitened target, of length 1.
            planes: Where to put the `LAYERS` of the pixels, if they are wanted; brightness is not yet relative to the
                tile's median, and the last column of the steps is left alone.
        """
        ...

    def find_fields(self, view: TileView, names: Sequence[str], out: Float32[np.ndarray, "field row col"]) -> None:
        """The named pixel fields."""
        ...


@lru_cache(maxsize=4)
def _pool(threads: int, _process: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked one has to start its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="flame-prepare")


class NumpySteps:
    """`Steps` in NumPy.

    Args:
        threads: Threads to share blocks and bands among.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def _run(self, work: Callable[..., None], *over: Iterable[object]) -> Iterator[None]:
        return map(work, *over) if self._threads < 2 else _pool(self._threads, os.getpid()).map(work, *over)

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
        _, rows, cols = radiance.shape
        block_rows = spectra.shape[2]

        def take(chunk: tuple[int, int]) -> None:
            """Some rows, while they are in the cache."""
            part = slice(*chunk)
            source = (chunk[0] + first) % rows
            seen = radiance[:, source : source + chunk[1] - chunk[0]]
            with np.errstate(invalid="ignore"):
                seen.min(axis=0, out=low[part, :cols])
                seen.max(axis=0, out=high[part, :cols])
                block, row = divmod(chunk[0], block_rows)
                out = spectra[block, :, row : row + chunk[1] - chunk[0], :cols]
                np.maximum(seen, np.float32(floor), out=out)
                out *= share[:, None, None]
                np.log(out, out=out)

        chunks = pairwise(sorted({*range(0, rows, gcd(_CHUNK_ROWS, block_rows)), rows - first, rows}))
        for _ in self._run(take, chunks):
            pass

    def fill(self, spectra: Spectra, usable: Bool[np.ndarray, "row col"], block: int) -> None:
        """See `Steps`."""
        fill_unusable(spectra.swapaxes(0, 1), usable, block, self._run)

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
        centre, matrix, along = (a.astype(np.float32) for a in (mean[:, None], whitening, unit))
        share = np.full(bands, 1 / bands, dtype=np.float32)

        def whiten(block: Float32[np.ndarray, "band rows col"], layers: Float32[np.ndarray, "4 rows col"]) -> None:
            flat = block.reshape(bands, -1)
            scratch = np.empty((bands, min(_CHUNK_PIXELS, flat.shape[1])), dtype=np.float32)
            response, power, brightness, steps = layers
            for start in range(0, flat.shape[1], _CHUNK_PIXELS):
                here = slice(start, start + _CHUNK_PIXELS)
                part = flat[:, here]
                centred = scratch[:, : part.shape[1]]
                np.matmul(share, part, out=brightness.reshape(-1)[here])
                np.subtract(part, centre, out=centred)
                np.matmul(matrix, centred, out=part)
                np.matmul(along, part, out=response.reshape(-1)[here])
                np.einsum("bp,bp->p", part, part, out=power.reshape(-1)[here])
            power *= share[0]
            some = block[::_STEP_BANDS]
            steps[:, :-1] = np.square(some[:, :, 1:] - some[:, :, :-1]).mean(axis=0)

        kept = np.empty((4, blocks * rows, cols), dtype=np.float32) if planes is None else planes
        for _ in self._run(whiten, spectra, kept.reshape(4, blocks, rows, cols).swapaxes(0, 1)):
            pass

    def find_fields(self, view: TileView, names: Sequence[str], out: Float32[np.ndarray, "field row col"]) -> None:
        """See `Steps`."""
        for place, name in enumerate(names):
            out[place] = FIELDS[name].find(view)
