"""Nominal band grids of the sensors FLAME knows. They are fallbacks: a file's own centres and FWHM always win."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flame.errors import FlameError
from flame.physics.bands import BandSet

__all__ = ["SENSORS", "Sensor", "UnknownSensorError", "sensor", "sensor_of"]


class UnknownSensorError(FlameError):
    """A sensor name that is not in the list."""


@dataclass(frozen=True)
class Sensor:
    """A sensor and its nominal bands.

    Attributes:
        name: The name used on the command line.
        title: The name people write.
        bands: All nominal bands, visible to SWIR.
        pixel_m: Nominal ground pixel, in metres.
        source: Where the numbers come from.
    """

    name: str
    title: str
    bands: BandSet
    pixel_m: float
    source: str


def _even_grid(first_nm: float, last_nm: float, count: int, fwhm_nm: float) -> BandSet:
    return BandSet(np.linspace(first_nm, last_nm, count), np.full(count, fwhm_nm))


def _emit() -> BandSet:
    # Quartic through the L1B centres; within 0.1 nm of the product's own list.
    index = np.arange(285.0)
    centres_nm = np.polyval([2.61766707e-09, -2.18642052e-06, 4.45042336e-04, 7.42657130, 380.9562], index)
    return BandSet(centres_nm, np.linspace(8.4, 8.8, 285))


def _two_spectrometers(vnir: tuple[float, float, int, float], swir: tuple[float, float, int, float, float]) -> BandSet:
    """A VNIR grid of even steps joined to a SWIR grid whose steps shrink linearly, as a prism's do."""
    v_first, v_last, v_count, v_fwhm = vnir
    s_first, s_last, s_count, first_step, s_fwhm = swir
    mean_step = (s_last - s_first) / (s_count - 1)
    steps = np.linspace(first_step, 2 * mean_step - first_step, s_count - 1)
    swir_nm = s_first + np.concatenate([[0.0], np.cumsum(steps)])
    vnir_nm = np.linspace(v_first, v_last, v_count)
    vnir_nm = vnir_nm[vnir_nm < s_first]
    return BandSet(
        np.concatenate([vnir_nm, swir_nm]),
        np.concatenate([np.full(vnir_nm.size, v_fwhm), np.full(swir_nm.size, s_fwhm)]),
    )


SENSORS: dict[str, Sensor] = {
    entry.name: entry
    for entry in (
        Sensor(
            "aviris-ng",
            "AVIRIS-NG",
            _even_grid(376.44, 2500.12, 425, 5.8),
            5.0,
            "L1B header of flight line ang20160910t185702; FWHM from STARCOP's published unit absorption",
        ),
        Sensor(
            "aviris-3",
            "AVIRIS-3",
            _even_grid(390.0, 2500.0, 284, 8.0),
            5.0,
            "JPL instrument description: 284 bands of 7.4 nm from 390 to 2500 nm",
        ),
        Sensor("emit", "EMIT", _emit(), 60.0, "EMIT L1B wavelength list (285 bands, 381-2493 nm), FWHM 8.4-8.8 nm"),
        Sensor(
            "enmap",
            "EnMAP",
            _two_spectrometers((418.0, 993.0, 91, 7.5), (902.0, 2445.0, 133, 13.4, 9.5)),
            30.0,
            "EnMAP product specification: 91 VNIR bands 420-1000 nm, 133 SWIR bands 900-2450 nm",
        ),
        Sensor(
            "prisma",
            "PRISMA",
            _two_spectrometers((402.0, 972.0, 63, 11.0), (943.0, 2497.0, 171, 11.2, 10.0)),
            30.0,
            "PRISMA product specification: SWIR 920-2505 nm in 171 usable bands, width below 12 nm",
        ),
        Sensor(
            "tanager-1",
            "Tanager-1",
            _even_grid(376.0, 2500.0, 426, 5.7),
            30.0,
            "Planet and Carbon Mapper: about 424 bands of 5 nm from 380 to 2500 nm",
        ),
        Sensor(
            "generic-10nm",
            "Generic 10 nm grid (CHIME, SBG)",
            _even_grid(400.0, 2500.0, 211, 10.0),
            30.0,
            "Mission requirements: 400-2500 nm, sampling at most 10 nm",
        ),
    )
}


def sensor(name: str) -> Sensor:
    """The sensor of that name.

    Raises:
        UnknownSensorError: If the name is not known; the message lists those that are.
    """
    try:
        return SENSORS[name.lower()]
    except KeyError:
        raise UnknownSensorError(f"no sensor '{name}'; known are {', '.join(SENSORS)}") from None


def sensor_of(bands: BandSet) -> str | None:
    """Name of the sensor whose nominal methane bands these are."""
    return next((name for name, known in SENSORS.items() if known.bands.methane().matches(bands)), None)
