"""JSON back into dataclasses: whatever a damaged or forged file holds, one clear error says what is wrong."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from flame.errors import FlameError

__all__ = ["RecordError", "parse_json", "read_json", "record"]

_LARGEST_BYTES = 64 << 20
"""No JSON that FLAME reads comes near this; a larger one is not one of them."""

T = TypeVar("T")


class RecordError(FlameError):
    """JSON that is damaged or does not say what was expected."""


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


def record(cls: type[T], entries: object, where: str, finite: bool = True) -> T:
    """Builds a dataclass from a JSON object; every entry must be known and of the declared type.

    Understands int, float, bool, str, None, Literal, tuple[X, ...], list[X], dict[str, X] and other dataclasses.

    Args:
        cls: The dataclass.
        entries: What `parse_json` gave.
        where: The file, for messages.
        finite: Whether numbers must be finite.

    Raises:
        RecordError: If an entry is unknown, missing or of another type.
        FlameError: What the class itself raises.
    """
    if not isinstance(entries, dict):
        raise RecordError(f"{where}: expected one JSON object with the entries of {cls.__name__}")
    hints = get_type_hints(cls)
    known = {entry.name: entry for entry in fields(cls) if entry.init}  # type: ignore[arg-type]
    if unknown := sorted(map(repr, entries.keys() - known.keys())):
        raise RecordError(f"{where}: unknown entries {', '.join(unknown)}; was it written by a later flame?")
    for name, entry in known.items():
        if name not in entries and entry.default is MISSING and entry.default_factory is MISSING:
            raise RecordError(f"{where}: the entry '{name}' is missing")
    return cls(**{name: _typed(hints[name], value, f"{where}: {name}", finite) for name, value in entries.items()})


def _typed(kind: Any, value: Any, where: str, finite: bool) -> Any:
    """A JSON value as the declared type, or an error."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None and NoneType in inner else _typed(_first(inner), value, where, finite)
    if origin is Literal and value in inner:
        return value
    if origin in (tuple, list) and isinstance(value, list):
        return origin(_typed(inner[0], item, where, finite) for item in value)
    if origin is dict and isinstance(value, dict):
        return {key: _typed(inner[1], item, where, finite) for key, item in value.items()}
    if hasattr(kind, "__dataclass_fields__"):
        return record(kind, value, where, finite)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not (finite or isinstance(value, int)) or abs(value) <= _LARGEST_FLOAT:  # NaN is not below anything
            return float(value)
    elif kind is Any or (kind in (int, str, bool) and type(value) is kind):
        return value
    shown = repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "..."
    raise RecordError(f"{where} is {shown}, expected {getattr(kind, '__name__', kind)}")


_LARGEST_FLOAT = 1e300


def _first(inner: tuple[Any, ...]) -> Any:
    """The one kind beside None in an optional entry."""
    return next(kind for kind in inner if kind is not NoneType)
