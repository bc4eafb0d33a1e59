"""Settings that check themselves: every number has a kind and a range, and other entries are refused by name.

A damaged or hostile file must not get past this point: what is computed later divides by these numbers, takes their
logarithms and makes arrays as large as they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

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
            raise SettingsError(_out_of_range(entry.name, value, wanted))
        if entry.metadata.get("names") and len(set(value)) < len(value):
            raise SettingsError(f"{entry.name} names something twice: {', '.join(value)}")


def _out_of_range(name: str, value: object, wanted: _Range) -> str:
    kind = "a whole number" if wanted.kind is int else "a number"
    return f"{name} must be {kind} from {wanted.least:g} to {wanted.most:g}, got {value!r:.80}"


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
    kinds = get_type_hints(cls)
    given: dict[str, Any] = {}
    for name, entry in known.items():
        if name in entries:
            wanted = entry.metadata.get("range")
            if wanted is not None and not _fits(entries[name], wanted):
                raise SettingsError(_out_of_range(name, entries[name], wanted))
            try:
                given[name] = _converted(entries[name], kinds[name])
            except SettingsError as mistake:
                raise SettingsError(f"{name}: {mistake}") from None
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise SettingsError(f"the entry '{name}' is missing")
    return cls(**given)


def _converted(value: object, kind: Any) -> Any:
    """A value of JSON as the type that a setting is declared with."""
    of, inner = get_origin(kind), get_args(kind)
    if of in (Union, UnionType):
        chosen = [each for each in inner if (each is NoneType) == (value is None)]
        return _converted(value, chosen[0] if chosen else inner[0])
    if of is Literal:
        fits: object = isinstance(value, str) and value in inner
    elif of is tuple:
        fits = isinstance(value, list | tuple)
    elif kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif is_dataclass(kind):
        return from_entries(kind, value)  # type: ignore[arg-type]
    else:
        fits = isinstance(value, of or kind)
    if not fits:
        expected = f"one of {', '.join(inner)}" if of is Literal else str(getattr(kind, "__name__", kind))
        raise SettingsError(f"expected {expected}, got {value!r:.80}")
    if isinstance(value, list | tuple):
        return tuple(_converted(each, inner[0]) for each in value)
    return float(value) if kind is float and isinstance(value, int) else value
