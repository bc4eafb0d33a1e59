"""The cache file: magic, a JSON header with its own CRC-32 in the first 64 KiB, then one aligned array a layer, tiles
along the first axis.

While it is being built the file is called `<name>.<random>.partial`; the rename at the end is the mark of a finished
cache. Only a regular file of the same user is gone on with: nobody else can lay one in the way.
Each tile has a state and a CRC-32 that are written after its layers, so a build that was killed at any moment goes on
with the tiles that are not yet whole.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flame.errors import FlameError
from flame.files import whole_file
from flame.physics import BandSet
from flame.records import parse_json

__all__ = ["IMAGE_LAYERS", "CacheError", "CacheFile", "CacheSpec", "State", "partial_path"]

MAGIC = b"FLAMEC02"
HEADER_BYTES = 1 << 16
_START = struct.Struct("<8sQI")
"""Magic, length of the header, its CRC-32."""
ALIGN_BYTES = 4096
NAME_BYTES = 128

IMAGE_LAYERS = ("radiance", "rgb", "label", "valid", "teacher", "enhancement")
"""The layers with one image per tile; label and valid are stored as 0 and 1."""


class CacheError(FlameError):
    """A cache that cannot be read or built."""


class State:
    """What stands in a tile's slot."""

    EMPTY = 0
    WRITTEN = 1
    FAILED = 2


@dataclass(frozen=True)
class CacheSpec:
    """What a cache holds; all tiles are alike.

    Attributes:
        tiles: Number of slots.
        rows: Rows of every tile.
        cols: Columns of every tile.
        bands: Bands of the radiance.
        layers: Image layers present, out of `IMAGE_LAYERS`.
        source: What the tiles were made from; a build goes on only from the same.
    """

    tiles: int
    rows: int
    cols: int
    bands: BandSet
    layers: tuple[str, ...]
    source: str

    def arrays(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Type and shape of every array in the file, in the order they stand."""
        image = (self.tiles, self.rows, self.cols)
        listed: dict[str, tuple[str, tuple[int, ...]]] = {
            "radiance": ("f4", (self.tiles, len(self.bands), self.rows, self.cols)),
            "rgb": ("f4", (self.tiles, 3, self.rows, self.cols)),
            "label": ("u1", image),
            "valid": ("u1", image),
            "teacher": ("f4", image),
            "enhancement": ("f4", image),
            "emission_kg_h": ("f8", (self.tiles,)),
            "name": (f"S{NAME_BYTES}", (self.tiles,)),
            "crc": ("u4", (self.tiles,)),
            "state": ("u1", (self.tiles,)),
        }
        present = {name: entry for name, entry in listed.items() if name in self.layers or name not in IMAGE_LAYERS}
        return {name: (np.dtype(kind).newbyteorder("<"), shape) for name, (kind, shape) in present.items()}

    def offsets(self) -> tuple[dict[str, int], int]:
        """Where each array begins, and the size of the whole file, in bytes."""
        offsets, end = {}, HEADER_BYTES
        for name, (dtype, shape) in self.arrays().items():
            offsets[name] = end
            size = dtype.itemsize * math.prod(shape)
            end += -(-size // ALIGN_BYTES) * ALIGN_BYTES
        return offsets, end

    def to_json(self) -> str:
        """The header's text."""
        return json.dumps(
            {
                "tiles": self.tiles,
                "rows": self.rows,
                "cols": self.cols,
                "centres_nm": self.bands.centres_nm.tolist(),
                "fwhm_nm": self.bands.fwhm_nm.tolist(),
                "layers": list(self.layers),
                "source": self.source,
            }
        )

    @classmethod
    def from_json(cls, text: bytes, where: str) -> CacheSpec:
        """The header read back."""
        content = parse_json(text, where, "the header of a cache")
        bands = BandSet(np.array(content["centres_nm"]), np.array(content["fwhm_nm"]))
        sizes = [int(content[name]) for name in ("tiles", "rows", "cols")]
        layers = tuple(content["layers"])
        if min(sizes) < 1 or not {"radiance", "label", "valid"} <= set(layers) <= set(IMAGE_LAYERS):
            raise CacheError(f"{where}: tells of tiles, rows and columns {sizes} and layers {layers}")
        tiles, rows, cols = sizes
        return cls(tiles, rows, cols, bands, layers, str(content["source"]))


def partial_path(path: Path) -> Path:
    """What the file is called while it is being built: the newest that an earlier build left, else a fresh name.

    A link, or a file of another user, is left alone.
    """
    begins, ends = f"{path.name}.", ".partial"
    found = []
    for other in path.parent.iterdir() if path.parent.is_dir() else ():
        if other.name.startswith(begins) and other.name.endswith(ends):
            there = other.lstat()
            if stat.S_ISREG(there.st_mode) and there.st_uid == _user(there):
                found.append((there.st_mtime_ns, other))
    return max(found)[1] if found else path.with_name(f"{begins}{secrets.token_hex(8)}{ends}")


def _user(there: os.stat_result) -> int:
    """This user's number; where the system has none, whoever owns the file."""
    return os.geteuid() if hasattr(os, "geteuid") else there.st_uid


class CacheFile:
    """The arrays of a cache file, memory-mapped."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        """Opens a file.

        Raises:
            CacheError: If it is no cache, is damaged or truncated.
        """
        self.path = path
        self.spec = _read_spec(path)
        offsets, size = self.spec.offsets()
        if path.stat().st_size != size:
            raise CacheError(
                f"{path}: has {path.stat().st_size} bytes, its header says {size}; it was truncated while copied "
                "or written, build it again"
            )
        mode: Literal["r+", "r"] = "r+" if writable else "r"
        self.arrays: dict[str, Any] = {
            name: np.memmap(path, dtype=dtype, mode=mode, offset=offsets[name], shape=shape)
            for name, (dtype, shape) in self.spec.arrays().items()
        }

    @classmethod
    def create(cls, path: Path, spec: CacheSpec) -> CacheFile:
        """Makes an empty file with all of its space reserved."""
        header = spec.to_json().encode()
        if len(header) + _START.size > HEADER_BYTES:
            raise CacheError(f"{path}: {len(spec.bands)} bands do not fit the header of a cache; select fewer")
        _, size = spec.offsets()
        with whole_file(path) as fresh, fresh.open("r+b") as file:
            try:
                file.truncate(size)
                if hasattr(os, "posix_fallocate"):  # Finds a full disk now, not as a crash inside a mapped page.
                    os.posix_fallocate(file.fileno(), 0, size)
            except OSError as failure:
                raise CacheError(
                    f"{path}: cannot reserve {size / 1e9:.1f} GB ({failure}); free some space or cache fewer tiles"
                ) from failure
            file.write(_START.pack(MAGIC, len(header), zlib.crc32(header)) + header)
        return cls(path, writable=True)

    def checksum(self, slot: int) -> int:
        """CRC-32 of everything stored for a tile."""
        crc = 0
        for layer in (*self.spec.layers, "emission_kg_h", "name"):
            stored: Any = np.ascontiguousarray(self.arrays[layer][slot])
            crc = zlib.crc32(memoryview(stored).cast("B"), crc)
        return crc

    def whole(self, slot: int) -> bool:
        """Whether a slot holds a tile exactly as it was written."""
        return bool(self.arrays["state"][slot] == State.WRITTEN) and self.matches(slot)

    def matches(self, slot: int) -> bool:
        """Whether what stands in a slot fits its checksum."""
        return self.checksum(slot) == int(self.arrays["crc"][slot])

    def flush(self) -> None:
        """Brings everything to the disk."""
        for array in self.arrays.values():
            array.flush()


def _read_spec(path: Path) -> CacheSpec:
    if not path.is_file():
        hint = "its build was interrupted, run it again to go on" if partial_path(path).is_file() else "build it first"
        raise CacheError(f"{path}: no such cache; {hint}")
    with path.open("rb") as file:
        start = file.read(HEADER_BYTES)
    if len(start) < _START.size or start[: len(MAGIC)] != MAGIC:
        raise CacheError(f"{path}: not a FLAME tile cache, or of another version; delete it and build it again")
    _, length, crc = _START.unpack_from(start)
    header = start[_START.size : _START.size + length]
    try:
        if zlib.crc32(header) != crc:
            raise CacheError("its checksum does not fit")
        return CacheSpec.from_json(header, str(path))
    except (ValueError, KeyError, TypeError, OverflowError) as failure:
        raise CacheError(f"{path}: the header is damaged ({failure}); delete it and build it again") from failure
