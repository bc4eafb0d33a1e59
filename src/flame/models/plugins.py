"""Networks and backbones of a user's own, found by entry point or by `module:Name`, without editing the package.

A package offers one in its pyproject:

    [project.entry-points."flame.backbones"]
    mine = "my_package.operators:MyOperator"
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from flame.errors import FlameError

__all__ = ["BACKBONE_GROUP", "MODEL_GROUP", "MissingExtraError", "PluginError", "find_plugin", "plugin_names"]

MODEL_GROUP = "flame.models"
BACKBONE_GROUP = "flame.backbones"


class PluginError(FlameError):
    """A network or backbone of a user's own that cannot be loaded."""


class MissingExtraError(FlameError):
    """A part of the package whose libraries are not installed.

    Args:
        what: What was asked for.
        extra: The extra that brings its libraries.
        failure: The import that failed.
    """

    def __init__(self, what: str, extra: str, failure: ImportError) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'flame-methane[{extra}]' ({failure})")


def plugin_names(group: str) -> list[str]:
    """Names that installed packages offer in a group."""
    return sorted({entry.name for entry in entry_points(group=group)})


def find_plugin(group: str, name: str) -> Callable[..., Any] | None:
    """The constructor behind `module:Name` or behind an entry point of that name; None if there is none.

    Raises:
        PluginError: If it is named but cannot be imported, or is nothing that can be called.
    """
    try:
        if ":" in name:
            module, _, attribute = name.partition(":")
            found: Any = import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        else:
            entries = entry_points(group=group, name=name)
            if not entries:
                return None
            found = next(iter(entries)).load()
    except (ImportError, AttributeError, ValueError) as failure:
        raise PluginError(f"'{name}' cannot be loaded: {failure}; write module:Name of something importable") from None
    if not callable(found):
        raise PluginError(f"'{name}' is a {type(found).__name__}; give a class or a function that makes a network")
    constructor: Callable[..., Any] = found
    return constructor
