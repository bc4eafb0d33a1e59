"""Cubes in HDF5 datasets, read by lines and bands: plain ones past the library, deflated ones on several threads."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from flame.io.budget import check_cube
from flame.io.errors import ReaderError
from flame.io.hdf5 import looking_into
from flame.io.plain_cube import Interleave, PlainCube, moves_of, runs_of

__all__ = ["StoredCube"]

_STEP_BYTES = 32_000_000
_KEPT_BYTES = 64_000_000
_MAX_THREADS = 4
_DEFLATE, _SHUFFLE = 1, 2
_INTERLEAVES: dict[tuple[int, int, int], Interleave] = {(0, 1, 2): "bsq", (1, 0, 2): "bil", (2, 0, 1): "bip"}
"""By where band, row and column stand."""


class _Kept(NamedTuple):
    """Lines of some bands that were unpacked along with others."""

    bands: tuple[int, ...]
    first: int
    lines: Float32[np.ndarray, "band row col"]


@dataclass(frozen=True)
class StoredCube:
    """A cube in an HDF5 dataset whose axes stand in any order.

    Attributes:
        path: The file, for messages.
        dataset: The dataset.
        axes: Where band, row and column stand in it: (2, 0, 1) for (row, col, band).
        mirrored: Whether columns are stored from right to left.
    """

    path: Path
    dataset: Any
    axes: tuple[int, int, int]
    mirrored: bool = False
    _kept: list[_Kept] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_cube(self.path, *self.shape)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Bands, rows, columns."""
        band, row, col = (int(self.dataset.shape[axis]) for axis in self.axes)
        return band, row, col

    def read(self, rows: slice, bands: Sequence[int]) -> Float32[np.ndarray, "band row col"]:
        """Some lines in some bands, as stored, in float32; each compressed piece is unpacked once."""
        with looking_into(self.path):
            plain, filters = self._plain(), _filters_of(self.dataset)
        if plain is not None:
            with looking_into(self.path):  # an address may be beyond what a file can have
                out = plain.read(rows, bands)
        else:
            out = np.empty((len(bands), rows.stop - rows.start, self.shape[2]), dtype=np.float32)
            if filters is None:
                self._read_by_library(rows, bands, out)
            else:
                self._read_by_pieces(rows, bands, out, _SHUFFLE in filters)
        return out[:, :, ::-1] if self.mirrored else out

    def _plain(self) -> PlainCube | None:
        """The cube as it lies in the file, if it lies there in one piece and lines are not torn apart."""
        offset, interleave = self.dataset.id.get_offset(), _INTERLEAVES.get(self.axes)
        if offset is None or interleave is None or self.dataset.file.driver != "sec2" or not hasattr(os, "preadv"):
            return None
        descriptor = self.dataset.file.id.get_vfd_handle()
        return PlainCube(self.path, descriptor, self.shape, self.dataset.dtype, interleave, offset)

    def _read_by_library(self, rows: slice, bands: Sequence[int], out: np.ndarray) -> None:
        """Runs of bands through the HDF5 library, whatever way they are stored."""
        band_axis, row_axis, _ = self.axes
        chunks = self.dataset.chunks
        piece = int(chunks[band_axis]) if chunks else 1
        for first, stop in runs_of(bands, gap=piece - 1):
            moves = moves_of(bands, first, stop)
            for part in self._steps(rows, stop - first):
                select: list[slice] = [slice(None)] * 3
                select[band_axis], select[row_axis] = slice(first, stop), part
                with looking_into(self.path):
                    block = self.dataset[tuple(select)].transpose(self.axes)
                for source, target in moves:
                    out[target, part.start - rows.start : part.stop - rows.start] = block[source]

    def _steps(self, rows: slice, bands: int) -> Iterator[slice]:
        """Pieces of the lines of at most 32 MB, cut where the file's own pieces end."""
        chunks = self.dataset.chunks
        piece = int(chunks[self.axes[1]]) if chunks else 1
        line_bytes = bands * self.shape[2] * self.dataset.dtype.itemsize
        step = max(1, _STEP_BYTES // max(1, line_bytes * piece)) * piece
        first = rows.start
        while first < rows.stop:
            stop = min((first // step + 1) * step, rows.stop)
            yield slice(first, stop)
            first = stop

    def _read_by_pieces(self, rows: slice, bands: Sequence[int], out: np.ndarray, shuffled: bool) -> None:
        """Every deflated piece that holds something wanted, on its own: zlib lets other threads run meanwhile.

        Blocks of lines rarely end where pieces do. So the lines of the last pieces are kept for the block that follows,
        and who reads from top to bottom unpacks nothing twice.
        """
        lines = int(self.dataset.chunks[self.axes[1]])
        wanted, first, end = tuple(int(band) for band in bands), rows.start, rows.stop
        for kept in self._kept:
            if kept.bands == wanted and kept.first <= first < kept.first + lines:
                stop = min(kept.first + lines, end)
                out[:, : stop - first] = kept.lines[:, first - kept.first : stop - kept.first]
                first = stop
        if first == end:
            return
        tail = end - end % lines
        if end % lines and 4 * len(wanted) * lines * self.shape[2] <= _KEPT_BYTES:
            last = np.empty((len(wanted), min(lines, self.shape[1] - tail), self.shape[2]), dtype=np.float32)
            self._unpack(slice(tail, tail + last.shape[1]), wanted, last, shuffled)
            self._kept[:] = [_Kept(wanted, tail, last)]
            top = max(tail, first)
            out[:, top - rows.start :] = last[:, top - tail : end - tail]
            end = top
        if first < end:
            self._unpack(slice(first, end), wanted, out[:, first - rows.start : end - rows.start], shuffled)

    def _unpack(self, rows: slice, bands: Sequence[int], out: np.ndarray, shuffled: bool) -> None:
        sizes = tuple(int(length) for length in self.dataset.chunks)
        band_size, row_size, col_size = (sizes[axis] for axis in self.axes)
        down = range(rows.start // row_size, -(-rows.stop // row_size))
        across = range(-(-self.shape[2] // col_size))
        moves = {at: moves_of(bands, at * band_size, (at + 1) * band_size) for at in {b // band_size for b in bands}}
        pieces = list(product(down, across, sorted(moves)))

        def unpack(where: tuple[int, int, int]) -> None:
            row, col, band = where[0] * row_size, where[1] * col_size, where[2] * band_size
            corner = [0, 0, 0]
            for axis, start in zip(self.axes, (band, row, col), strict=True):
                corner[axis] = start
            block = self._piece(tuple(corner), sizes, shuffled).transpose(self.axes)
            top, bottom = max(row, rows.start), min(row + row_size, rows.stop)
            right = min(col + col_size, self.shape[2])
            inner = block[:, top - row : bottom - row, : right - col]
            filled = out[:, top - rows.start : bottom - rows.start, col:right]
            for source, target in moves[where[2]]:
                filled[target] = inner[source]

        with looking_into(self.path), ThreadPoolExecutor(min(_MAX_THREADS, _cores(), len(pieces))) as pool:
            for _ in pool.map(unpack, pieces):
                pass

    def _piece(self, corner: tuple[int, ...], sizes: tuple[int, ...], shuffled: bool) -> np.ndarray:
        """One piece as an array; fill where it was never written."""
        dtype, count = self.dataset.dtype, int(np.prod(sizes))
        if self.dataset.id.get_chunk_info_by_coord(corner).byte_offset is None:
            return np.full(sizes, self.dataset.fillvalue, dtype=dtype)
        mask, packed = self.dataset.id.read_direct_chunk(corner)
        if mask:  # stored without its filters, which only the library sorts out
            select = tuple(slice(start, start + size) for start, size in zip(corner, sizes, strict=True))
            whole = np.zeros(sizes, dtype=dtype)
            part = self.dataset[select]
            whole[tuple(slice(0, length) for length in part.shape)] = part
            return whole
        content = zlib.decompressobj().decompress(packed, count * dtype.itemsize)
        if len(content) != count * dtype.itemsize:
            raise ReaderError(self.path, "a compressed piece of it is too short", "copy or download it again")
        if shuffled and dtype.itemsize > 1:
            columns = np.frombuffer(content, dtype=np.uint8).reshape(dtype.itemsize, count)
            return np.asarray(np.ascontiguousarray(columns.T).view(dtype)).reshape(sizes)
        return np.frombuffer(content, dtype=dtype).reshape(sizes)


def _filters_of(dataset: Any) -> list[int] | None:
    """Filters of a dataset if they are deflate, with or without shuffle before; None for any other storage."""
    if dataset.chunks is None:
        return None
    plan = dataset.id.get_create_plist()
    codes = [int(plan.get_filter(at)[0]) for at in range(plan.get_nfilters())]
    return codes if codes in ([_DEFLATE], [_SHUFFLE, _DEFLATE]) else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
