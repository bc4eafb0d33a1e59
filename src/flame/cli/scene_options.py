"""Options that every command with a scene takes: its unit, and which masked pixels to use all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from flame.io import OpenOptions

__all__ = [
    "KeepCirrus",
    "KeepCloud",
    "KeepFlare",
    "KeepSaturated",
    "KeepSnow",
    "KeepWater",
    "ScaleOption",
    "UnitOption",
    "open_options",
]

UnitOption = Annotated[
    str | None, typer.Option(help="Radiance unit of the file where it does not say, as in 'W m-2 um-1 sr-1'.")
]
ScaleOption = Annotated[
    float | None, typer.Option(help="What 1 in the file is in uW cm-2 nm-1 sr-1, instead of --unit.")
]
KeepWater = Annotated[bool, typer.Option("--keep-water", help="Use pixels masked as water.")]
KeepCloud = Annotated[bool, typer.Option("--keep-cloud", help="Use pixels masked as cloud.")]
KeepCirrus = Annotated[bool, typer.Option("--keep-cirrus", help="Use pixels masked as cirrus.")]
KeepSnow = Annotated[bool, typer.Option("--keep-snow", help="Use pixels masked as snow.")]
KeepFlare = Annotated[bool, typer.Option("--keep-flare", help="Use pixels masked as flare.")]
KeepSaturated = Annotated[bool, typer.Option("--keep-saturated", help="Use pixels masked as saturated.")]


def open_options(unit: str | None, scale: float | None, **keep: bool) -> OpenOptions:
    """What these options say about a scene.

    Args:
        unit: As `UnitOption`.
        scale: As `ScaleOption`.
        keep: Causes by name, True for those that are kept.

    Raises:
        FlameError: If the unit is not known.
    """
    from flame.io import OpenOptions
    from flame.scene import MaskRule

    return OpenOptions(unit=unit, scale=scale, mask=MaskRule.keeping(name for name, kept in keep.items() if kept))
