"""From a plume's pixels to kilograms and kilograms per hour, each with its standard deviation. NumPy and SciPy only."""

from flame.rates.coefficients import OWN, EffectiveWind, coefficient_sets, effective_wind
from flame.rates.detection_limit import DetectionCurve, detection_curve
from flame.rates.mass import Air, MassSettings, PlumeMass, RateError, local_background, plume_mass
from flame.rates.pixels import PlumePixels
from flame.rates.plume_rates import METHODS, PlumeFigures, coefficients_by_method, plume_rates
from flame.rates.rate import (
    SECONDS_PER_HOUR,
    LineDensity,
    Rate,
    cross_section_rate,
    fetch_rate,
    ime_rate,
    line_density,
)
from flame.rates.shape import PlumeShape, fetch_m, find_shape

__all__ = [
    "METHODS",
    "OWN",
    "SECONDS_PER_HOUR",
    "Air",
    "DetectionCurve",
    "EffectiveWind",
    "LineDensity",
    "MassSettings",
    "PlumeFigures",
    "PlumeMass",
    "PlumePixels",
    "PlumeShape",
    "Rate",
    "RateError",
    "coefficient_sets",
    "coefficients_by_method",
    "cross_section_rate",
    "detection_curve",
    "effective_wind",
    "fetch_m",
    "fetch_rate",
    "find_shape",
    "ime_rate",
    "line_density",
    "local_background",
    "plume_mass",
    "plume_rates",
]
