"""From a plume's pixels to kilograms and kilograms per hour, each with its standard deviation. NumPy and SciPy only."""

from flame.rates.coefficients import OWN, EffectiveWind, coefficient_sets, effective_wind
from flame.rates.mass import Air, MassSettings, PlumeMass, RateError, local_background, plume_mass
from flame.rates.pixels import PlumePixels
from flame.rates.plume_rates import METHODS, plume_rates
from flame.rates.rate import SECONDS_PER_HOUR, Rate, cross_section_rate, fetch_rate, ime_rate
from flame.rates.shape import PlumeShape, fetch_m, find_shape

__all__ = [
    "METHODS",
    "OWN",
    "SECONDS_PER_HOUR",
    "Air",
    "EffectiveWind",
    "MassSettings",
    "PlumeMass",
    "PlumePixels",
    "PlumeShape",
    "Rate",
    "RateError",
    "coefficient_sets",
    "cross_section_rate",
    "effective_wind",
    "fetch_m",
    "fetch_rate",
    "find_shape",
    "ime_rate",
    "local_background",
    "plume_mass",
    "plume_rates",
]
