"""HDF5 and netCDF4 through h5py: named datasets of checked shape, nothing outside the file, every failure a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flame.errors import FlameError
from flame.io.budget import check_block, check_expansion, check_in_memory, regular_file
from flame.io.errors import ReaderError

__all__ = ["Hdf5File", "holds", "is_hdf5", "looking_into"]

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_CACHE_BYTES = 16_000_000
_AGAIN = "copy or download it again"


def is_hdf5(path: Path) -> bool:
    """Whether a file begins as HDF5 does; netCDF4 is HDF5."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(8) == SIGNATURE


def holds(path: Path, test: Callable[[Hdf5File], bool]) -> bool:
    """Whether a path is an HDF5 file that can be opened and passes a test of its content."""
    if not is_hdf5(path):
        return False
    try:
        file = Hdf5File(path)
    except ReaderError:
        return False
    try:
        return test(file)
    finally:
        file.close()


@contextmanager
def looking_into(path: Path) -> Iterator[None]:
    """Turns whatever the HDF5 library says of a damaged file into a `ReaderError`."""
    try:
        yield
    except (FlameError, MemoryError):
        raise
    except Exception as failure:
        # The library raises some ten kinds of exception for damage, none of its own.
        words = " ".join(str(failure).split())[:200]
        raise ReaderError(path, f"is damaged ({words or type(failure).__name__})", _AGAIN) from failure


class Hdf5File:
    """An open file; `close` it when done.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = regular_file(path)
        with looking_into(path):
            self._file = h5py.File(path, "r", rdcc_nbytes=_CACHE_BYTES)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def has(self, name: str) -> bool:
        """Whether a group or dataset of that path exists in this very file."""
        with looking_into(self.path):
            return self._find(name) is not None

    def _find(self, name: str) -> Any:
        """Walks to an object; a link that leads out of the file is refused, since it could lead anywhere."""
        here: Any = self._file
        for part in name.strip("/").split("/"):
            if not isinstance(here, h5py.Group) or part not in here:
                return None
            if isinstance(here.get(part, getlink=True), h5py.ExternalLink):
                raise ReaderError(self.path, f"'{name}' is a link into another file", "give a file that holds its data")
            here = here[part]
        return here

    def dataset(self, name: str, dims: int) -> Any:
        """A dataset of so many dimensions.

        Raises:
            ReaderError: If it is missing, of other dimensions, not of numbers, or stored outside the file.
        """
        with looking_into(self.path):
            found = self._find(name)
            if not isinstance(found, h5py.Dataset):
                raise ReaderError(self.path, f"has no dataset '{name}'", "give the product as it was delivered")
            if found.ndim != dims or found.dtype.kind not in "iuf":
                raise ReaderError(
                    self.path,
                    f"'{name}' has shape {found.shape} and type {found.dtype}, expected {dims} dimensions of numbers",
                    "give the product as it was delivered",
                )
            if found.is_virtual or found.external:
                raise ReaderError(self.path, f"'{name}' is stored in other files", "give a file that holds its data")
            if found.chunks is not None:
                check_block(self.path, f"'{name}'", found.chunks, found.dtype.itemsize)
            check_expansion(self.path, found.size * found.dtype.itemsize)
        return found

    def array(self, name: str, dims: int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """A small dataset, read whole; `shape` is what it must have."""
        found = self.dataset(name, dims)
        if shape is not None and tuple(found.shape) != shape:
            raise ReaderError(
                self.path, f"'{name}' has shape {tuple(found.shape)}, expected {shape}", "give the product as delivered"
            )
        check_in_memory(self.path, f"'{name}'", found.shape, found.dtype.itemsize)
        with looking_into(self.path):
            return np.asarray(found[()])

    def lines(self, name: str, at: Sequence[int]) -> np.ndarray:
        """Some lines of a layer, or values of a list, one after the other as float64."""
        with looking_into(self.path):
            found = self._find(name)
            found = self.dataset(name, min(max(getattr(found, "ndim", 2), 1), 2))
            inside = [row for row in at if row < found.shape[0]]
            return np.concatenate([np.atleast_1d(found[row]).astype(np.float64).reshape(-1) for row in inside])

    def names(self, group: str) -> list[str]:
        """What a group holds; empty if there is no such group."""
        with looking_into(self.path):
            found = self._find(group)
            return [str(name) for name in found] if isinstance(found, h5py.Group) else []

    def strings(self, name: str) -> list[str]:
        """A short list of texts; empty if there is none."""
        with looking_into(self.path):
            found = self._find(name)
            if not isinstance(found, h5py.Dataset) or found.ndim > 1 or found.size > 4096:
                return []
            values = np.atleast_1d(np.asarray(found[()], dtype=object))
            return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values]

    def positions(self, name: str, shape: tuple[int, int], limit_deg: float) -> np.ndarray:
        """Latitudes or longitudes of the pixels, NaN where they are fill or beyond the limit."""
        values = self.array(name, 2, shape).astype(np.float64)
        values[~(np.abs(values) <= limit_deg)] = np.nan
        return values

    def attribute(self, name: str, of: str = "") -> Any:
        """An attribute as h5py gives it, None if there is none."""
        with looking_into(self.path):
            owner = self._find(of) if of else self._file
            return None if owner is None or name not in owner.attrs else owner.attrs[name]

    def text(self, name: str, of: str = "") -> str | None:
        """An attribute as text."""
        value = self.attribute(name, of)
        if isinstance(value, np.ndarray) and value.size >= 1:
            value = value.reshape(-1)[0]
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace").strip()
        return None if value is None else str(value).strip()

    def number(self, name: str, of: str = "") -> float | None:
        """An attribute as one finite number."""
        values = self.numbers(name, of)
        return None if values is None or values.size != 1 or not np.isfinite(values[0]) else float(values[0])

    def numbers(self, name: str, of: str = "") -> np.ndarray | None:
        """An attribute as a list of numbers; None if there is none or it is something else."""
        value = self.attribute(name, of)
        try:
            return None if value is None else np.atleast_1d(np.asarray(value)).astype(np.float64).reshape(-1)
        except (TypeError, ValueError):
            return None
