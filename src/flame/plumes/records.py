"""What is known of each plume of a scene: where it is, how much gas it holds, how fast it leaks, whether it is methane.

A detection gives a mask; these records are what products show. They hold numbers and small arrays only, no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from flame.detection import Plume
from flame.detection.spectral_check import SpectralCheck
from flame.physics import Wind
from flame.plumes.light import LightPath
from flame.rates import EffectiveWind, PlumeFigures, PlumeMass, PlumeShape, Rate, plume_rates

__all__ = ["DetectionLimit", "PlumePoint", "PlumeRecord", "SceneRecord", "UnitRate", "plume_letters"]


@dataclass(frozen=True)
class PlumePoint:
    """A point of a scene.

    Attributes:
        row: In pixels from the scene's top edge; a pixel's centre is at half past.
        col: In pixels from the left edge.
        longitude_deg: WGS 84; None if the scene does not say where it is.
        latitude_deg: WGS 84.
    """

    row: float
    col: float
    longitude_deg: float | None = None
    latitude_deg: float | None = None


@dataclass(frozen=True)
class UnitRate:
    """What a plume would emit in a wind that is not known yet: `kg_h_per_m_s * U10 + offset_kg_h`.

    That is the rate by `method` exactly, with the same coefficients.

    Attributes:
        kg_h_per_m_s: Rate for each m/s of wind at 10 m.
        sigma_kg_h_per_m_s: Its standard deviation, by the mass and what the coefficients leave over. As a share it is
            that of the whole rate too, before the wind's own error.
        offset_kg_h: What is added, whatever the wind.
        method: "fetch", or another if the coefficients have none for it.
        coefficients: Their name.
    """

    kg_h_per_m_s: float
    sigma_kg_h_per_m_s: float
    offset_kg_h: float = 0.0
    method: str = "fetch"
    coefficients: str = ""

    @classmethod
    def of(cls, figures: PlumeFigures, laws: Mapping[str, EffectiveWind], name: str = "") -> UnitRate | None:
        """Of a plume, by the fetch law that its rates use, or the first there is; None without coefficients.

        Args:
            figures: What was measured of it.
            laws: Effective-wind coefficients by method.
            name: Of the coefficients, for people.
        """
        method = "fetch" if "fetch" in laws else next(iter(laws), None)
        if method is None:
            return None
        law = laws[method]
        rates = plume_rates(figures, [Wind(1.0, None, 0.0)], {method: law}, np.random.default_rng(0))
        if not rates:
            return None
        share = law.slope / law.at(1.0)
        slope, sigma = share * rates[0].kg_h, share * rates[0].sigma_kg_h
        return cls(slope, sigma, rates[0].kg_h - slope, method, name)

    @property
    def basis(self) -> str:
        """What the numbers are, in a sentence."""
        return (
            f"rate by {self.method} = kg_h_per_m_s * (wind at 10 m in m/s) + kg_h_offset, coefficients "
            f"'{self.coefficients}'; sigma by mass and coefficients, without the wind's error"
        )


@dataclass(frozen=True)
class DetectionLimit:
    """What a scene could have shown: the rate of plumes that are found in half, and in nine of ten, cases.

    Attributes:
        wind_m_s: The wind it holds for.
        kg_h_50: Half of the plumes of this rate are found.
        kg_h_90: Nine in ten of them are; None where even the strongest simulated ones are missed more often.
        basis: Which sensor, detector and simulation it comes from.
    """

    wind_m_s: float
    kg_h_50: float | None
    kg_h_90: float | None
    basis: str


@dataclass(frozen=True, eq=False)
class PlumeRecord:
    """One plume.

    Attributes:
        id: Names it among all plumes of a batch: the scene's name and a letter, the strongest being A.
        number: Its place in the scene, the strongest being 1.
        plume: Outline, area in pixels, peak and mean enhancement, confidence, and the number of `parts` it was joined
            from. Its score is the scene's enhancement, not the detector's own score.
        source: The pixel in which it seems to begin.
        image_deg: Its direction from there, clockwise from the image's upward direction.
        shape: Direction clockwise from north, length, width and fetch in metres; None where the scene is not placed.
        at_edge: Whether it reaches the edge of what could be seen, so that mass and length are of a part of it.
        figures: Mass, also under other outlines, and what else rates follow from; None where the scene is not placed.
        light: The light's path, which the mass takes out.
        rates: Emission rates, one for each wind and method; empty without wind.
        unit_rate: Rate for each m/s of wind; None where there is no mass, or no coefficients for the sensor.
        check: The check of its spectrum; None if it was not made.
        notes: What a reader should know, in sentences.
    """

    id: str
    number: int
    plume: Plume
    source: PlumePoint
    image_deg: float
    shape: PlumeShape | None
    at_edge: bool
    figures: PlumeFigures | None
    light: LightPath
    rates: tuple[Rate, ...]
    unit_rate: UnitRate | None
    check: SpectralCheck | None
    notes: tuple[str, ...] = ()

    @property
    def mass(self) -> PlumeMass | None:
        """Excess methane in kg with sigma, and the ground area; None where the scene is not placed."""
        return None if self.figures is None else self.figures.mass

    @property
    def rate(self) -> Rate | None:
        """The rate to state if only one is: by the integrated mass, with the first wind that is no calm."""
        return self.rates[0] if self.rates else None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Its notes, and what its rates and their winds note, once for each wind."""
        told = [f"{rate.wind.words}: {note}" for rate in self.rates for note in rate.all_notes]
        return (*self.notes, *dict.fromkeys(told))


@dataclass(frozen=True, eq=False)
class SceneRecord:
    """The plumes of a scene, and the maps they were measured on.

    Attributes:
        plumes: The plumes, the heaviest first.
        enhancement_ppm_m: Methane enhancement, not smoothed; 0 where not usable.
        sigma_ppm_m: Its standard deviation, infinite where not usable.
        enhancement_source: What retrieved them, for people.
        winds: The winds that were given by hand; those of files are in each plume's rates, or here if no plume has one.
        coefficients: Name of the effective-wind coefficients.
        limits: What the scene could have shown, by wind; empty where nothing was simulated for its sensor.
        notes: What a reader should know of all plumes.
        wind_notes: What a reader should know of the winds: files that had none for this scene, calms, units.
    """

    plumes: tuple[PlumeRecord, ...]
    enhancement_ppm_m: Float32[np.ndarray, "row col"]
    sigma_ppm_m: Float32[np.ndarray, "row col"]
    enhancement_source: str
    winds: tuple[Wind, ...] = ()
    coefficients: str = ""
    limits: tuple[DetectionLimit, ...] = ()
    notes: tuple[str, ...] = ()
    wind_notes: tuple[str, ...] = ()


def plume_letters(number: int) -> str:
    """A, B, ... Z, AA, AB, ... for 1, 2, ..."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
