"""Settings and records that check themselves, and JSON back into them: whatever a file holds, one clear error says so.

A damaged or hostile file must not get past this point: what is computed later divides by these numbers, takes their
logarithms and makes arrays as large as they say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from flame.errors import FlameError

__all__ = [
    "RecordError",
    "SettingsError",
    "check_numbers",
    "from_entries",
    "names",
    "number",
    "parse_json",
    "read_json",
    "record",
]

_LARGEST_BYTES = 64 << 20
"""No JSON that FLAME reads comes near this; a larger one is not one of them."""

_LARGEST_FLOAT = 1e300

Settings = TypeVar("Settings")


class SettingsError(FlameError):
    """Settings that cannot be right."""


class RecordError(FlameError):
    """A JSON file that is damaged or does not say what was expected."""


def read_json(path: Path, what: str) -> Any:
    """The content of a JSON file.

    Args:
        path: The file.
        what: What it should be, for messages.

    Raises:
        RecordError: If it is not there, too large, not UTF-8 or not JSON.
    """
    if not path.is_file():
        raise RecordError(f"{path}: no such file; {what} was expected")
    if path.stat().st_size > _LARGEST_BYTES:
        raise RecordError(f"{path}: has {path.stat().st_size} bytes, too many for {what}")
    return parse_json(path.read_bytes(), str(path), what)


def parse_json(text: bytes | str, where: str, what: str, finite: bool = True) -> Any:
    """The content of JSON text.

    Args:
        text: The text, UTF-8 if bytes.
        where: The file, for messages.
        what: What it should be, for messages.
        finite: Whether NaN and infinity, which JSON does not know, are refused.

    Raises:
        RecordError: If it is not UTF-8 or not JSON.
    """
    try:
        return json.loads(text, parse_constant=_refuse if finite else None)
    except (ValueError, RecursionError) as failure:  # Numbers of 5,000 digits and deep nesting are no JSONDecodeError.
        raise RecordError(f"{where}: not JSON ({failure}); {what} was expected") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def record(cls: type[Settings], entries: object, where: str, finite: bool = True) -> Settings:
    """`from_entries` for the content of a file.

    Args:
        cls: The dataclass.
        entries: What `parse_json` gave.
        where: The file, for messages.
        finite: Whether numbers must be finite.

    Raises:
        RecordError: If an entry is unknown, missing or of another type.
        FlameError: What the class itself raises.
    """
    try:
        return from_entries(cls, entries, finite)
    except SettingsError as mistake:
        raise RecordError(f"{where}: {mistake}") from None


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


def from_entries(cls: type[Settings], entries: object, finite: bool = True) -> Settings:
    """Settings from the entries of a JSON object.

    Understands int, float, bool, str, None, Literal, tuple[X, ...], list[X], Mapping and dict[str, X], and other
    dataclasses.

    Args:
        cls: The dataclass.
        entries: What stands in the file.
        finite: Whether numbers must be finite.

    Raises:
        SettingsError: If an entry is unknown or missing, or has a value that cannot be right.
    """
    if not isinstance(entries, Mapping):
        raise SettingsError(f"expected an object with the entries of {cls.__name__}, got {type(entries).__name__}")
    known = {entry.name: entry for entry in fields(cls) if entry.init}  # type: ignore[arg-type]
    if unknown := sorted(str(name) for name in entries.keys() - known.keys()):
        listed = ", ".join(unknown) if ", ".join(unknown).isprintable() else repr(unknown)
        raise SettingsError(f"unknown entries {listed:.200}; was it written by a later flame?")
    kinds = get_type_hints(cls)
    given: dict[str, Any] = {}
    for name, entry in known.items():
        if name in entries:
            wanted = entry.metadata.get("range")
            if wanted is not None and not _fits(entries[name], wanted):
                raise SettingsError(_out_of_range(name, entries[name], wanted))
            try:
                given[name] = _converted(entries[name], kinds[name], finite)
            except SettingsError as mistake:
                raise SettingsError(f"{name}: {mistake}") from None
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise SettingsError(f"the entry '{name}' is missing")
    return cls(**given)


def _converted(value: object, kind: Any, finite: bool) -> Any:
    """A value of JSON as the type that a setting is declared with."""
    of, inner = get_origin(kind), get_args(kind)
    if of in (Union, UnionType):
        chosen = [each for each in inner if (each is NoneType) == (value is None)]
        return _converted(value, chosen[0] if chosen else inner[0], finite)
    if of is Literal:
        fits: object = isinstance(value, str) and value in inner
    elif of in (tuple, list):
        fits = isinstance(value, list | tuple)
    elif kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and _bounded(value, finite)
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif is_dataclass(kind):
        return from_entries(kind, value, finite)  # type: ignore[arg-type]
    else:
        fits = isinstance(value, of or kind)
    if not fits:
        expected = f"one of {', '.join(inner)}" if of is Literal else str(getattr(kind, "__name__", kind))
        raise SettingsError(f"expected {expected}, got {value!r:.80}")
    if isinstance(value, list | tuple):
        return (list if of is list else tuple)(_converted(each, inner[0], finite) for each in value)
    if of is dict and isinstance(value, dict):
        return {name: _converted(each, inner[1], finite) for name, each in value.items()}
    return float(value) if kind is float and isinstance(value, int) else value


def _bounded(value: int | float, finite: bool) -> bool:
    """Whether a number is none that only a damaged file holds; NaN is not below anything."""
    return abs(value) <= _LARGEST_FLOAT or not (finite or isinstance(value, int))
