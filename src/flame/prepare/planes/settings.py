"""What the planes are made with."""

from __future__ import annotations

from dataclasses import dataclass

from flame.records import check_numbers, number

__all__ = ["FIELD_NAMES", "LOG_SPREADS", "WIDTHS_PX", "PlaneSettings"]

LOG_SPREADS = (-4.0, 4.0)
"""Between which a network's log-spread of the enhancement is held, in training as in flight."""

WIDTHS_PX = (1.0, 2.0, 4.0)
"""Standard deviations of the Gaussians over which the estimate is averaged."""

FIELD_NAMES: tuple[str, ...] = (
    "significance",
    "log_sigma",
    "estimate",
    *(f"{what}_{width:g}px" for width in WIDTHS_PX for what in ("significance", "estimate")),
    "log_brightness",
    "log_anomaly",
    "log_clutter",
)
"""Planes that need no learned function, in order."""


@dataclass(frozen=True)
class PlaneSettings:
    """Constants of the planes.

    Attributes:
        reference_ppm_m: Enhancement that counts as 1.
        clutter_clip: Significance beyond which the local clutter is clipped: plumes are not clutter.
        clutter_px: Standard deviation of the window of the local clutter.
        anchors: Brightness levels at which the contributions of the windows are computed; between them they are
            interpolated.
    """

    reference_ppm_m: float = number(float, 1e-3, 1e6, 500.0)
    clutter_clip: float = number(float, 0.1, 1e3, 4.0)
    clutter_px: float = number(float, 0.5, 50.0, 5.0)
    anchors: int = number(int, 2, 12, 4)

    def __post_init__(self) -> None:
        check_numbers(self)
