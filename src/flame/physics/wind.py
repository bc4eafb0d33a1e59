"""The wind at a plume: speed and direction at 10 m with their errors, and where they are from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flame.errors import FlameError

__all__ = ["CALM_M_S", "Wind", "WindError", "usual_wind_sigma_m_s"]

CALM_M_S = 1.0
"""A wind below this is too weak to carry a plume steadily."""

_CALM_SIGMA_SHARE = 0.5
_MOST_SIGMA_M_S = 1.5
_MOST_SPEED_M_S = 120.0


class WindError(FlameError):
    """A wind that is none, or a wind file that cannot be used."""


def usual_wind_sigma_m_s(speed_m_s: float) -> float:
    """The error that emission studies give a weather model's wind: half of it, at most 1.5 m/s."""
    return min(_CALM_SIGMA_SHARE * speed_m_s, _MOST_SIGMA_M_S)


@dataclass(frozen=True)
class Wind:
    """Mean wind at a plume while it was made.

    Attributes:
        speed_m_s: Speed at 10 m.
        from_deg: Where it blows from, clockwise from north, as weather services write it; None if not known.
        sigma_m_s: Standard deviation of the speed; `usual_wind_sigma_m_s` if nothing better is known.
        source: Who says so.
        note: What a reader should know of it, or nothing.
    """

    speed_m_s: float
    from_deg: float | None = None
    sigma_m_s: float | None = None
    source: str = "given"
    note: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speed_m_s) and 0.0 <= self.speed_m_s <= _MOST_SPEED_M_S):
            raise WindError(f"a wind of {self.speed_m_s} m/s; expected 0 to {_MOST_SPEED_M_S:g}")
        if self.from_deg is not None and not (math.isfinite(self.from_deg) and -360.0 <= self.from_deg <= 360.0):
            raise WindError(f"a wind from {self.from_deg} degrees; expected 0 to 360, clockwise from north")
        if self.sigma_m_s is not None and not (math.isfinite(self.sigma_m_s) and self.sigma_m_s >= 0.0):
            raise WindError(f"an error of the wind of {self.sigma_m_s} m/s; expected 0 or more")

    @property
    def error_m_s(self) -> float:
        """The stated standard deviation of the speed, or the usual one."""
        return usual_wind_sigma_m_s(self.speed_m_s) if self.sigma_m_s is None else self.sigma_m_s

    @property
    def words(self) -> str:
        """Speed and source, for people."""
        return f"wind of {self.speed_m_s:.2g} m/s ({self.source})"

    @property
    def is_calm(self) -> bool:
        """Whether it is too weak to carry a plume steadily."""
        return self.speed_m_s < CALM_M_S

    @classmethod
    def of_components(
        cls, east_m_s: float, north_m_s: float, sigma_m_s: float | None = None, source: str = "given"
    ) -> Wind:
        """A wind from its eastward and northward components."""
        from_deg = math.degrees(math.atan2(-east_m_s, -north_m_s)) % 360.0
        return cls(math.hypot(east_m_s, north_m_s), from_deg, sigma_m_s, source)

    @classmethod
    def parse(cls, text: str) -> Wind:
        """A wind from `SPEED,DIRECTION[,SIGMA]`, or `SPEED` alone; m/s and degrees it blows from.

        Raises:
            WindError: If the text is not of that form.
        """
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            raise WindError(f"'{text}' is no wind; write SPEED,DIRECTION[,SIGMA], for example 4.2,270 or 4.2,270,1.0")
        padded = [*numbers, None, None]
        return cls(numbers[0], padded[1], padded[2])
