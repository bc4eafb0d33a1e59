"""Pure equations on arrays: units, methane absorption, sensors' bands, spectral response, noise."""

from flame.physics.absorption import (
    ABSORPTION_UNIT_PPM_M,
    MAX_ENHANCEMENT_PPM_M,
    beer_lambert,
    clear_sky_radiance,
    methane_table,
    transmittance,
    unit_absorption,
)
from flame.physics.bands import METHANE_WINDOW_NM, BandError, BandMismatchError, BandSet
from flame.physics.light_path import TABLE_AIRMASS, airmass_of, path_factor
from flame.physics.noise import NoiseModel, noise_model
from flame.physics.response import gaussian_response
from flame.physics.sensors import SENSORS, Sensor, UnknownSensorError, sensor, sensor_of
from flame.physics.smile import SMILE_MATTERS_NM, ColumnBands
from flame.physics.units import RADIANCE_UNIT, UnknownUnitError, kg_per_m2_from_ppm_m, radiance_scale
from flame.physics.wind import Wind, WindError

__all__ = [
    "ABSORPTION_UNIT_PPM_M",
    "MAX_ENHANCEMENT_PPM_M",
    "METHANE_WINDOW_NM",
    "RADIANCE_UNIT",
    "SENSORS",
    "SMILE_MATTERS_NM",
    "TABLE_AIRMASS",
    "BandError",
    "BandMismatchError",
    "BandSet",
    "ColumnBands",
    "NoiseModel",
    "Sensor",
    "UnknownSensorError",
    "UnknownUnitError",
    "Wind",
    "WindError",
    "airmass_of",
    "beer_lambert",
    "clear_sky_radiance",
    "gaussian_response",
    "kg_per_m2_from_ppm_m",
    "methane_table",
    "noise_model",
    "path_factor",
    "radiance_scale",
    "sensor",
    "sensor_of",
    "transmittance",
    "unit_absorption",
]
