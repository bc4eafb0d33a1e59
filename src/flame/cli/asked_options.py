"""Options of commands that detect: how sure to be, and where a plume's outline runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flame.cli.options import completing

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
        float | None,
        typer.Option(
            metavar="PPM_M",
            help="Draw outlines where the enhancement exceeds this many ppm m. By default as a person would draw them, "
            "which follows the noise of the scene.",
        ),
    ] = None,
) -> Asked:
    """A group: what is asked of the detector.

    Raises:
        FlameError: If a sensitivity and a threshold are given, or a threshold that is none.
    """
    from flame.onboard import Asked

    return Asked(sensitivity, threshold, level)
