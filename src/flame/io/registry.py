"""Picks the reader of a file by looking into it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flame.io import (
    aviris3_l1b_netcdf,
    emit_l1b_netcdf,
    enmap_l1,
    envi,
    geotiff_cube,
    npz_chip,
    oxhyper,
    prisma_l1_he5,
    starcop,
    tanager_hdf5,
)
from flame.io.damage import damage_of
from flame.io.errors import ReaderError, UnknownFormatError
from flame.io.options import OpenOptions
from flame.scene import AnyScene, Scene, SceneError

__all__ = ["READERS", "Reader", "find_reader", "open_scene", "read_scene"]


@dataclass(frozen=True)
class Reader:
    """One file format.

    Attributes:
        name: Short name of the format.
        looks_like: What such a file is, for people.
        recognises: Whether a path, known to exist, is of this format: by its content, never by its suffix alone.
        open: Opens it with the user's options.
    """

    name: str
    looks_like: str
    recognises: Callable[[Path], bool]
    open: Callable[[Path, OpenOptions], AnyScene]


READERS: tuple[Reader, ...] = (
    Reader("starcop", starcop.LOOKS_LIKE, starcop.is_tile, starcop.open_tile),
    Reader("oxhyper", oxhyper.LOOKS_LIKE, oxhyper.is_tile, oxhyper.open_tile),
    Reader("enmap", enmap_l1.LOOKS_LIKE, enmap_l1.is_enmap, enmap_l1.open_enmap),
    Reader("npz", npz_chip.LOOKS_LIKE, npz_chip.is_chip, npz_chip.open_chip),
    Reader("emit", emit_l1b_netcdf.LOOKS_LIKE, emit_l1b_netcdf.is_emit, emit_l1b_netcdf.open_emit),
    Reader("prisma", prisma_l1_he5.LOOKS_LIKE, prisma_l1_he5.is_prisma, prisma_l1_he5.open_prisma),
    Reader("tanager", tanager_hdf5.LOOKS_LIKE, tanager_hdf5.is_tanager, tanager_hdf5.open_tanager),
    Reader("aviris3", aviris3_l1b_netcdf.LOOKS_LIKE, aviris3_l1b_netcdf.is_aviris3, aviris3_l1b_netcdf.open_aviris3),
    Reader("envi", envi.LOOKS_LIKE, envi.is_envi, envi.open_envi),
    Reader("geotiff", geotiff_cube.LOOKS_LIKE, geotiff_cube.is_geotiff, geotiff_cube.open_geotiff),
)
"""All formats, asked in this order."""


def find_reader(path: Path | str) -> Reader:
    """The reader of a file or folder.

    Raises:
        ReaderError: If the path does not exist, is a pipe or a device, or is empty, truncated or damaged.
        UnknownFormatError: If it is whole, but no reader knows it.
    """
    path = Path(path)
    known = "".join(f"\n  {reader.name}: {reader.looks_like}" for reader in READERS)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        raise ReaderError(path, "no such file or folder", f"give one of{known}") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ReaderError(path, "is a pipe, device or socket", "copy the data into a file and give that")
    try:
        for reader in READERS:
            if reader.recognises(path):
                return reader
    except OSError as failure:
        raise ReaderError(path, f"cannot be opened ({failure.strerror})", "check its permissions") from failure
    if damage := damage_of(path):
        raise ReaderError(path, damage, "copy or download it again")
    raise UnknownFormatError(path, "not in a format that FLAME reads", f"give one of{known}")


def open_scene(path: Path | str, options: OpenOptions | None = None) -> AnyScene:
    """Opens a scene or tile of any known format; large ones stay in their file and are read by lines.

    Args:
        path: The file or folder.
        options: Unit, bands and masks; what the file says if not given.

    Raises:
        ReaderError: If the path does not exist, no reader knows it, or the file is damaged.
    """
    path = Path(path)
    reader = find_reader(path)
    try:
        return reader.open(path, options or OpenOptions())
    except SceneError as failure:
        raise ReaderError(path, str(failure), "give another scene") from failure
    except OSError as failure:
        raise ReaderError(path, f"cannot be read ({failure.strerror})", "check its permissions") from failure


def read_scene(path: Path | str, options: OpenOptions | None = None) -> Scene:
    """Opens a scene and reads it into memory; see `open_scene`."""
    try:
        return open_scene(path, options).load()
    except SceneError as failure:
        raise ReaderError(path, str(failure), "give another scene") from failure
