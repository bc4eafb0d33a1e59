"""The light's way through the air, and what it makes of a methane column.

**What a ppm m is.** The look-up table's enhancements are vertical columns seen through the table's own path, down from
the sun and up to the sensor. Another path makes the same column absorb more or less, so a retrieval with the table
reports `column * airmass / TABLE_AIRMASS`: that is the ppm m of scores, filters and stored enhancements. A mass needs
the column itself, so it divides by the same factor.
"""

from __future__ import annotations

import numpy as np

__all__ = ["TABLE_AIRMASS", "airmass_of", "path_factor"]

TABLE_AIRMASS = 2.1
"""Air mass (down and up) taken for the table's own scene; only ratios to it enter.

The table's background methane absorbs like 17,000 of its ppm m, near the 14,400 of a standard vertical column and half
the slant one: so its enhancements are vertical columns, not lengths of the path.
"""


def airmass_of(solar_zenith_deg: float, view_zenith_deg: float) -> float:
    """Slant path of the light, down from the sun and up to the sensor, in vertical columns of flat air."""
    sun, view = np.cos(np.deg2rad([solar_zenith_deg, view_zenith_deg]))
    return float(1.0 / sun + 1.0 / view)


def path_factor(airmass: float) -> float:
    """What turns a vertical column into the enhancement that absorbs as much in the look-up table."""
    return airmass / TABLE_AIRMASS
