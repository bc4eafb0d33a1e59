"""The pixels of a plume on a flat piece of ground: the form in which shape, mass and flux are worked out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from flame.rates.mass import RateError

__all__ = ["PlumePixels"]


@dataclass(frozen=True, eq=False)
class PlumePixels:
    """What is known of each pixel of a plume; positions are in metres on a plane that touches the ground there.

    Attributes:
        east_m: Place of each pixel's centre.
        north_m: Place of each pixel's centre.
        column_ppm_m: Enhancement above the surroundings.
        area_m2: Ground area of a pixel.
    """

    east_m: Float[np.ndarray, " pixel"]
    north_m: Float[np.ndarray, " pixel"]
    column_ppm_m: Float[np.ndarray, " pixel"]
    area_m2: float

    def __post_init__(self) -> None:
        if not self.east_m.size:
            raise RateError("a plume without pixels has neither shape nor rate")
        if not (np.isfinite(self.east_m).all() and np.isfinite(self.north_m).all()):
            raise RateError("some pixels of the plume have no place on the ground; their coordinates are missing")

    @property
    def side_m(self) -> float:
        """Side of a pixel, were it square."""
        return float(np.sqrt(self.area_m2))

    def along(self, to_deg: float) -> tuple[Float[np.ndarray, " pixel"], Float[np.ndarray, " pixel"]]:
        """Distance along and across a direction, given clockwise from north, in metres."""
        angle = np.deg2rad(to_deg)
        along = self.east_m * np.sin(angle) + self.north_m * np.cos(angle)
        across = self.east_m * np.cos(angle) - self.north_m * np.sin(angle)
        return along, across
