"""Units of radiance and of methane columns."""

from __future__ import annotations

from flame.errors import FlameError

__all__ = ["RADIANCE_UNIT", "RADIANCE_UNITS", "UnknownUnitError", "kg_per_m2_from_ppm_m", "radiance_scale"]

RADIANCE_UNIT = "uW cm-2 nm-1 sr-1"
"""The unit of every `Scene`, AVIRIS-NG's and EMIT's own."""

RADIANCE_UNITS: dict[str, float] = {
    RADIANCE_UNIT: 1.0,
    "W m-2 um-1 sr-1": 0.1,
    "mW m-2 nm-1 sr-1": 0.1,
    "W m-2 nm-1 sr-1": 100.0,
}
"""What one of each unit is in `RADIANCE_UNIT`."""

_METHANE_KG_PER_MOL = 0.016043
_PRESSURE_PA = 101_325.0
_TEMPERATURE_K = 273.15
_GAS_CONSTANT = 8.314462618


class UnknownUnitError(FlameError):
    """A radiance unit that is not in the list."""


def radiance_scale(unit: str) -> float:
    """Factor from a named unit to `RADIANCE_UNIT`.

    Raises:
        UnknownUnitError: If the unit is not known; the message lists those that are.
    """
    try:
        return RADIANCE_UNITS[unit]
    except KeyError:
        known = "', '".join(RADIANCE_UNITS)
        raise UnknownUnitError(f"radiance unit '{unit}' is not known; expected one of '{known}'") from None


def kg_per_m2_from_ppm_m(column_ppm_m: float = 1.0) -> float:
    """Methane mass above a square metre for a column in ppm m, air at 0 °C and 1013.25 hPa as in MAG1C's table."""
    air_mol_per_m3 = _PRESSURE_PA / (_GAS_CONSTANT * _TEMPERATURE_K)
    return column_ppm_m * 1e-6 * air_mol_per_m3 * _METHANE_KG_PER_MOL
