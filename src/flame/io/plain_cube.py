"""Cubes whose numbers lie in a file as they are: ENVI binaries, and HDF5 datasets that are neither cut nor packed.

GDAL and HDF5 are not asked: for pixel-interleaved cubes the one reads every line once a band, the other picks each
pixel's bands on their own. Here lines go through one small buffer that stays in the processor's cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float32

from flame.io.errors import ReaderError

__all__ = ["Interleave", "PlainCube", "moves_of", "runs_of"]

Interleave = Literal["bsq", "bil", "bip"]
"""Which axis comes first: band, row, col; row, band, col; row, col, band."""

_BUFFER_BYTES = 1_000_000
_SKIP_BYTES = 65_536
"""A gap that is faster read over than jumped over."""


def runs_of(index: Sequence[int], gap: int = 0) -> list[tuple[int, int]]:
    """Runs of neighbouring numbers as (first, end); runs no more than `gap` apart are joined."""
    runs: list[tuple[int, int]] = []
    for at in sorted({int(i) for i in index}):
        if runs and at - runs[-1][1] <= gap:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    return runs


def moves_of(bands: Sequence[int], first: int, stop: int) -> list[tuple[slice, slice]]:
    """How to copy the wanted bands out of a block that holds bands `first` to `stop`, whole runs at once.

    Args:
        bands: The wanted bands, in the order they are wanted in.
        first: The block's first band.
        stop: The band after its last.

    Returns:
        Slices of the block and of what is filled.
    """
    moves: list[tuple[slice, slice]] = []
    for at, band in enumerate(bands):
        if not first <= band < stop:
            continue
        source, target = slice(band - first, band - first + 1), slice(at, at + 1)
        if moves and moves[-1][0].stop == source.start and moves[-1][1].stop == target.start:
            moves[-1] = slice(moves[-1][0].start, source.stop), slice(moves[-1][1].start, target.stop)
        else:
            moves.append((source, target))
    return moves


class PlainCube:
    """A cube at some place of an open file, which stays the caller's to close.

    Args:
        path: The file, for messages.
        descriptor: The open file; its position is not touched.
        shape: Bands, rows and columns.
        dtype: Type of the stored values, in the file's byte order.
        interleave: Order of the axes.
        offset: Bytes before the first value.
    """

    def __init__(
        self,
        path: Path,
        descriptor: int,
        shape: tuple[int, int, int],
        dtype: np.dtype,
        interleave: Interleave,
        offset: int = 0,
    ) -> None:
        self._path, self._descriptor = path, descriptor
        self._shape, self._dtype, self._interleave, self._offset = shape, dtype, interleave, offset

    def read(self, rows: slice, bands: Sequence[int]) -> Float32[np.ndarray, "band row col"]:
        """Some lines in some bands, as stored, in float32."""
        out = np.empty((len(bands), rows.stop - rows.start, self._shape[2]), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            {"bsq": self._bsq, "bil": self._bil, "bip": self._bip}[self._interleave](rows, bands, out)
        return out

    def read_exact(self, count: int) -> np.ndarray:
        """The first bands, whole and in the type they are stored in: positions need more digits than float32 has."""
        _, lines, cols = self._shape
        out = np.empty((count, lines, cols), dtype=self._dtype)
        rows = slice(0, lines)
        {"bsq": self._bsq, "bil": self._bil, "bip": self._bip}[self._interleave](rows, range(count), out)
        return out

    def _bsq(self, rows: slice, bands: Sequence[int], out: np.ndarray) -> None:
        _, lines, cols = self._shape
        for at, band in enumerate(bands):
            for part in _steps(rows, cols * self._dtype.itemsize):
                block = self._values((band * lines + part.start) * cols, (part.stop - part.start) * cols)
                out[at, part.start - rows.start : part.stop - rows.start] = block.reshape(-1, cols)

    def _bil(self, rows: slice, bands: Sequence[int], out: np.ndarray) -> None:
        count, _, cols = self._shape
        for first, stop in runs_of(bands, _SKIP_BYTES // (cols * self._dtype.itemsize)):
            moves, line = moves_of(bands, first, stop), np.empty((stop - first) * cols, dtype=self._dtype)
            for row in range(rows.start, rows.stop):
                block = self._values((row * count + first) * cols, line.size, line).reshape(-1, cols)
                for source, target in moves:
                    out[target, row - rows.start] = block[source]

    def _bip(self, rows: slice, bands: Sequence[int], out: np.ndarray) -> None:
        count, _, cols = self._shape
        moves = moves_of(bands, 0, count)
        for part in _steps(rows, cols * count * self._dtype.itemsize):
            lines = part.stop - part.start
            block = self._values(part.start * cols * count, lines * cols * count).reshape(lines, cols, count)
            for source, target in moves:
                inside = slice(part.start - rows.start, part.stop - rows.start)
                out[target, inside] = block[:, :, source].transpose(2, 0, 1)

    def _values(self, first: int, count: int, into: np.ndarray | None = None) -> np.ndarray:
        """So many values from one on, counted from the beginning of the cube."""
        values = np.empty(count, dtype=self._dtype) if into is None else into
        view, at = values.view(np.uint8).data, self._offset + first * self._dtype.itemsize
        done = 0
        while done < len(view):
            got = self._read_into(view[done:], at + done)
            if not got:
                raise ReaderError(self._path, "ended while it was read", "copy or download it again")
            done += got
        return values

    def _read_into(self, view: memoryview, at: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [view], at)
        os.lseek(self._descriptor, at, os.SEEK_SET)
        content = os.read(self._descriptor, len(view))
        view[: len(content)] = content
        return len(content)


def _steps(rows: slice, line_bytes: int) -> Iterator[slice]:
    """Pieces of the lines that fit into a cache."""
    step = max(1, _BUFFER_BYTES // line_bytes)
    for first in range(rows.start, rows.stop, step):
        yield slice(first, min(first + step, rows.stop))
