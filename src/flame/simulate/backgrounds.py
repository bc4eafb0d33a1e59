"""Plume-free ground kept small: a few spectra and a map of each, from which any sensor's bands can be integrated.

A simulated background is made once on a grid of 2 nm. Its cube has a low rank: about twenty spectra on the fine grid
and their coefficients in each pixel give it back to two ten-thousandths. A sensor's bands are averages over that grid,
so a tile for any band centres and widths costs one small matrix product. Real scenes keep the bands they came in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy.interpolate import CubicSpline

from flame.errors import FlameError
from flame.physics import (
    MAX_ENHANCEMENT_PPM_M,
    BandSet,
    clear_sky_radiance,
    gaussian_response,
    noise_model,
    sensor,
    transmittance,
    unit_absorption,
)
from flame.scene import Scene
from flame.simulate.atmosphere import airmass_of, band_sunlight, draw_air, path_factor
from flame.simulate.instrument import draw_instrument, point_spread, respond
from flame.simulate.settings import TileSettings
from flame.simulate.surfaces import draw_ground
from flame.simulate.visibility import visible_noise

__all__ = ["NOISE_SCALES", "Background", "Optics", "background_of", "draw_background", "fine_grid", "optics"]

FINE_STEP_NM = 2.0
FINE_FWHM_NM = 3.0
"""Wider than the step: Gaussians this far apart add up evenly to 0.1 %; at a width of 2 nm they would ripple by 6 %."""
NARROWEST_NM = 4.0
NOISE_SCALES = (0.25, 1.0, 4.0)
"""Noise of the reference sensor at which a background's visible noise is known; between them it is interpolated."""
_REFERENCE_SENSOR = "aviris-ng"
_ROOT_NODES = 129
_CURVES = 5
_EXACT = 2e-4


@lru_cache(maxsize=1)
def fine_grid() -> BandSet:
    """The fine grid: every 2 nm from 2096 to 2504 nm, 3 nm wide."""
    centres = np.arange(2096.0, 2504.1, FINE_STEP_NM)
    return BandSet(centres, np.full(centres.size, FINE_FWHM_NM))


@dataclass(frozen=True, eq=False)
class Background:
    """Plume-free, noise-free ground as `spectra.T @ maps`.

    Attributes:
        grid: Bands the spectra are sampled in: the fine grid, or those of a real scene.
        spectra: Leading spectra, in µW cm-2 nm-1 sr-1.
        maps: Their coefficients.
        valid: Pixels that were seen.
        path_factor: From vertical column to enhancement along the light's path.
        visible_ppm_m: Visible noise of each pixel at each of `NOISE_SCALES` times the reference sensor's noise.
        pixel_m: Size of a pixel.
        sensor: The sensor it was made for or taken with.
        name: Identifier.
    """

    grid: BandSet
    spectra: Float32[np.ndarray, "rank cell"]
    maps: Float32[np.ndarray, "rank row col"]
    valid: Bool[np.ndarray, "row col"]
    path_factor: float
    visible_ppm_m: Float32[np.ndarray, "scale row col"]
    pixel_m: float
    sensor: str
    name: str = ""

    @property
    def any_bands(self) -> bool:
        """Whether it can be seen in bands of any centres and widths."""
        return self.grid.matches(fine_grid())

    def radiance(self, seen: Optics) -> Float32[np.ndarray, "band row col"]:
        """Its radiance through a sensor's bands."""
        mixed = seen.response @ self.spectra.T
        return np.asarray((mixed @ self.maps.reshape(len(self.maps), -1)).reshape(-1, *self.valid.shape))

    def cut(self, row: int, col: int, size: int) -> Background:
        """A square part of it."""
        part = (..., slice(row, row + size), slice(col, col + size))
        return replace(self, maps=self.maps[part], valid=self.valid[part], visible_ppm_m=self.visible_ppm_m[part])

    def turned(self, quarter_turns: int, mirrored: bool) -> Background:
        """The same ground turned and mirrored, every layer alike."""

        def turn(layer: np.ndarray) -> np.ndarray:
            layer = layer[..., ::-1] if mirrored else layer
            return np.ascontiguousarray(np.rot90(layer, quarter_turns, axes=(-2, -1)))

        return replace(self, maps=turn(self.maps), valid=turn(self.valid), visible_ppm_m=turn(self.visible_ppm_m))


@dataclass(frozen=True, eq=False)
class Optics:
    """A sensor's bands over a grid, with methane's true transmittance through them.

    Attributes:
        bands: The bands.
        response: Weights with which each averages the grid.
        root_ppm_m: Square roots of the enhancements at which `curves` are known.
        curves: Leading curves of log-transmittance against enhancement.
        curve_bands: How much of each is in each band.
        reference_noise: Noise-equivalent enhancement of a pixel of clear-sky radiance seen in these bands by the sensor
            at its nominal noise, over that of the reference sensor.
    """

    bands: BandSet
    response: Float32[np.ndarray, "band cell"]
    root_ppm_m: Float[np.ndarray, " node"]
    curves: Float[np.ndarray, "curve node"]
    curve_bands: Float32[np.ndarray, "band curve"]
    reference_noise: float

    def log_transmittance(self, slant_ppm_m: Float32[np.ndarray, " pixel"]) -> Float32[np.ndarray, "band pixel"]:
        """Ln of the saturating transmittance of each pixel's enhancement."""
        root = np.sqrt(slant_ppm_m)
        parts = np.stack([np.interp(root, self.root_ppm_m, curve) for curve in self.curves])
        return np.asarray(self.curve_bands @ parts.astype(np.float32))


@lru_cache(maxsize=1)
def _fine_transmittance() -> tuple[Float[np.ndarray, " node"], Float[np.ndarray, "cell node"]]:
    """Square roots of enhancements, and the clear-sky radiance of each fine cell behind them."""
    root = np.linspace(0.0, np.sqrt(MAX_ENHANCEMENT_PPM_M), _ROOT_NODES)
    grid = fine_grid()
    clear = np.maximum(clear_sky_radiance(grid), 1e-6)
    return root, clear[:, None] * transmittance(np.minimum(root**2, MAX_ENHANCEMENT_PPM_M), grid)


def optics(bands: BandSet, grid: BandSet | None = None, sensor_name: str = _REFERENCE_SENSOR) -> Optics:
    """Bands over a grid, made in about a millisecond, so that every tile may have bands of its own.

    Args:
        bands: The bands to see through.
        grid: The fine grid if not given; or the bands of a real scene, against which `bands` may be shifted by up to a
            quarter of their spacing.
        sensor_name: Whose noise the visible noise is scaled to.

    Raises:
        FlameError: If bands are too narrow for the fine grid, or too far from a real scene's.
    """
    weights = _response(bands)
    root, behind = _fine_transmittance()
    seen = weights @ behind
    log_t = np.minimum(np.log(seen / seen[:, :1]), 0.0)
    _, vectors = np.linalg.eigh(log_t @ log_t.T)
    bands_part = vectors[:, : -_CURVES - 1 : -1]
    response = weights if grid is None or grid.matches(fine_grid()) else _shifted(grid, bands)
    return Optics(
        bands,
        response.astype(np.float32),
        root,
        bands_part.T @ log_t,
        bands_part.astype(np.float32),
        _noise_equivalent(bands, weights, sensor_name) / _reference_noise(),
    )


def _response(bands: BandSet) -> Float[np.ndarray, "band cell"]:
    """Weights of the fine cells in each band."""
    if (bands.fwhm_nm < NARROWEST_NM).any():
        raise FlameError(f"bands must be at least {NARROWEST_NM:g} nm wide, got {bands.fwhm_nm.min():g} nm")
    # A cell already averages over its own width; widths add in squares.
    narrowed = BandSet(bands.centres_nm, np.sqrt(np.square(bands.fwhm_nm) - FINE_FWHM_NM**2))
    return gaussian_response(fine_grid().centres_nm, narrowed)


@lru_cache(maxsize=1)
def _reference_bands() -> BandSet:
    return sensor(_REFERENCE_SENSOR).bands.methane()


@lru_cache(maxsize=1)
def _reference_noise() -> float:
    return _noise_equivalent(_reference_bands(), _response(_reference_bands()), _REFERENCE_SENSOR)


def _noise_equivalent(bands: BandSet, weights: Float[np.ndarray, "band cell"], sensor_name: str) -> float:
    """Noise-equivalent enhancement of a pixel of clear-sky radiance, in ppm m."""
    root, behind = _fine_transmittance()
    clear, thick = (weights @ behind[:, :2]).T
    slope = np.log(thick / clear) / root[1] ** 2
    sigma = noise_model(sensor_name).sigma(clear, bands)
    return float(1.0 / np.sqrt(np.square(slope * clear / sigma).sum()))


def _shifted(grid: BandSet, bands: BandSet) -> Float[np.ndarray, "band cell"]:
    """Cubic interpolation from a real scene's bands to the same bands shifted a little."""
    if len(grid) != len(bands) or (
        np.abs(bands.centres_nm - grid.centres_nm).max() > 0.26 * float(np.diff(grid.centres_nm).min())
    ):
        raise FlameError(
            f"a real scene can be seen only in its own bands, shifted by at most a quarter of their spacing: it has "
            f"{grid.describe()}, asked for were {bands.describe()}"
        )
    inside = np.clip(bands.centres_nm, grid.centres_nm[0], grid.centres_nm[-1])
    return np.asarray(CubicSpline(grid.centres_nm, np.eye(len(grid)))(inside))


def _small(
    cube: Float32[np.ndarray, "cell row col"], smooth: Float[np.ndarray, "band cell"]
) -> tuple[Float32[np.ndarray, "rank cell"], Float32[np.ndarray, "rank row col"]]:
    """The fewest spectra that give a cube back to `_EXACT`, relative and root mean square, in the bands `smooth`."""
    pixels = cube.reshape(len(cube), -1)
    level = np.maximum(np.sqrt(np.square(pixels, dtype=np.float64).mean(axis=1)), 1e-9)
    scaled = pixels / level[:, None].astype(np.float32)
    # In single precision the product's own rounding would pass for a hundred directions.
    exact = scaled.astype(np.float64)
    power, vectors = np.linalg.eigh(exact @ exact.T / pixels.shape[1])
    power, vectors = power[::-1], vectors[:, ::-1]
    seen = smooth @ level
    left = np.square((smooth * level) @ vectors / seen[:, None]) * np.maximum(power, 0.0)
    # What the directions from a rank on would have added to each band.
    lost = np.cumsum(left[:, ::-1], axis=1)[:, ::-1]
    enough = np.flatnonzero((np.sqrt(lost) <= _EXACT).all(axis=0))
    rank = int(enough[0]) if enough.size else len(cube)
    basis = vectors[:, : max(rank, 1)]
    maps = (basis.T.astype(np.float32) @ scaled).reshape(-1, *cube.shape[1:])
    return (basis.T * level).astype(np.float32), np.asarray(maps)


def _visible(background: Background, bands: BandSet, rng: np.random.Generator) -> Float32[np.ndarray, "scale row col"]:
    """Visible noise of a background at each of `NOISE_SCALES`."""
    clean = background.radiance(optics(bands, background.grid))
    sigma = noise_model(_REFERENCE_SENSOR).sigma(clean, bands)
    noise = sigma * rng.standard_normal(clean.shape, dtype=np.float32)
    spectrum = unit_absorption(bands)
    return np.stack([visible_noise(clean + np.float32(s) * noise, background.valid, spectrum) for s in NOISE_SCALES])


def draw_background(rng: np.random.Generator, settings: TileSettings, name: str = "") -> Background:
    """Ground, air and calibration faults of one simulated tile on the fine grid, without plume and noise.

    Args:
        rng: Source of randomness; see `tile_generator`.
        settings: What to draw from. Of the instrument, what can be drawn afresh in every tile (shifts, gains and
            noise) is left out; stripes, point spread and the line's edges stay.
        name: Identifier.
    """
    settings = settings.regime(rng)
    shape, grid = (settings.size, settings.size), fine_grid()
    ground = draw_ground(rng, shape, grid, settings.surface)
    air = draw_air(rng, shape, settings.atmosphere)
    drawn = draw_instrument(rng, shape, grid, settings.instrument)
    ones = np.ones(len(grid), np.float32)
    # Stripes belong to a band, not to 2 nm of it: only the part common to all bands can be laid on a fine grid.
    common = np.repeat(drawn.stripe.mean(axis=0, keepdims=True), len(grid), axis=0)
    state = replace(drawn, band_gain=ones, band_offset=0 * ones, stripe=common)
    light = band_sunlight(grid, air, 0.0, 1.0, state.smile_nm)
    leaving = ground.reflectance * light
    if ground.emission is not None:
        leaving += ground.emission
    scattered = np.float32(air.path_reflectance) * light.mean(axis=(1, 2))[:, None, None]
    cube = respond(point_spread(leaving, state.psf_sigma_px) + scattered, leaving.mean(axis=(1, 2)), state)
    bands = sensor(settings.instrument.sensor).bands.methane()
    spectra, maps = _small(cube, _response(_reference_bands()))
    valid = state.seen if state.seen.any() else np.ones(shape, np.bool_)
    empty = np.zeros((len(NOISE_SCALES), *shape), np.float32)
    made = Background(
        grid, spectra, maps, valid, path_factor(air.airmass), empty, settings.pixel_m, settings.instrument.sensor, name
    )
    return replace(made, visible_ppm_m=_visible(made, bands, rng))


def background_of(scene: Scene, rng: np.random.Generator, settings: TileSettings, name: str = "") -> Background:
    """A real plume-free scene as a background, in its own bands.

    Args:
        scene: Its radiance; smooth (denoised) scenes serve best, since noise is added to every tile drawn from it.
        rng: Source of randomness, for the angles if the scene does not tell them.
        settings: Pixel size and angles where the scene does not tell.
        name: Identifier; the scene's own source if not given.
    """
    settings = settings.regime(rng)
    scene, told = scene.methane(), scene.acquisition
    drawn = settings.atmosphere.solar_zenith_deg.draw(rng), settings.atmosphere.view_zenith_deg.draw(rng)
    sun = drawn[0] if told.solar_zenith_deg is None else told.solar_zenith_deg
    view = drawn[1] if told.view_zenith_deg is None else told.view_zenith_deg
    cube = np.where(scene.valid, scene.radiance, np.float32(0))
    spectra, maps = _small(cube, np.eye(len(cube)))
    empty = np.zeros((len(NOISE_SCALES), *scene.shape), np.float32)
    made = Background(
        scene.bands, spectra, maps, scene.valid, path_factor(airmass_of(sun, view)), empty, settings.pixel_m,
        str(told.sensor or settings.instrument.sensor), name or str(told.source or ""),
    )  # fmt: skip
    return replace(made, visible_ppm_m=_visible(made, scene.bands, rng))
