"""Options that belong together, written once and taken by several commands.

A group is a function whose parameters are options and whose result is what they mean. `takes(measure=measure_options)`
gives a command those options, and the command gets their meaning under the name `measure`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["takes"]


def takes(**groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the options of groups to a command, which has a parameter for each group by its name."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = _options(command, leaving_out=frozenset(groups))
        belonging = {name: _options(group) for name, group in groups.items()}

        def called(**given: Any) -> None:
            meant = {
                name: groups[name](**{option.name: given.pop(option.name) for option in options})
                for name, options in belonging.items()
            }
            command(**given, **meant)

        parameters = [*own, *(option for options in belonging.values() for option in options)]
        called.__doc__, called.__name__ = command.__doc__, command.__name__
        called.__module__ = command.__module__
        called.__annotations__ = {option.name: option.annotation for option in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return called

    return decorated


def _options(
    function: Callable[..., Any], leaving_out: set[str] | frozenset[str] = frozenset()
) -> list[inspect.Parameter]:
    """Parameters with annotations as types; those of groups may name what is only imported for type checkers."""
    scope = inspect.unwrap(function).__globals__
    found = []
    for each in inspect.signature(function).parameters.values():
        if each.name not in leaving_out:
            kind = eval(each.annotation, scope) if isinstance(each.annotation, str) else each.annotation
            found.append(each.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    return found
