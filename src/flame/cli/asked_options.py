"""Options of commands that detect: how sure to be, and where a plume's outline runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flame.cli.options import completing
from flame.errors import FlameError

if TYPE_CHECKING:
    from flame.onboard import Asked

__all__ = ["asked_options"]


def _sensitivities() -> list[str]:
    from flame.onboard import SENSITIVITIES

    return list(SENSITIVITIES)


def asked_options(
    sensitivity: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="high-recall, balanced or high-precision. What each is worth stands in the model's manifest. "
            "By default balanced.",
            autocompletion=completing(_sensitivities),
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="P", help="Probability above which a pixel is plume, instead of a sensitivity."),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            metavar="PPM_M",
            help="Draw outlines where the enhancement exceeds this many ppm m; 'scene': a level that follows the noise "
            "of the scene; 'visible': what is plain to the eye, as on board. By default 'scene'.",
        ),
    ] = None,
    core: Annotated[
        float | None,
        typer.Option(
            metavar="SIGMAS",
            help="Standard deviations by which network and filter must somewhere in a plume be sure of gas; with it, "
            "lines such as roads are left out. By default the sensitivity's; none with a threshold.",
        ),
    ] = None,
) -> Asked:
    """A group: what is asked of the detector.

    Raises:
        FlameError: If a sensitivity and a threshold are given, or a threshold, level or core that is none.
    """
    from flame.onboard import Asked

    return Asked(sensitivity, threshold, _level(level), core)


def _level(text: str | None) -> float | Literal["scene", "visible"] | None:
    if text is None:
        return None
    if text == "scene":
        return "scene"
    if text == "visible":
        return "visible"
    try:
        return float(text)
    except ValueError:
        raise FlameError(f"--level is a number of ppm m, 'scene' or 'visible', got '{text}'") from None
