"""How strong a plume must be to be found, by sensor and wind: simulated once, kept as data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np

__all__ = ["DetectionCurve", "detection_curve"]


@dataclass(frozen=True)
class DetectionCurve:
    """`P = 1 / (1 + exp(-(base + by_rate ln Q + by_wind ln U)))`, Q in kg/h and U at 10 m in m/s.

    Attributes:
        base: See above.
        by_rate: See above; positive.
        by_wind: See above; negative where wind thins plumes out.
        least_kg_h: Smallest rate that was simulated.
        most_kg_h: Largest rate that was simulated.
        cases: Plumes it rests on.
        model: The detector.
        scenes: What the scenes were like; see `flame.simulate.PRESETS`.
    """

    base: float
    by_rate: float
    by_wind: float
    least_kg_h: float
    most_kg_h: float
    cases: int
    model: str
    scenes: str

    def chance(self, rate_kg_h: float, wind_m_s: float) -> float:
        """The chance that a plume is found."""
        log_odds = self.base + self.by_rate * np.log(rate_kg_h) + self.by_wind * np.log(wind_m_s)
        return float(1.0 / (1.0 + np.exp(-log_odds)))

    def rate_kg_h(self, chance: float, wind_m_s: float) -> float | None:
        """The rate at which plumes are found with that chance; None if it is above all that were simulated."""
        log_odds = np.log(chance / (1.0 - chance))
        rate = float(np.exp((log_odds - self.base - self.by_wind * np.log(max(wind_m_s, 0.5))) / self.by_rate))
        return rate if rate <= self.most_kg_h else None


@lru_cache(maxsize=1)
def _stored() -> dict[str, DetectionCurve]:
    text = (files("flame.rates") / "data" / "detection_limit.json").read_text()
    return {name: DetectionCurve(**entry) for name, entry in json.loads(text).items()}


def detection_curve(sensor: str | None) -> DetectionCurve | None:
    """The curve of a sensor as in `flame.physics.SENSORS`; None where nothing was simulated for it."""
    return None if sensor is None else _stored().get(sensor)
