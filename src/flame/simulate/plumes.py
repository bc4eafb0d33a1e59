"""Methane plumes that conserve mass: emission rate and wind in, column enhancement in ppm m out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64

from flame.errors import FlameError
from flame.physics import kg_per_m2_from_ppm_m
from flame.simulate.plume_puffs import Puffs, carry, make_eddies, splat
from flame.tile import PlumeSource

__all__ = ["PlumeField", "PlumeSettings", "draw_emission", "draw_plumes", "draw_wind", "plume_column"]

_SECONDS_PER_HOUR = 3600.0
_REFERENCE_WIDTH_M = 640.0
_LARGEST_EDDY_M = 3000.0


@dataclass(frozen=True)
class PlumeSettings:
    """Distributions from which sources, wind and turbulence of a tile are drawn.

    Emission rates scale with the width of the tile: the visible length and width of a plume both grow in proportion to
    the rate, so the plume's share of the tile stays about the same from a 128-pixel AVIRIS-NG tile to a 512-pixel one
    or to the coarse pixels of a satellite, whose detection limit is as much higher.

    Attributes:
        source_shares: Probability of 0, 1, 2, ... sources in a tile; sums to one.
        emission_median_kg_h: Median of the log-normal emission rate of a source in a tile 640 m wide.
        emission_log_sigma: Standard deviation of the natural logarithm of the emission rate.
        emission_range_kg_h: Smallest and largest emission rate in such a tile; draws outside are drawn again.
        wind_mean_m_s: Mean of the Weibull-distributed (shape 2) wind speed.
        wind_range_m_s: Smallest and largest wind speed; draws outside are clipped.
        intensity_range: Turbulent speed over wind speed: 0.08 in stable air to 0.4 in convection.
        convection_m_s: Added to the wind (in squares) before `intensity_range` applies: sun-heated air stirs in a calm.
        growth_range: Growth of a puff's standard deviation per metre of travel.
        outer_scale_range_m: Wavelength of the largest eddies; large ones make the plume meander.
        eddy_share: The largest eddies are at least this share of the tile's width, up to 3 km, about twice the depth of
            the mixed air: over the kilometres of a satellite's tile smaller ones would only widen a straight plume.
        divergent_range: Share of eddy energy that gathers and parts the column.
        source_sigma_range_m: Size of the release: a vent, a tank, a pit.
        peak_ppm_m: A source is made wide enough that the mean column across it stays below this.
        burst_share: Share of sources that started or stopped recently, so that the plume has a front or a tail.
        fan: How far gas released together turns into other air with age, in radians.
        margin: Sources lie evenly in a tile that is shifted upwind by up to this share of its size, so that some
            plumes enter from outside.
        tracers: Number of puffs that make one plume.
    """

    source_shares: tuple[float, ...] = (0.5, 0.4, 0.08, 0.02)
    emission_median_kg_h: float = 110.0
    emission_log_sigma: float = 1.1
    emission_range_kg_h: tuple[float, float] = (5.0, 5000.0)
    wind_mean_m_s: float = 3.5
    wind_range_m_s: tuple[float, float] = (1.2, 10.0)
    intensity_range: tuple[float, float] = (0.08, 0.4)
    convection_m_s: float = 1.5
    growth_range: tuple[float, float] = (0.02, 0.07)
    outer_scale_range_m: tuple[float, float] = (120.0, 800.0)
    eddy_share: float = 0.0
    divergent_range: tuple[float, float] = (0.0, 0.05)
    source_sigma_range_m: tuple[float, float] = (1.0, 5.0)
    peak_ppm_m: float = 12_000.0
    burst_share: float = 0.15
    fan: float = 1.2
    margin: float = 0.1
    tracers: int = 5000

    def __post_init__(self) -> None:
        if not self.source_shares or min(self.source_shares) < 0 or not np.isclose(sum(self.source_shares), 1.0):
            raise FlameError(f"source_shares must be probabilities that sum to one, got {self.source_shares}")
        for name in ("emission_range_kg_h", "wind_range_m_s"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise FlameError(f"{name} must be positive and increasing, got {low} to {high}")


@dataclass(frozen=True, eq=False)
class PlumeField:
    """What was drawn for one tile.

    Attributes:
        column_ppm_m: Vertical methane column above background.
        sources: The sources behind it; several share one wind.
    """

    column_ppm_m: Float32[np.ndarray, "row col"]
    sources: tuple[PlumeSource, ...]


def _between(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(rng.uniform(*bounds))


def draw_wind(rng: np.random.Generator, settings: PlumeSettings) -> float:
    """A wind speed, in m/s."""
    scale = settings.wind_mean_m_s / 0.8862269
    return float(np.clip(scale * rng.weibull(2.0), *settings.wind_range_m_s))


def draw_emission(rng: np.random.Generator, settings: PlumeSettings, width_m: float) -> float:
    """An emission rate for a source in a tile of this width, in kg/h."""
    low, high = settings.emission_range_kg_h
    for _ in range(1000):
        rate = settings.emission_median_kg_h * float(np.exp(settings.emission_log_sigma * rng.standard_normal()))
        if low <= rate <= high:
            return rate * width_m / _REFERENCE_WIDTH_M
    raise FlameError(
        f"no emission rate between {low:g} and {high:g} kg/h in 1000 draws around "
        f"{settings.emission_median_kg_h:g}; widen emission_range_kg_h"
    )


def _draw_ages(
    rng: np.random.Generator, length_m: float, wind_m_s: float, count: int
) -> tuple[Float64[np.ndarray, " puff"], Float64[np.ndarray, " puff"]]:
    """Ages of the tracers and the time each stands for, both in s; denser near the source, where puffs are small."""
    longest_s = length_m / wind_m_s
    edges_s = longest_s * np.linspace(0.0, 1.0, count + 1) ** 1.5
    step_s = np.diff(edges_s)
    return edges_s[:-1] + step_s * rng.uniform(size=count), step_s


def _release(
    rng: np.random.Generator, age_s: Float64[np.ndarray, " puff"], burst_share: float
) -> Bool[np.ndarray, " puff"]:
    """Which tracers were released: all, or those of a source that began or ended within the plume's length."""
    if rng.uniform() >= burst_share:
        return np.ones(age_s.size, np.bool_)
    change_s = rng.uniform(0.05, 0.6) * age_s[-1]
    return np.asarray(age_s < change_s if rng.uniform() < 0.5 else age_s > change_s)


def plume_column(
    rng: np.random.Generator, shape: tuple[int, int], pixel_m: float, source: PlumeSource, settings: PlumeSettings
) -> Float32[np.ndarray, "row col"]:
    """Column of one plume, in ppm m, whose mean cross-wind integral times the wind is the emission rate.

    Args:
        rng: Source of randomness, for stability and turbulence.
        shape: Rows and columns of the tile.
        pixel_m: Pixel size.
        source: Where, how much, and in which wind.
        settings: Distributions of the rest.
    """
    wind_m_s = source.wind_m_s
    # Far enough to leave the tile from anywhere in it, and a little beyond, since eddies may carry puffs back.
    length_m = 1.3 * pixel_m * float(np.hypot(*shape))
    intensity = _between(rng, settings.intensity_range)
    growth = _between(rng, settings.growth_range)
    rate_kg_s = source.emission_kg_h / _SECONDS_PER_HOUR
    line_ppm_m2 = rate_kg_s / wind_m_s / kg_per_m2_from_ppm_m()
    sigma0_m = max(_between(rng, settings.source_sigma_range_m), line_ppm_m2 / settings.peak_ppm_m / np.sqrt(2 * np.pi))
    width_m = pixel_m * float(np.sqrt(shape[0] * shape[1]))
    drawn_scale_m = float(np.exp(rng.uniform(*np.log(settings.outer_scale_range_m))))
    eddies = make_eddies(
        rng,
        length_m=1.1 * length_m,
        cells=256 if max(shape) <= 256 else 512,
        outer_scale_m=max(drawn_scale_m, min(settings.eddy_share * width_m, _LARGEST_EDDY_M)),
        speed_m_s=intensity * float(np.hypot(wind_m_s, settings.convection_m_s)),
        divergent_share=_between(rng, settings.divergent_range),
    )
    age_s, step_s = _draw_ages(rng, length_m, wind_m_s, settings.tracers)
    start = (0.5 * sigma0_m * rng.standard_normal((age_s.size, 2))) @ np.array([1.0, 1.0j])
    turn = settings.fan * rng.standard_normal(age_s.size, np.float32)
    place, sigma_m = carry(eddies, age_s, wind_m_s, start.astype(np.complex64), sigma0_m, growth, turn)
    angle = np.deg2rad(source.wind_to_deg)
    along, cross = place.real.astype(np.float64), place.imag.astype(np.float64)
    # The largest eddies change the mean speed of the whole plume; the source's wind is meant to include them.
    travel_m = wind_m_s * age_s
    along -= travel_m * (step_s @ (travel_m * (along - travel_m))) / (step_s @ travel_m**2)
    # Clockwise from up: along wind is (sin, -cos) in (column, row); cross wind is a quarter turn clockwise of it.
    x_m = source.col * pixel_m + along * np.sin(angle) + cross * np.cos(angle)
    y_m = source.row * pixel_m - along * np.cos(angle) + cross * np.sin(angle)
    on = _release(rng, age_s, settings.burst_share)
    puffs = Puffs(x_m[on], y_m[on], sigma_m[on], rate_kg_s * step_s[on])
    return splat(puffs, shape, pixel_m) / np.float32(kg_per_m2_from_ppm_m())


def draw_plumes(
    rng: np.random.Generator, shape: tuple[int, int], pixel_m: float, settings: PlumeSettings
) -> PlumeField:
    """Draws the sources of a tile and the plumes they make.

    Args:
        rng: Source of randomness.
        shape: Rows and columns of the tile.
        pixel_m: Pixel size.
        settings: What to draw from.
    """
    count = int(rng.choice(len(settings.source_shares), p=settings.source_shares))
    column_ppm_m = np.zeros(shape, np.float32)
    width_m = pixel_m * float(np.sqrt(shape[0] * shape[1]))
    sources = []
    wind_m_s = draw_wind(rng, settings)
    wind_to_deg = float(rng.uniform(0.0, 360.0))
    upwind = np.array([np.cos(np.deg2rad(wind_to_deg)), -np.sin(np.deg2rad(wind_to_deg))])
    for _ in range(count):
        place = rng.uniform(size=2) + upwind * rng.uniform(0.0, settings.margin)
        row, col = (float(size * part) for size, part in zip(shape, place, strict=True))
        emission_kg_h = draw_emission(rng, settings, width_m)
        source = PlumeSource(row, col, emission_kg_h, wind_m_s, wind_to_deg)
        column_ppm_m += plume_column(rng, shape, pixel_m, source, settings)
        sources.append(source)
    return PlumeField(column_ppm_m, tuple(sources))
