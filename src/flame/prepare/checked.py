"""Settings that check themselves: every number has a kind and a range, and other entries are refused by name.

A damaged or hostile file must not get past this point: what is computed later divides by these numbers, takes their
logarithms and makes arrays as large as they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from flame.errors import FlameError

__all__ = ["SettingsError", "check_numbers", "from_entries", "names", "number"]

Settings = TypeVar("Settings")


class SettingsError(FlameError):
    """Settings that cannot be right."""


@dataclass(frozen=True)
class _Range:
    kind: type[int] | type[float]
    least: int | float
    most: int | float


def number(kind: type[int] | type[float], least: int | float, most: int | float, default: Any = MISSING) -> Any:
    """A field of a settings class that holds one number from `least` to `most`; a whole one if `kind` is int."""
    return field(default=default, metadata={"range": _Range(kind, least, most)})


def names(default: Any = MISSING) -> Any:
    """A field that holds a list of names, each at most once."""
    return field(default=default, metadata={"names": True})


def check_numbers(settings: Any) -> None:
    """Refuses numbers of another kind or out of range, and lists that name something twice; for `__post_init__`.

    Raises:
        SettingsError: The message names the setting.
    """
    for entry in fields(settings):
        value, wanted = getattr(settings, entry.name), entry.metadata.get("range")
        if wanted is not None and not _fits(value, wanted):
            kind = "a whole number" if wanted.kind is int else "a number"
            raise SettingsError(f"{entry.name} must be {kind} from {wanted.least:g} to {wanted.most:g}, got {value!r}")
        if entry.metadata.get("names"):
            if not (isinstance(value, tuple) and all(isinstance(name, str) for name in value)):
                raise SettingsError(f"{entry.name} must be a list of names, got {value!r}")
            if len(set(value)) < len(value):
                raise SettingsError(f"{entry.name} names something twice: {', '.join(value)}")


def _fits(value: object, wanted: _Range) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if wanted.kind is int else int | float):
        return False
    return wanted.least <= value <= wanted.most  # which NaN never is


def from_entries(cls: type[Settings], entries: object) -> Settings:
    """Settings from the entries of a JSON object.

    Raises:
        SettingsError: If an entry is unknown or missing, or has a value that cannot be right.
    """
    if not isinstance(entries, Mapping):
        raise SettingsError(f"expected an object with the entries of {cls.__name__}, got {type(entries).__name__}")
    known = {entry.name: entry for entry in fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(str(name) for name in entries.keys() - known.keys()):
        raise SettingsError(f"unknown entries {', '.join(unknown)}; was it written by a later flame?")
    given: dict[str, Any] = {}
    for name, entry in known.items():
        if name not in entries:
            if entry.default is MISSING and entry.default_factory is MISSING:
                raise SettingsError(f"the entry '{name}' is missing")
            continue
        value = entries[name]
        inner: Any = entry.metadata.get("of", entry.default_factory)
        if is_dataclass(inner) and not (value is None and entry.default is None):
            try:
                value = from_entries(inner, value)  # type: ignore[arg-type]
            except SettingsError as mistake:
                raise SettingsError(f"{name}: {mistake}") from None
        wanted = entry.metadata.get("range")
        if wanted is not None and wanted.kind is float and _fits(value, wanted):
            value = float(value)
        given[name] = tuple(value) if isinstance(value, list) else value
    return cls(**given)
