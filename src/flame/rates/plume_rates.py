"""All the rates of one plume: each method for which there are coefficients, with each wind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flame.physics.wind import Wind
from flame.rates.coefficients import EffectiveWind, effective_wind
from flame.rates.mass import PlumeMass, RateError
from flame.rates.rate import LineDensity, Rate, cross_section_rate, fetch_rate, ime_rate

__all__ = ["METHODS", "PlumeFigures", "coefficients_by_method", "plume_rates"]

METHODS = ("ime", "fetch", "cross-section")
"""Every method by name; the first is the one to state if only one is."""


@dataclass(frozen=True)
class PlumeFigures:
    """What rates are worked out from.

    Attributes:
        mass: The plume's mass.
        variants: Its mass under outlines one pixel smaller and larger.
        fetch_m: Longest distance inside it.
        length_m: Extent along its direction.
        density: Mass in each metre of it; None if it is too short for cross-sections.
    """

    mass: PlumeMass
    variants: tuple[PlumeMass, ...]
    fetch_m: float
    length_m: float
    density: LineDensity | None


def coefficients_by_method(name: str, sensor: str | None) -> dict[str, EffectiveWind]:
    """The coefficients of a set for a sensor, by method; those it does not have are left out."""
    laws = {}
    for method in METHODS:
        try:
            laws[method] = effective_wind(name, sensor, method)
        except RateError:
            continue
    return laws


def plume_rates(
    figures: PlumeFigures,
    winds: Sequence[Wind],
    laws: Mapping[str, EffectiveWind],
    rng: np.random.Generator,
    name: str = "",
) -> tuple[Rate, ...]:
    """Rates of a plume, wind by wind, by the methods that have coefficients and for which it is long enough.

    Winds keep their order, but calms come last: the first rate is the one that is stated alone.

    Args:
        figures: What was measured of it.
        winds: The winds.
        laws: Effective-wind coefficients by method.
        rng: Source of randomness of the errors.
        name: Of the coefficients, for people.
    """
    found = []
    for wind in sorted(winds, key=lambda each: each.is_calm):
        for method, law in laws.items():
            if method == "ime":
                rate = ime_rate(figures.mass, wind, law, figures.variants, rng)
            elif method == "fetch":
                rate = fetch_rate(figures.mass, figures.fetch_m, wind, law)
            elif figures.density is not None:
                rate = cross_section_rate(figures.density, figures.length_m, wind, law)
            else:
                continue
            found.append(replace(rate, coefficients=name))
    return tuple(found)
