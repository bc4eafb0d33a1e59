"""Options that every command with a scene takes: its unit, and which masked pixels to use all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from flame.io import OpenOptions

__all__ = ["scene_options", "unit_options"]

_Unit = Annotated[
    str | None, typer.Option(help="Radiance unit of the file where it does not say, as in 'W m-2 um-1 sr-1'.")
]
_Scale = Annotated[float | None, typer.Option(help="What 1 in the file is in uW cm-2 nm-1 sr-1, instead of --unit.")]


def unit_options(unit: _Unit = None, scale: _Scale = None) -> OpenOptions:
    """A group: the unit of a scene.

    Raises:
        FlameError: If the unit is not known.
    """
    from flame.io import OpenOptions

    return OpenOptions(unit=unit, scale=scale)


def scene_options(
    unit: _Unit = None,
    scale: _Scale = None,
    keep_water: Annotated[bool, typer.Option("--keep-water", help="Use pixels masked as water.")] = False,
    keep_cloud: Annotated[bool, typer.Option("--keep-cloud", help="Use pixels masked as cloud.")] = False,
    keep_cirrus: Annotated[bool, typer.Option("--keep-cirrus", help="Use pixels masked as cirrus.")] = False,
    keep_snow: Annotated[bool, typer.Option("--keep-snow", help="Use pixels masked as snow.")] = False,
    keep_flare: Annotated[bool, typer.Option("--keep-flare", help="Use pixels masked as flare.")] = False,
    keep_saturated: Annotated[bool, typer.Option("--keep-saturated", help="Use pixels masked as saturated.")] = False,
    keep_detector: Annotated[
        bool, typer.Option("--keep-detector", help="Use pixels masked as of a faulty detector.")
    ] = False,
) -> OpenOptions:
    """A group: the unit of a scene and which masked pixels are used.

    Raises:
        FlameError: If the unit is not known.
    """
    from flame.io import OpenOptions
    from flame.scene import MaskRule

    kept = {
        "water": keep_water,
        "cloud": keep_cloud,
        "cirrus": keep_cirrus,
        "snow": keep_snow,
        "flare": keep_flare,
        "saturated": keep_saturated,
        "detector": keep_detector,
    }
    return OpenOptions(unit=unit, scale=scale, mask=MaskRule.keeping(name for name, wanted in kept.items() if wanted))
