"""The numbers of an ENVI cube: lines and bands picked straight from the binary, whatever its interleave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32

from flame.io.envi_header import EnviHeader
from flame.io.errors import ReaderError
from flame.io.hdf5_cube import runs_of

__all__ = ["EnviBinary"]

_STEP_BYTES = 32_000_000
_SKIP_BYTES = 65_536
"""A gap that is faster read over than jumped over."""


class EnviBinary:
    """An open binary.

    GDAL is not used: for pixel-interleaved cubes it reads every line once a band.

    Args:
        header: Its header.
    """

    def __init__(self, header: EnviHeader) -> None:
        self._header = header
        try:
            self._file = header.path.open("rb", buffering=0)
        except OSError as failure:
            raise ReaderError(
                header.path, f"cannot be opened ({failure.strerror})", "check its permissions"
            ) from failure

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def read(self, rows: slice, bands: Sequence[int]) -> Float32[np.ndarray, "band row col"]:
        """Some lines in some bands, as stored, in float32."""
        cols = self._header.shape[2]
        out = np.empty((len(bands), rows.stop - rows.start, cols), dtype=np.float32)
        place = {int(band): at for at, band in enumerate(bands)}
        with np.errstate(over="ignore", invalid="ignore"):
            {"bsq": self._bsq, "bil": self._bil, "bip": self._bip}[self._header.interleave](rows, place, out)
        return out

    def read_exact(self, count: int) -> np.ndarray:
        """The first bands, whole and in the type they are stored in: positions need more digits than float32 has."""
        bands, lines, cols = self._header.shape
        if self._header.interleave == "bsq":
            return self._values(0, count * lines * cols).reshape(count, lines, cols)
        out = np.empty((count, lines, cols), dtype=self._header.dtype)
        for row in range(lines):
            line = self._values(row * bands * cols, bands * cols)
            out[:, row] = (
                line.reshape(bands, cols)[:count]
                if self._header.interleave == "bil"
                else line.reshape(cols, bands)[:, :count].T
            )
        return out

    def _bsq(self, rows: slice, place: dict[int, int], out: np.ndarray) -> None:
        _, lines, cols = self._header.shape
        for band, at in place.items():
            out[at] = self._values((band * lines + rows.start) * cols, out.shape[1] * cols).reshape(-1, cols)

    def _bil(self, rows: slice, place: dict[int, int], out: np.ndarray) -> None:
        bands, _, cols = self._header.shape
        for first, stop in runs_of(list(place), _SKIP_BYTES // (cols * self._header.dtype.itemsize)):
            inside = [(band - first, at) for band, at in place.items() if first <= band < stop]
            source, target = [pair[0] for pair in inside], [pair[1] for pair in inside]
            for row in range(rows.start, rows.stop):
                line = self._values((row * bands + first) * cols, (stop - first) * cols).reshape(-1, cols)
                out[target, row - rows.start] = line[source]

    def _bip(self, rows: slice, place: dict[int, int], out: np.ndarray) -> None:
        bands, _, cols = self._header.shape
        for part in self._steps(rows, bands * cols * self._header.dtype.itemsize):
            count = part.stop - part.start
            block = self._values(part.start * bands * cols, count * bands * cols).reshape(count, cols, bands)
            for band, at in place.items():
                out[at, part.start - rows.start : part.stop - rows.start] = block[:, :, band]

    def _steps(self, rows: slice, line_bytes: int) -> Iterator[slice]:
        step = max(1, _STEP_BYTES // line_bytes)
        for first in range(rows.start, rows.stop, step):
            yield slice(first, min(first + step, rows.stop))

    def _values(self, first: int, count: int) -> np.ndarray:
        """So many values from one on, counted from the beginning of the cube."""
        header = self._header
        values = np.empty(count, dtype=header.dtype)
        view = values.data.cast("B")
        self._file.seek(header.offset + first * header.dtype.itemsize)
        done = 0
        while done < len(view):
            got = self._file.readinto(view[done:])
            if not got:
                raise ReaderError(header.path, "ended while it was read", "copy or download it again")
            done += got
        return values
