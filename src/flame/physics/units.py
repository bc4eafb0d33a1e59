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


def kg_per_m2_from_ppm_m(
    column_ppm_m: float = 1.0, temperature_k: float = _TEMPERATURE_K, pressure_pa: float = _PRESSURE_PA
) -> float:
    """Methane mass above a square metre for a column in ppm m: 7.16e-7 kg for 1 ppm m at 0 °C and 1013.25 hPa.

    Args:
        column_ppm_m: The vertical column.
        temperature_k: Temperature of the air that the ppm are counted in; MAG1C's table has 0 °C.
        pressure_pa: Its pressure.

    Raises:
        FlameError: If temperature or pressure is not that of air.
    """
    if not (150.0 <= temperature_k <= 350.0 and 1e4 <= pressure_pa <= 1.2e5):
        raise FlameError(
            f"air of {temperature_k:g} K and {pressure_pa:g} Pa is not air near the ground; give kelvin and pascal"
        )
    air_mol_per_m3 = pressure_pa / (_GAS_CONSTANT * temperature_k)
    return column_ppm_m * 1e-6 * air_mol_per_m3 * _METHANE_KG_PER_MOL
