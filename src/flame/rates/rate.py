"""Emission rates in kg/h from a plume's mass, its shape and the wind, with their standard deviations.

Three methods, all for a steady source: the integrated mass with an effective wind (Varon et al. 2018), the integrated
mass over the fetch as in the EMIT L2B product, and the mean flux through cross-sections of the plume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from flame.physics.wind import Wind
from flame.rates.coefficients import EffectiveWind
from flame.rates.mass import PlumeMass
from flame.rates.pixels import PlumePixels
from flame.rates.shape import PlumeShape

__all__ = ["SECONDS_PER_HOUR", "LineDensity", "Rate", "cross_section_rate", "fetch_rate", "ime_rate", "line_density"]

SECONDS_PER_HOUR = 3600.0
_DRAWS = 2000
_LEAST_TRANSECTS = 3


@dataclass(frozen=True)
class Rate:
    """An emission rate.

    Attributes:
        method: "ime", "fetch" or "cross-section".
        kg_h: The rate.
        sigma_kg_h: Its standard deviation.
        wind: The wind it was found with.
        effective_m_s: The speed that the mass was divided by its length with.
        length_m: That length.
        coefficients: Name of the set of effective-wind coefficients, or nothing.
        note: What a reader should know about this number, or nothing.
    """

    method: str
    kg_h: float
    sigma_kg_h: float
    wind: Wind
    effective_m_s: float
    length_m: float
    coefficients: str = ""
    note: str = ""

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What a reader should know about this number and its wind."""
        return tuple(note for note in (self.note, self.wind.note) if note)


@dataclass(frozen=True)
class LineDensity:
    """Mass in each metre along a plume.

    Attributes:
        kg_per_m: Mean over cross-sections.
        sigma_kg_per_m: Standard error of that mean, by the cross-sections' own spread.
        sections: How many there were.
    """

    kg_per_m: float
    sigma_kg_per_m: float
    sections: int


def ime_rate(
    mass: PlumeMass,
    wind: Wind,
    coefficients: EffectiveWind,
    variants: Sequence[PlumeMass] = (),
    rng: np.random.Generator | None = None,
) -> Rate:
    """`Q = 3600 IME U_eff / L` with `L = sqrt(area)` and `U_eff = slope U10 + offset`.

    Its error is drawn: wind, mass, outline (one of `variants` or the plume's own) and the coefficients' residual.

    Args:
        mass: The plume's mass.
        wind: The wind.
        coefficients: For this kind of mask and sensor.
        variants: Masses under other outlines, for example one pixel smaller and larger.
        rng: Source of randomness of the error.
    """
    length = float(np.sqrt(mass.area_m2))
    effective = coefficients.at(wind.speed_m_s)
    rate = SECONDS_PER_HOUR * mass.ime_kg * effective / length
    rng = rng or np.random.default_rng(0)
    masses = [mass, *variants]
    # Half of the draws take the plume's own outline, the other half any of them alike.
    which = np.where(rng.random(_DRAWS) < 0.5, 0, rng.integers(0, len(masses), _DRAWS))
    ime = np.array([m.ime_kg for m in masses])[which]
    ime = ime + np.array([m.sigma_kg for m in masses])[which] * rng.standard_normal(_DRAWS)
    lengths = np.sqrt(np.array([m.area_m2 for m in masses]))[which]
    speeds = coefficients.slope * _drawn_winds(wind, rng) + coefficients.offset_m_s
    factor = np.exp(coefficients.residual * rng.standard_normal(_DRAWS))
    draws = SECONDS_PER_HOUR * ime * speeds / lengths * factor
    return Rate("ime", rate, float(np.std(draws)), wind, effective, length, note=_calm(wind))


def fetch_rate(mass: PlumeMass, fetch_m: float, wind: Wind, coefficients: EffectiveWind | None = None) -> Rate:
    """`Q = 3600 IME U_eff / fetch`; EMIT L2B's simple IME, where U_eff is U10, unless coefficients are given.

    Errors of mass, wind and coefficients are added in squares.
    """
    law = coefficients or EffectiveWind(1.0, 0.0)
    effective = law.at(wind.speed_m_s)
    per_m_s = SECONDS_PER_HOUR * mass.ime_kg / fetch_m
    parts = (
        SECONDS_PER_HOUR * mass.sigma_kg / fetch_m * effective,
        per_m_s * law.slope * wind.error_m_s,
        per_m_s * effective * law.residual,
    )
    sigma = float(np.sqrt(np.sum(np.square(parts))))
    return Rate("fetch", per_m_s * effective, sigma, wind, effective, fetch_m, note=_calm(wind))


def line_density(pixels: PlumePixels, shape: PlumeShape, kg_per_m2: float) -> LineDensity | None:
    """The mass in each metre of a plume, averaged over cross-sections of two pixels; None for a plume too short.

    The ends are left out: the first pixels hold gas that still spreads, the last ones where the outline closes.
    """
    along, _ = pixels.along(shape.to_deg)
    step = 2.0 * pixels.side_m
    number = np.floor((along - along.min()) / step).astype(int)
    mass = np.bincount(number, pixels.column_ppm_m * kg_per_m2 * pixels.area_m2)
    per_metre = mass[1:-1] / step
    if per_metre.size < _LEAST_TRANSECTS:
        return None
    spread = float(per_metre.std(ddof=1)) / float(np.sqrt(per_metre.size))
    return LineDensity(float(per_metre.mean()), spread, int(per_metre.size))


def cross_section_rate(density: LineDensity, length_m: float, wind: Wind, coefficients: EffectiveWind) -> Rate:
    """The mass in each metre of a plume times the wind that carries it."""
    effective = coefficients.at(wind.speed_m_s)
    rate = SECONDS_PER_HOUR * density.kg_per_m * effective
    shares = (
        density.sigma_kg_per_m / max(abs(density.kg_per_m), 1e-12),
        coefficients.slope * wind.error_m_s / max(effective, 1e-12),
        coefficients.residual,
    )
    sigma = abs(rate) * float(np.sqrt(np.sum(np.square(shares))))
    return Rate("cross-section", rate, sigma, wind, effective, length_m, note=_calm(wind))


def _drawn_winds(wind: Wind, rng: np.random.Generator) -> Float[np.ndarray, " draw"]:
    return np.maximum(wind.speed_m_s + wind.error_m_s * rng.standard_normal(_DRAWS), 0.0)


def _calm(wind: Wind) -> str:
    return "nearly calm: the plume is not steady, trust the mass more than the rate" if wind.is_calm else ""
