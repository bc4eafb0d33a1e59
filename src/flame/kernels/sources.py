"""The checksum of the C sources: compiled into the library, and compared with what lies beside it when it is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["checksum"]


def checksum(folder: Path) -> str | None:
    """SHA-256 over names and contents of all C files of a folder; None if there are none."""
    found = hashlib.sha256()
    files = sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h"))
    for path in files:
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest() if files else None
