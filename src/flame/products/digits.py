"""Numbers as people write them: as many digits as mean something, thousands apart, a unit, and a sigma."""

from __future__ import annotations

import math
from typing import TypeAlias

__all__ = ["Number", "amount", "area", "chance", "length", "place", "share", "with_sigma"]

Number: TypeAlias = float | int
"""Counts are whole numbers, and so are some numbers that JSON gave."""


def amount(value: Number | None, unit: str = "", figures: int = 3) -> str:
    """A number of so many figures with its unit; a dash if it is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    digits = 0 if value == 0 else max(0, figures - 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, 0 if value == 0 else figures - 1 - math.floor(math.log10(abs(value))))
    return _joined(f"{rounded:,.{min(digits, 9)}f}", unit)


def with_sigma(value: Number | None, sigma: Number | None, unit: str = "") -> str:
    """`1,240 ± 310 kg/h`: sigma with two figures, the value to the same digit."""
    if value is None or not math.isfinite(value):
        return "–"
    if sigma is None or not math.isfinite(sigma) or sigma <= 0:
        return amount(value, unit)
    place = 1 - math.floor(math.log10(sigma))
    digits = max(0, place)
    return _joined(f"{round(value, place):,.{digits}f} ± {round(sigma, place):,.{digits}f}", unit)


def area(square_metres: Number | None) -> str:
    """An area in m² or km²."""
    if square_metres is None or not math.isfinite(square_metres):
        return "–"
    return amount(square_metres / 1e6, "km²") if square_metres >= 1e5 else amount(square_metres, "m²")


def length(metres: Number | None) -> str:
    """A length in m or km."""
    if metres is None or not math.isfinite(metres):
        return "–"
    return amount(metres / 1000, "km") if metres >= 1000 else amount(metres, "m")


def place(longitude_deg: Number | None, latitude_deg: Number | None, digits: int = 4) -> str:
    """`38.4012° N, 54.1003° E`."""
    known = [value for value in (longitude_deg, latitude_deg) if value is not None and math.isfinite(value)]
    if len(known) < 2 or longitude_deg is None or latitude_deg is None:
        return "not known"
    lon = (longitude_deg + 180.0) % 360.0 - 180.0
    north, east = "S" if latitude_deg < 0 else "N", "W" if lon < 0 else "E"
    return f"{abs(latitude_deg):.{digits}f}°\u00a0{north}, {abs(lon):.{digits}f}°\u00a0{east}"


def share(part: Number, whole: Number) -> str:
    """A part in percent; what is there never becomes 0 %, what is missing never 100 %."""
    if whole <= 0:
        return "–"
    percent = 100.0 * part / whole
    if part > 0 and percent < 0.1:
        return "< 0.1 %"
    if part < whole and percent > 99.9:
        return "> 99.9 %"
    return f"{percent:.1f} %"


def chance(p_value: Number, trials: int) -> str:
    """A p-value that rests on so many trials: it cannot be told below one in them."""
    if not math.isfinite(p_value):
        return "–"
    least = 1.0 / (1 + trials)
    if p_value <= least * (1 + 1e-9):
        return f"p ≤ {amount(least, figures=1)}"
    return f"p = {amount(p_value, figures=2)}"


def _joined(text: str, unit: str) -> str:
    return f"{text} {unit}".replace("-", "−") if unit else text.replace("-", "−")
