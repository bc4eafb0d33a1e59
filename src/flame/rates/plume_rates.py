"""All the rates of one plume: each method for which there are coefficients, with each wind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flame.physics.wind import Wind
from flame.rates.coefficients import EffectiveWind, effective_wind
from flame.rates.mass import PlumeMass, RateError
from flame.rates.pixels import PlumePixels
from flame.rates.rate import Rate, cross_section_rate, fetch_rate, ime_rate
from flame.rates.shape import PlumeShape

__all__ = ["METHODS", "plume_rates"]

METHODS = ("ime", "fetch", "cross-section")
"""Every method by name, the one to state first if only one is."""


def plume_rates(
    mass: PlumeMass,
    variants: Sequence[PlumeMass],
    pixels: PlumePixels,
    shape: PlumeShape,
    winds: Sequence[Wind],
    coefficients: str,
    sensor: str | None,
    rng: np.random.Generator,
    notes: list[str],
) -> tuple[Rate, ...]:
    """Rates of a plume, wind by wind.

    Args:
        mass: Its mass.
        variants: Its mass under other outlines.
        pixels: Its pixels on the ground.
        shape: Its course.
        winds: The winds.
        coefficients: Name of the effective-wind coefficients.
        sensor: Whose they are.
        rng: Source of randomness of the errors.
        notes: What could not be worked out is added to it.
    """
    laws = _laws(coefficients, sensor)
    if winds and not laws:
        notes.append(f"no rate: the effective-wind coefficients '{coefficients}' have none for {sensor or 'no sensor'}")
    found = []
    for wind in winds:
        for method, law in laws.items():
            try:
                if method == "ime":
                    rate = ime_rate(mass, wind, law, variants, rng)
                elif method == "fetch":
                    rate = fetch_rate(mass, shape, wind, law)
                else:
                    rate = cross_section_rate(pixels, shape, mass.kg_per_m2, wind, law)
            except RateError as reason:
                notes.append(f"no rate by {method}: {reason}")
                continue
            found.append(replace(rate, coefficients=coefficients))
    return tuple(found)


def _laws(coefficients: str, sensor: str | None) -> dict[str, EffectiveWind]:
    laws = {}
    for method in METHODS:
        try:
            laws[method] = effective_wind(coefficients, sensor, method)
        except RateError:
            continue
    return laws
