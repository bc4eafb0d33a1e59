"""`name=value` changes to a recipe, so that an ablation needs no new recipe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from flame.errors import FlameError
from flame.training.recipes import Recipe

__all__ = ["OverrideError", "override"]


class OverrideError(FlameError):
    """A change that does not fit the recipe."""


def override(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with dotted settings changed, such as `model.score=none` or `optimizer.rate=1e-3`.

    Values are JSON; what is not JSON is taken as text.

    Raises:
        OverrideError: If a setting does not exist or a value has another type.
    """
    for change in changes:
        name, given, value = change.partition("=")
        if not given:
            raise OverrideError(f"'{change}' changes nothing; write name=value, such as model.score=none")
        recipe = _changed(recipe, name.split("."), value, name)
    return recipe


def _changed(settings: Any, path: list[str], value: str, name: str) -> Any:
    known = {entry.name for entry in fields(settings)}
    if path[0] not in known:
        raise OverrideError(f"the recipe has no setting '{name}'; at '{path[0]}' it knows {', '.join(sorted(known))}")
    current = getattr(settings, path[0])
    if len(path) > 1:
        if not is_dataclass(current):
            raise OverrideError(f"'{name}': {path[0]} is a single setting; write {path[0]}={value}")
        return replace(settings, **{path[0]: _changed(current, path[1:], value, name)})
    if is_dataclass(current):
        inside = [f"{name}.{entry.name}" for entry in fields(current)]
        raise OverrideError(f"'{name}' is a group of settings; change one of {', '.join(inside)}: {inside[0]}={value}")
    return replace(settings, **{path[0]: _parsed(current, value, name)})


def _parsed(current: Any, value: str, name: str) -> Any:
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        parsed = value
    if isinstance(current, tuple):
        return tuple(parsed) if isinstance(parsed, list) else tuple(part for part in str(parsed).split(",") if part)
    if isinstance(current, float) and isinstance(parsed, int) and not isinstance(parsed, bool):
        return float(parsed)
    if current is not None and parsed is not None and type(parsed) is not type(current):
        kind = type(current).__name__
        raise OverrideError(f"'{name}' is {current!r}, of type {kind}; '{value}' is of type {type(parsed).__name__}")
    return parsed
