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
from flame.physics.noise import NoiseModel, noise_model
from flame.physics.response import gaussian_response
from flame.physics.sensors import SENSORS, Sensor, UnknownSensorError, sensor
from flame.physics.units import RADIANCE_UNIT, UnknownUnitError, kg_per_m2_from_ppm_m, radiance_scale
from flame.physics.wind import Wind, WindError

__all__ = [
    "ABSORPTION_UNIT_PPM_M",
    "MAX_ENHANCEMENT_PPM_M",
    "METHANE_WINDOW_NM",
    "RADIANCE_UNIT",
    "SENSORS",
    "BandError",
    "BandMismatchError",
    "BandSet",
    "NoiseModel",
    "Sensor",
    "UnknownSensorError",
    "UnknownUnitError",
    "Wind",
    "WindError",
    "beer_lambert",
    "clear_sky_radiance",
    "gaussian_response",
    "kg_per_m2_from_ppm_m",
    "methane_table",
    "noise_model",
    "radiance_scale",
    "sensor",
    "transmittance",
    "unit_absorption",
]
