"""Picks the reader of a file by looking at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flame.io import envi, npz_chip, oxhyper, starcop
from flame.io.errors import ReaderError
from flame.scene import Scene

__all__ = ["READERS", "Reader", "read_scene"]


@dataclass(frozen=True)
class Reader:
    """One file format.

    Attributes:
        name: Short name of the format.
        looks_like: What such a file is, for people.
        recognises: Whether a path, known to exist, is of this format; looks at names and first bytes only.
        read: Reads the whole scene.
    """

    name: str
    looks_like: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path], Scene]


READERS: tuple[Reader, ...] = (
    Reader("starcop", starcop.LOOKS_LIKE, starcop.is_tile, starcop.read_tile_scene),
    Reader("oxhyper", oxhyper.LOOKS_LIKE, oxhyper.is_tile, oxhyper.read_tile_scene),
    Reader("npz", npz_chip.LOOKS_LIKE, npz_chip.is_chip, npz_chip.read_chip),
    Reader("envi", envi.LOOKS_LIKE, envi.is_envi, envi.read_envi),
)
"""All formats, asked in this order."""


def read_scene(path: Path | str) -> Scene:
    """Reads a scene or tile of any known format.

    Raises:
        ReaderError: If the path does not exist, no reader knows it, or the file is damaged.
    """
    path = Path(path)
    known = "".join(f"\n  {reader.name}: {reader.looks_like}" for reader in READERS)
    if not path.exists():
        raise ReaderError(path, "no such file or folder", f"give one of{known}")
    for reader in READERS:
        if reader.recognises(path):
            return reader.read(path)
    raise ReaderError(path, "not in a format that FLAME reads", f"give one of{known}")
