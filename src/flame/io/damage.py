"""What is wrong with a file that is named or begins like a product but that no reader can open."""

from __future__ import annotations

import zipfile
from pathlib import Path

__all__ = ["damage_of", "looks_like_product"]

_HDF5_SUFFIXES = (".nc", ".nc4", ".h5", ".he5", ".hdf5")
_TIFF_SUFFIXES = (".tif", ".tiff")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_NETCDF3 = b"CDF"
_ZIP = b"PK\x03\x04"
_UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".tmp")
"""Names that a download has until it is whole."""


def looks_like_product(path: Path) -> bool:
    """Whether a file that no reader knows was meant as one: by its name, or by its first bytes.

    Text, pictures and the like are none, and neither is a zip file that does not speak of EnMAP.
    """
    suffix = path.suffix.lower()
    if suffix in (*_HDF5_SUFFIXES, *_TIFF_SUFFIXES):
        return not path.is_dir()
    start = _start(path) or b""
    if suffix == ".zip":
        return "enmap" in path.name.lower() or (start.startswith(_ZIP) and b"enmap" in start.lower())
    return start.startswith(_HDF5) and suffix not in _UNFINISHED


def damage_of(path: Path) -> str | None:
    """What is wrong with a file that no reader knows; None if it is whole, and simply something else."""
    start, suffix = _start(path), path.suffix.lower()
    if start is None:
        return None
    if not start:
        return "is empty"
    if start.startswith(_HDF5):
        return _hdf5_damage(path)
    if start.startswith(_ZIP):
        return _zip_damage(path)
    if suffix in _HDF5_SUFFIXES and not start.startswith(_NETCDF3):
        return "is damaged: it does not begin as HDF5 or netCDF-4 does"
    if suffix in _TIFF_SUFFIXES:
        return "is damaged: it does not begin as TIFF does"
    return None


def _start(path: Path) -> bytes | None:
    """The first bytes of an ordinary file; None of anything else. A pipe is never opened: that would wait."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(4096)
    except OSError:
        return None


def _hdf5_damage(path: Path) -> str | None:
    from flame.io.errors import ReaderError
    from flame.io.hdf5 import Hdf5File

    try:
        Hdf5File(path).close()
    except ReaderError as failure:
        return f"is truncated or damaged ({failure.problem.removeprefix('is damaged (').removesuffix(')')})"
    return None


def _zip_damage(path: Path) -> str | None:
    try:
        with zipfile.ZipFile(path):
            return None
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as failure:
        return f"is truncated or damaged ({failure})"
