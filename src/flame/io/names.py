"""Tile names: safe as folder names, and telling of the ground a tile was cut from."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["SAFE_NAME", "acquisition_time", "flight_line", "injected_name", "is_safe_name", "scene_of", "time_of_text"]

SAFE_NAME = "letters, digits, '.', '_' and '-' only"
"""What tile names may hold, for messages."""

_FLIGHT_LINE = re.compile(r"(ang(\d{8})t(\d{6}))")
_TIME = re.compile(r"((?:19|20)\d{6})[tT_](\d{6})")
_SATELLITE_TIME = re.compile(r"\d{8}T\d{6}")
_WINDOW = re.compile(r"(_r\d+_c\d+_w\d+_h\d+)+$")
_INJECTED = re.compile(r"^real_(?P<ground>.+)_[a-z]+_\d+_\d{6}$")
_INJECTED_SOMEWHERE = re.compile(r"^(?P<ground>real_[a-z]+_\d+)_\d{6}$")
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_safe_name(name: str) -> bool:
    """Whether a name may be a folder on every system and cannot lead out of the folder it is put in."""
    return _SAFE_NAME.fullmatch(name) is not None and not name.endswith(".")


def flight_line(name: str) -> str | None:
    """The flight line a tile was cut from, as in ang20191018t144405_r2674_c436_w151_h151."""
    match = _FLIGHT_LINE.search(name)
    return match[1] if match else None


def acquisition_time(name: str) -> datetime | None:
    """Start of acquisition (UTC) that a name tells, such as ang20191018t144405 or EMIT_..._20220827T060753_....

    Digits that are no date, such as the 99th of a month, tell nothing.
    """
    for match in _TIME.finditer(name):
        try:
            return datetime.strptime(match[1] + match[2], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def injected_name(ground: str, preset: str, seed: int, index: int) -> str:
    """The name of a tile whose plume was injected into a real scene; it tells which, so that splits can go by it.

    Args:
        ground: The scene's name; letters that a folder's name may not hold become hyphens.
        preset: Name of the simulation's settings.
        seed: Seed of the data set.
        index: Number of the tile.
    """
    return f"real_{_UNSAFE.sub('-', ground).strip('-.') or 'scene'}_{preset}_{seed}_{index:06d}"


def scene_of(name: str) -> str:
    """The flight line, satellite scene or real background a tile was cut from, as far as its name tells; else itself.

    Tiles of one scene share ground, air and often the very plume, so they must not lie on both sides of a split. Tiles
    named `real_wide_3_000007`, as data sets were before names told the background, are all of one unknown scene.
    """
    if line := flight_line(name):
        return line
    if satellite := _SATELLITE_TIME.search(name):
        return satellite[0]
    whole = _WINDOW.sub("", name)
    injected = _INJECTED.match(whole) or _INJECTED_SOMEWHERE.match(whole)
    return injected["ground"] if injected else whole


def time_of_text(text: str | None) -> datetime | None:
    """A time (UTC) as products write it: ISO 8601 with or without zone, or 2022-08-27T06:07:53+0000."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text.strip().strip("{} "))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
