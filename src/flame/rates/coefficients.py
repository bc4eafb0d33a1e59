"""Effective-wind coefficients by name, kept as data with their sources and residuals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from flame.rates.mass import RateError

__all__ = ["OWN", "EffectiveWind", "coefficient_sets", "effective_wind"]

OWN = "flame"
"""The set fitted with this project's simulator for this project's masks."""


@dataclass(frozen=True)
class EffectiveWind:
    """`U_eff = slope * U10 + offset`: the speed at which a plume's length of a method loses its mass.

    Attributes:
        slope: Of the wind at 10 m.
        offset_m_s: What mixing adds in a calm.
        residual: Spread of true rates about those found with it, in shares of the latter, the wind known.
        source: Where the numbers are from.
    """

    slope: float
    offset_m_s: float
    residual: float = 0.0
    source: str = "given"

    def at(self, speed_m_s: float) -> float:
        """The effective wind in m/s."""
        return self.slope * speed_m_s + self.offset_m_s


@lru_cache(maxsize=1)
def _stored() -> dict[str, Any]:
    """The sets: this project's own, as `flame bench wind` wrote it, and those of others."""
    own, others = (
        json.loads((files("flame.rates") / "data" / name).read_text())
        for name in ("flame_effective_wind.json", "effective_wind.json")
    )
    return {OWN: own, **others["sets"]}


def coefficient_sets() -> dict[str, list[str]]:
    """Names of the sets, and the sensors each has coefficients for."""
    return {name: sorted(entry["sensors"]) for name, entry in _stored().items()}


def effective_wind(name: str, sensor: str | None, method: str = "ime") -> EffectiveWind:
    """Coefficients of a set for a sensor.

    Args:
        name: A set in `coefficient_sets`.
        sensor: Sensor as in `flame.physics.SENSORS`; a set may hold an entry "any" for others.
        method: "ime", "fetch" or "cross-section".

    Raises:
        RateError: If there is no such set, or it has nothing for that sensor and method.
    """
    sets = _stored()
    if name not in sets:
        raise RateError(f"no effective-wind coefficients '{name}'; known are {', '.join(sets)}")
    sensors = sets[name]["sensors"]
    entry = sensors.get(sensor or "any", sensors.get("any", {})).get(method)
    if entry is None:
        raise RateError(
            f"the effective-wind coefficients '{name}' have none for {sensor or 'this sensor'} by {method}; they "
            f"have {', '.join(f'{each} by {how}' for each in sorted(sensors) for how in sensors[each])}"
        )
    return EffectiveWind(entry["slope"], entry["offset_m_s"], entry.get("residual", 0.0), sets[name]["source"])
