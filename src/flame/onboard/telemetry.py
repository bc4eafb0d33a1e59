"""Power and temperature of the computer itself, read from sysfs: Jetson power monitors, RAPL, thermal zones.

Every sensor is found below a root folder, so that a recorded tree serves as well as the running machine. A machine
without sensors simply has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

__all__ = ["HardwareSensor", "find_sensors", "total_power_names"]

_WHOLE_MODULE = ("VDD_IN", "VIN", "POM_5V_IN")
"""Rails that carry the power of a whole Jetson module, by generation."""


@dataclass(frozen=True)
class HardwareSensor:
    """One reading.

    Attributes:
        name: Rail, package or thermal zone.
        quantity: "power" or "temperature".
        unit: W or degC.
        read: Gives the present value, or None if it cannot be read just now.
    """

    name: str
    quantity: str
    unit: str
    read: Callable[[], float | None]


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def find_sensors(root: Path = Path("/")) -> list[HardwareSensor]:
    """All power and temperature sensors below a root that can be read now; names are unique."""
    found = [*_ina_rails(root), *_rapl_packages(root), *_thermal_zones(root)]
    names = [sensor.name for sensor in found]
    return [
        sensor
        if names.count(sensor.name) == 1
        else replace(sensor, name=f"{sensor.name} {names[:at].count(sensor.name)}")
        for at, sensor in enumerate(found)
    ]


def _ina_rails(root: Path) -> Iterable[HardwareSensor]:
    """Rails of the INA3221 monitors: hwmon (JetPack 5 and later) in mV and mA, IIO (before) in mW."""
    drivers = root / "sys/bus/i2c/drivers"
    rails: list[tuple[Path, Callable[[], float | None]]] = []
    for label in sorted(drivers.glob("ina3221*/*/hwmon/hwmon*/in*_label")):
        number = label.name.removeprefix("in").removesuffix("_label")
        files = label.with_name(f"in{number}_input"), label.with_name(f"curr{number}_input")
        rails.append((label, partial(_scaled, 1e-6, *files)))
    for label in sorted(drivers.glob("ina3221*/*/iio:device*/rail_name_*")):
        file = label.with_name(f"in_power{label.name.removeprefix('rail_name_')}_input")
        rails.append((label, partial(_scaled, 1e-3, file)))
    for label, read in rails:
        name = _text(label)
        if name and name != "NC" and read() is not None:
            yield HardwareSensor(name, "power", "W", read)


def _scaled(scale: float, *factors: Path) -> float | None:
    """The product of the numbers in some files, or None if one cannot be read."""
    value = scale
    for path in factors:
        number = _number(path)
        if number is None:
            return None
        value *= number
    return value


class _EnergyCounter:
    """Power from a counter of microjoules that starts again at its range; the first reading has nothing before it."""

    def __init__(self, folder: Path) -> None:
        self._energy = folder / "energy_uj"
        self._range = _number(folder / "max_energy_range_uj") or 0.0
        self._before: tuple[float, float] | None = None

    def __call__(self) -> float | None:
        energy, now = _number(self._energy), time.perf_counter()
        if energy is None:
            return None
        before, self._before = self._before, (energy, now)
        if before is None or now <= before[1]:
            return None
        used = energy - before[0]
        return (used if used >= 0 else used + self._range) * 1e-6 / (now - before[1])


def _rapl_packages(root: Path) -> Iterable[HardwareSensor]:
    """CPU packages counted by Intel's and AMD's RAPL; sub-domains are part of their package and left out."""
    for folder in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        name = _text(folder / "name")
        if folder.name.count(":") == 1 and name and _number(folder / "energy_uj") is not None:
            yield HardwareSensor(f"RAPL {name}", "power", "W", _EnergyCounter(folder))


def _thermal_zones(root: Path) -> Iterable[HardwareSensor]:
    for folder in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        name, read = _text(folder / "type"), partial(_scaled, 1e-3, folder / "temp")
        if name and read() is not None:
            yield HardwareSensor(name, "temperature", "degC", read)


def total_power_names(names: Iterable[str]) -> tuple[str, ...]:
    """The rails whose sum is the whole module: its input rail if there is one, else all of them."""
    given = tuple(names)
    whole = [name for name in given if name in _WHOLE_MODULE]
    return (whole[0],) if whole else given
