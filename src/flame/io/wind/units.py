"""Units in which files state winds, as factors to m/s."""

from __future__ import annotations

from pathlib import Path

from flame.physics import WindError

__all__ = ["NO_UNIT", "m_s_per"]

NO_UNIT = "its winds state no unit and were taken as m/s"

_KNOT_M_S = 1852.0 / 3600.0
_KM_H_M_S = 1000.0 / 3600.0
_FACTORS = {
    **dict.fromkeys(("m/s", "ms-1", "meters/second", "metres/second", "meterspersecond", "metrespersecond"), 1.0),
    **dict.fromkeys(("km/h", "kmh-1", "km/hr", "kmhr-1", "kmh", "kph"), _KM_H_M_S),
    **dict.fromkeys(("knots", "knot", "kts", "kt", "kn"), _KNOT_M_S),
}
"""By the unit in small letters without spaces, points, `*` and `^`: `m s**-1` becomes `ms-1`."""


def m_s_per(path: Path, unit: str) -> float | None:
    """How many m/s one of a unit is; None if no unit is stated.

    Raises:
        WindError: If the unit is not known.
    """
    plain = unit.lower().translate(str.maketrans("", "", " .*^_[]()\0"))
    if not plain:
        return None
    if plain not in _FACTORS:
        raise WindError(f"{path}: winds in '{unit.strip()}'; known are m/s, km/h and knots: convert the file to m/s")
    return _FACTORS[plain]
