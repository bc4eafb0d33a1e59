"""The usable pixels of an image, handed out in blocks of (band, pixel) that fit a core's cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from flame.filters.errors import FilterError
from flame.physics import BandSet

__all__ = ["BLOCK_PIXELS", "Block", "Pixels", "check_pixels", "pixels_of", "threads"]

BLOCK_PIXELS = 3072
"""72 bands of these are 0.9 MB, inside a level-2 cache, and few enough for BLAS to stay on one thread: the threads here
take long runs of blocks, so they wait for each other once a pass and not once a product."""

MAX_THREADS = 4
_LEAST_BLOCKS_A_THREAD = 4
_LEAST_PICKS_A_THREAD = 65_536

Result = TypeVar("Result")


@lru_cache(maxsize=1)
def _pool(_process: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked one has to start its own."""
    return ThreadPoolExecutor(MAX_THREADS - 1, thread_name_prefix="flame-filters")


def threads() -> int:
    """How many threads a filter takes on this machine: its cores, or fewer if OMP_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(MAX_THREADS, cores, int(asked) if asked.isdecimal() and int(asked) else cores)


def _shared_out(work: Callable[[range], list[Result]], items: range, least: int) -> list[Result]:
    """`work` on runs of the items, in order, each run on a thread of its own if it holds at least so many."""
    if len(items) < 2 * least:
        return work(items)
    count = min(threads(), len(items) // least)
    runs = [items[first:last] for first, last in pairwise(len(items) * i // count for i in range(count + 1))]
    others = [_pool(os.getpid()).submit(work, run) for run in runs[1:]]
    return work(runs[0]) + [result for other in others for result in other.result()]


@dataclass(frozen=True, eq=False)
class Block:
    """Some pixels and where they stand in the flattened image."""

    where: slice | Int[np.ndarray, " pixel"]
    spectra: Float32[np.ndarray, "band pixel"]

    def places(self, chosen: Int[np.ndarray, " chosen"]) -> Int[np.ndarray, " chosen"]:
        """Where some of the block's pixels stand in the flattened image."""
        return np.asarray(self.where.start + chosen if isinstance(self.where, slice) else self.where[chosen])


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image flattened to (band, pixel) without a copy, and which of its pixels may be looked at.

    Attributes:
        spectra: The image; values at unusable pixels are never read into any result.
        usable: Which pixels count.
        shape: Rows and columns of the image.
    """

    spectra: Float32[np.ndarray, "band pixel"]
    usable: Bool[np.ndarray, " pixel"]
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """How many pixels are usable."""
        return int(np.count_nonzero(self.usable))

    def _block(self, start: int, full: bool) -> Block | None:
        """A view where all its pixels are usable, else a copy of those that are."""
        here = slice(start, min(start + BLOCK_PIXELS, self.usable.size))
        if full or self.usable[here].all():
            return Block(here, self.spectra[:, here])
        chosen = np.flatnonzero(self.usable[here])
        return Block(start + chosen, np.take(self.spectra[:, here], chosen, axis=1)) if chosen.size else None

    def map(self, work: Callable[[Block], Result]) -> list[Result]:
        """The results of `work` on every block of usable pixels, in order; on several threads if there are many."""
        full = bool(self.usable.all())

        def run(starts: range) -> list[Result]:
            return [work(block) for start in starts if (block := self._block(start, full)) is not None]

        return _shared_out(run, range(0, self.usable.size, BLOCK_PIXELS), _LEAST_BLOCKS_A_THREAD)

    def restricted(self, usable: Bool[np.ndarray, " pixel"]) -> Pixels:
        """The same image with only these pixels usable."""
        return Pixels(self.spectra, usable, self.shape)

    def picked(
        self, places: Int[np.ndarray, " chosen"], less: Float32[np.ndarray, " band"] | None = None
    ) -> Float32[np.ndarray, "band chosen"]:
        """The spectra at some places, less one spectrum."""
        spectra = np.empty((len(self.spectra), places.size), dtype=np.float32)

        def fill(bands: range) -> list[None]:
            for first in bands[::4]:
                some = slice(first, min(first + 4, bands.stop))
                np.take(self.spectra[some], places, axis=1, out=spectra[some], mode="clip")
                if less is not None:
                    spectra[some] -= less[some, None]
            return []

        _shared_out(fill, range(len(spectra)), 1 + _LEAST_PICKS_A_THREAD // (1 + places.size))
        return spectra

    def sample(self, size: int) -> Pixels:
        """Every k-th usable pixel, `size` of them; the image itself if that is all of it, else one row."""
        count = self.count
        size = min(size, count)
        if size == self.usable.size:
            return self
        chosen = np.arange(0, count, count // size)[:size]
        if count < self.usable.size:
            chosen = np.flatnonzero(self.usable)[chosen]
        return Pixels(self.picked(chosen), np.ones(size, dtype=np.bool_), (1, size))

    def mean(self) -> Float64[np.ndarray, " band"]:
        """Mean spectrum of the usable pixels, to float32 precision; not finite if any of them is not."""
        ones = np.ones(BLOCK_PIXELS, dtype=np.float32)

        def total(block: Block) -> Float32[np.ndarray, " band"]:
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray(block.spectra @ ones[: block.spectra.shape[1]])

        return np.asarray(np.sum(self.map(total), axis=0, dtype=np.float64) / self.count)

    def project(self, weight: Float[np.ndarray, " band"], offset: float = 0.0) -> Float32[np.ndarray, " pixel"]:
        """`weight . x - offset` for every usable pixel, 0 elsewhere."""
        out = np.zeros(self.usable.size, dtype=np.float32)
        weight32, offset32 = weight.astype(np.float32), np.float32(offset)

        def fill(block: Block) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                out[block.where] = weight32 @ block.spectra - offset32

        self.map(fill)
        return out

    def as_image(self, values: Float32[np.ndarray, " pixel"]) -> Float32[np.ndarray, "row col"]:
        """Scores back in image form.

        Raises:
            FilterError: If a score is not finite, which only radiance that is not finite or absurdly large can cause.
        """
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise FilterError(
                f"the score at row {bad // self.shape[1]}, column {bad % self.shape[1]} is not finite; "
                "mark pixels without a proper radiance invalid"
            )
        return values.reshape(self.shape)


def check_pixels(
    radiance: Float32[np.ndarray, "band ring col"], bands: BandSet, valid: Bool[np.ndarray, "row col"]
) -> None:
    """Refuses an image that a filter cannot look at.

    Raises:
        FilterError: If bands and image differ in number or nothing is valid.
    """
    if len(radiance) != len(bands):
        raise FilterError(f"the image has {len(radiance)} bands, the band list {bands.describe()}; expected as many")
    if not valid.any():
        raise FilterError(f"no valid pixel among {valid.size}; there is no background to compare with")


def pixels_of(
    radiance: Float32[np.ndarray, "band row col"], bands: BandSet, valid: Bool[np.ndarray, "row col"]
) -> Pixels:
    """The valid pixels of an image.

    Raises:
        FilterError: If bands and image differ in number or nothing is valid.
    """
    check_pixels(radiance, bands, valid)
    return Pixels(radiance.reshape(len(radiance), -1), valid.reshape(-1), valid.shape)
