"""Tile names: safe as folder names, and telling of the flight line a tile was cut from."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from flame.io.errors import ReaderError

__all__ = ["acquisition_time", "check_name", "flight_line"]

_FLIGHT_LINE = re.compile(r"(ang(\d{8})t(\d{6}))")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_name(name: str) -> None:
    """Refuses tile names that cannot safely be a folder name on every system."""
    if not _SAFE_NAME.fullmatch(name) or name.endswith("."):
        raise ReaderError(
            name, "a tile name that is not safe as a folder name", "use letters, digits, '.', '_' and '-' only"
        )


def flight_line(name: str) -> str | None:
    """The flight line a tile was cut from, as in ang20191018t144405_r2674_c436_w151_h151."""
    match = _FLIGHT_LINE.search(name)
    return match[1] if match else None


def acquisition_time(name: str) -> datetime | None:
    """Start of the flight line (UTC) that the tile's name tells."""
    match = _FLIGHT_LINE.search(name)
    return datetime.strptime(match[2] + match[3], "%Y%m%d%H%M%S").replace(tzinfo=UTC) if match else None
