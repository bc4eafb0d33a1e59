"""The light's path of one scene, as far as its angles are known."""

from __future__ import annotations

from dataclasses import dataclass

from flame.physics import airmass_of, path_factor
from flame.scene import Acquisition

__all__ = ["LightPath"]

_LOWEST_SUN_DEG = 85.0
"""Beyond this, flat air is no picture of the Earth's, and an angle is more likely a mistake."""


@dataclass(frozen=True)
class LightPath:
    """How much more than in the look-up table the light's path makes a column look; see `flame.physics.light_path`.

    Attributes:
        factor: Enhancement over vertical column.
        basis: Where the factor comes from, for people.
    """

    factor: float = 1.0
    basis: str = "angles of sun and sensor not known; taken as the table's own path"

    @classmethod
    def of(cls, acquisition: Acquisition) -> LightPath:
        """The path of a scene; the table's own if the sun's angle is not known or too low for flat air."""
        sun, view = acquisition.solar_zenith_deg, acquisition.view_zenith_deg
        if sun is None or not 0 <= sun <= _LOWEST_SUN_DEG:
            return cls()
        if view is None or not 0 <= view <= _LOWEST_SUN_DEG:
            return cls(path_factor(airmass_of(sun, 0.0)), "angle of the sun; the sensor taken as straight above")
        return cls(path_factor(airmass_of(sun, view)), "angles of sun and sensor")
