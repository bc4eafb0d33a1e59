"""What a file may claim before anything is allocated for it, and which paths may be opened at all.

A header is a few bytes and can promise anything. Every reader asks here first, so that a damaged or hostile file costs
a message and neither memory nor time.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Sequence
from pathlib import Path

from flame.io.errors import ReaderError

__all__ = [
    "MAX_TEXT_BYTES",
    "check_block",
    "check_cube",
    "check_expansion",
    "check_in_memory",
    "read_text",
    "regular_file",
]

MAX_PIXELS = 400_000_000
"""Rows times columns: 20,000 x 20,000. The longest flight lines have 30 million."""

MAX_BANDS = 4_096
MAX_SIDE = 2_000_000
MAX_IN_MEMORY_BYTES = 2_000_000_000
"""For what has to be read whole: chips, location arrays, look-up tables."""

MAX_BLOCK_BYTES = 512_000_000
"""The smallest piece a compressed file lets one read: an HDF5 chunk, a TIFF tile or strip."""

MAX_TEXT_BYTES = 64_000_000
"""Headers and metadata."""

_MAX_EXPANSION = 1_200
"""Deflate cannot do more than 1,032 to 1; what claims more holds nothing but fill."""

_EXPANSION_MATTERS_BYTES = 64_000_000

_AGAIN = "copy or download it again"


def regular_file(path: Path) -> Path:
    """The path, if it is an ordinary file that can be opened without waiting for anybody.

    Raises:
        ReaderError: If it is not there, or is a folder, a pipe, a device or a socket.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ReaderError(path, "the file is not there", _AGAIN) from None
    except (OSError, ValueError) as failure:
        raise ReaderError(path, f"cannot be looked at ({failure})", "check the path and its permissions") from failure
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, device or socket"
        raise ReaderError(path, f"is {kind}, not a file", "copy the data into a file and give that")
    return path


def read_text(path: Path, limit: int = MAX_TEXT_BYTES) -> str:
    """A text file of bounded size; bytes that are not UTF-8 are read as Latin-1."""
    size = regular_file(path).stat().st_size
    if size > limit:
        raise ReaderError(path, f"has {size:,} bytes, too many for a header", "give the header and not the data")
    try:
        content = path.read_bytes()
    except OSError as failure:
        raise ReaderError(path, f"cannot be read ({failure.strerror})", "check its permissions") from failure
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def check_cube(path: Path, bands: int, rows: int, cols: int) -> None:
    """Refuses a cube of impossible size."""
    if min(bands, rows, cols) < 1:
        raise ReaderError(path, f"declares {bands} bands of {rows} x {cols} pixels: it is empty", _AGAIN)
    if bands > MAX_BANDS or max(rows, cols) > MAX_SIDE or rows * cols > MAX_PIXELS:
        raise ReaderError(
            path,
            f"declares {bands:,} bands of {rows:,} x {cols:,} pixels, more than any flight line has",
            f"{_AGAIN}, or cut it into pieces of at most {MAX_PIXELS // 1_000_000} million pixels",
        )


def check_in_memory(path: Path, what: str, shape: Sequence[int], item_bytes: int) -> None:
    """Refuses an array too large to be read whole."""
    size = math.prod(int(length) for length in shape) * item_bytes
    if any(length < 0 for length in shape) or size > MAX_IN_MEMORY_BYTES:
        listed = " x ".join(f"{int(length):,}" for length in shape)
        raise ReaderError(
            path, f"{what} declares {listed} values, {size / 1e9:,.0f} GB", f"{_AGAIN}, or cut the scene into pieces"
        )


def check_block(path: Path, what: str, shape: Sequence[int], item_bytes: int) -> None:
    """Refuses a file whose smallest readable piece is too large."""
    size = math.prod(int(length) for length in shape) * item_bytes
    if size > MAX_BLOCK_BYTES:
        raise ReaderError(
            path,
            f"{what} is stored in pieces of {size / 1e9:,.1f} GB that can only be read whole",
            "store it again in smaller chunks or strips",
        )


def check_expansion(path: Path, declared_bytes: int) -> None:
    """Refuses a file that would unpack to more than its bytes can hold."""
    size = path.stat().st_size
    if declared_bytes > _EXPANSION_MATTERS_BYTES and declared_bytes > size * _MAX_EXPANSION:
        raise ReaderError(
            path, f"has {size:,} bytes and declares {declared_bytes / 1e9:,.1f} GB: most of it is not there", _AGAIN
        )
