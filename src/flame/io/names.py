"""Tile names: safe as folder names, and telling of the flight line a tile was cut from."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["SAFE_NAME", "acquisition_time", "flight_line", "is_safe_name"]

SAFE_NAME = "letters, digits, '.', '_' and '-' only"
"""What tile names may hold, for messages."""

_FLIGHT_LINE = re.compile(r"(ang(\d{8})t(\d{6}))")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_safe_name(name: str) -> bool:
    """Whether a name may be a folder on every system and cannot lead out of the folder it is put in."""
    return _SAFE_NAME.fullmatch(name) is not None and not name.endswith(".")


def flight_line(name: str) -> str | None:
    """The flight line a tile was cut from, as in ang20191018t144405_r2674_c436_w151_h151."""
    match = _FLIGHT_LINE.search(name)
    return match[1] if match else None


def acquisition_time(name: str) -> datetime | None:
    """Start of the flight line (UTC) that the tile's name tells."""
    match = _FLIGHT_LINE.search(name)
    return datetime.strptime(match[2] + match[3], "%Y%m%d%H%M%S").replace(tzinfo=UTC) if match else None
