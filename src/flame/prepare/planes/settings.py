"""What the planes are made with."""

from __future__ import annotations

from dataclasses import dataclass

from flame.records import check_numbers, number

__all__ = [
    "FIELD_NAMES",
    "LEAST_SIGMA_SHARE",
    "LEAST_SPREAD",
    "LOG_SPREADS",
    "MEANS",
    "MOST_LEAD",
    "NORMAL_TO_LOGIT",
    "WIDTHS_PX",
    "WITNESS",
    "PlaneSettings",
]

LOG_SPREADS = (-4.0, 4.0)
"""Between which a network's log-spread of the enhancement is held, in training as in flight."""

NORMAL_TO_LOGIT = 1.7
"""A logistic curve of this slope is within 0.01 of the normal distribution's."""

LEAST_SPREAD = 0.05
"""Added to the spread, as independent, where it says how sure an enhancement exceeds a level."""

LEAST_SIGMA_SHARE = 0.2
"""No enhancement is said to be known better than this share of the standard deviation of the pixel's own estimate: what
neighbours tell has errors that they share. In dark ground, where each pixel says next to nothing, a network believes
its averages too much; there this keeps it from false plumes."""

MOST_LEAD = 12.0
"""Bound of the logit that median and spread alone give."""

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

MEANS = slice(FIELD_NAMES.index(f"estimate_{WIDTHS_PX[0]:g}px"), FIELD_NAMES.index("log_brightness"), 2)
"""Where among them the averaged estimates stand: asinh of their multiple of the reference."""

WITNESS = FIELD_NAMES.index(f"significance_{WIDTHS_PX[-1]:g}px")
"""Which of them must agree with the network that there is gas, where a plume needs a core."""


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
