"""Cubes in HDF5 datasets, read by lines and bands; what is deflated is inflated on several threads."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from flame.io.budget import check_cube
from flame.io.errors import ReaderError
from flame.io.hdf5 import looking_into

__all__ = ["StoredCube", "runs_of"]

_STEP_BYTES = 32_000_000
_MAX_THREADS = 4
_DEFLATE, _SHUFFLE = 1, 2


def runs_of(index: Sequence[int], gap: int = 0) -> list[tuple[int, int]]:
    """Runs of neighbouring numbers as (first, end); runs no more than `gap` apart are joined."""
    runs: list[tuple[int, int]] = []
    for at in sorted({int(i) for i in index}):
        if runs and at - runs[-1][1] <= gap:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    return runs


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

    def __post_init__(self) -> None:
        check_cube(self.path, *self.shape)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Bands, rows, columns."""
        band, row, col = (int(self.dataset.shape[axis]) for axis in self.axes)
        return band, row, col

    def read(self, rows: slice, bands: Sequence[int]) -> Float32[np.ndarray, "band row col"]:
        """Some lines in some bands, as stored, in float32; each compressed piece is unpacked once."""
        out = np.empty((len(bands), rows.stop - rows.start, self.shape[2]), dtype=np.float32)
        place = {int(band): at for at, band in enumerate(bands)}
        with looking_into(self.path):
            filters = _filters_of(self.dataset)
        if filters is None:
            self._read_by_library(rows, place, out)
        else:
            self._read_by_pieces(rows, place, out, _SHUFFLE in filters)
        return out[:, :, ::-1] if self.mirrored else out

    def _read_by_library(self, rows: slice, place: dict[int, int], out: np.ndarray) -> None:
        """Runs of bands through the HDF5 library, whatever way they are stored."""
        band_axis, row_axis, _ = self.axes
        chunks = self.dataset.chunks
        piece = int(chunks[band_axis]) if chunks else 1
        for first, stop in runs_of(list(place), gap=piece - 1):
            for part in self._steps(rows, stop - first):
                select: list[slice] = [slice(None)] * 3
                select[band_axis], select[row_axis] = slice(first, stop), part
                with looking_into(self.path):
                    block = self.dataset[tuple(select)].transpose(self.axes)
                _pick(block, first, place, out[:, part.start - rows.start : part.stop - rows.start])

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

    def _read_by_pieces(self, rows: slice, place: dict[int, int], out: np.ndarray, shuffled: bool) -> None:
        """Every deflated piece that holds something wanted, on its own: zlib lets other threads run meanwhile."""
        sizes = tuple(int(length) for length in self.dataset.chunks)
        band_size, row_size, col_size = (sizes[axis] for axis in self.axes)
        down = range(rows.start // row_size, -(-rows.stop // row_size))
        across = range(-(-self.shape[2] // col_size))
        pieces = list(product(down, across, sorted({band // band_size for band in place})))

        def unpack(where: tuple[int, int, int]) -> None:
            row, col, band = where[0] * row_size, where[1] * col_size, where[2] * band_size
            corner = [0, 0, 0]
            for axis, start in zip(self.axes, (band, row, col), strict=True):
                corner[axis] = start
            block = self._piece(tuple(corner), sizes, shuffled).transpose(self.axes)
            top, bottom = max(row, rows.start), min(row + row_size, rows.stop)
            right = min(col + col_size, self.shape[2])
            inner = block[:, top - row : bottom - row, : right - col]
            _pick(inner, band, place, out[:, top - rows.start : bottom - rows.start, col:right])

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


def _pick(block: np.ndarray, first: int, place: dict[int, int], out: Float32[np.ndarray, "band row col"]) -> None:
    """Copies the wanted bands of a block that begins at a band to their places, whole runs at once."""
    inside = sorted(band for band in place if first <= band < first + block.shape[0])
    at = 0
    while at < len(inside):
        end = at + 1
        while (
            end < len(inside)
            and inside[end] == inside[end - 1] + 1
            and place[inside[end]] == place[inside[end - 1]] + 1
        ):
            end += 1
        source = slice(inside[at] - first, inside[end - 1] - first + 1)
        out[place[inside[at]] : place[inside[end - 1]] + 1] = block[source]
        at = end
