"""One labelled tile from nothing but a seed: ground, air, plume, sensor, label, and the truth behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from flame.physics import BandSet, sensor, unit_absorption
from flame.scene import Acquisition, Scene
from flame.simulate.atmosphere import AirState, band_sunlight, draw_air, path_factor, visible_sunlight
from flame.simulate.instrument import (
    InstrumentState,
    band_transmittance,
    draw_instrument,
    noise_sigma,
    point_spread,
    respond,
    saturate,
)
from flame.simulate.mapping import draw_mapping
from flame.simulate.settings import TileSettings
from flame.simulate.surfaces import draw_ground
from flame.simulate.visibility import draw_labelled_plume, visible_noise
from flame.tile import LabelledTile

__all__ = ["SimulatedTile", "absorb", "simulate_tile", "tile_generator"]

_PLUME_FLOOR_PPM_M = 0.5
_RGB_NOISE = 0.004


@dataclass(frozen=True, eq=False)
class SimulatedTile:
    """A labelled tile and what only its maker knows.

    Attributes:
        tile: What a detector may see, with label and enhancement.
        background_radiance: Radiance without plume and without noise, as this sensor would report it.
        noise_sigma: Standard deviation of the noise on each value of the tile's radiance.
    """

    tile: LabelledTile
    background_radiance: Float32[np.ndarray, "band row col"]
    noise_sigma: Float32[np.ndarray, "band row col"]


def tile_generator(seed: int, index: int) -> np.random.Generator:
    """The generator of one tile of a data set: the same whatever worker draws it and whatever came before."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))


def absorb(
    radiance: Float32[np.ndarray, "band row col"],
    slant_ppm_m: Float32[np.ndarray, "row col"],
    bands: BandSet,
    shift_nm: Float32[np.ndarray, "row col"],
) -> Float32[np.ndarray, "band row col"]:
    """Radiance behind a plume, by the true, saturating transmittance."""
    behind = slant_ppm_m > _PLUME_FLOOR_PPM_M
    if not behind.any():
        return radiance
    result = radiance.copy()
    result[:, behind] *= band_transmittance(slant_ppm_m[behind].astype(np.float64), bands, shift_nm[behind])
    return result


def simulate_tile(rng: np.random.Generator, settings: TileSettings, name: str) -> SimulatedTile:
    """Draws one tile.

    Args:
        rng: Source of randomness; see `tile_generator`.
        settings: What to draw from; see `flame.simulate.preset`.
        name: Identifier of the tile.
    """
    settings = settings.regime(rng)
    shape = (settings.size, settings.size)
    bands = sensor(settings.instrument.sensor).bands.methane()
    ground = draw_ground(rng, shape, bands, settings.surface)
    air = draw_air(rng, shape, settings.atmosphere)
    state = draw_instrument(rng, shape, bands, settings.instrument)
    mapping = draw_mapping(rng, shape, settings.instrument)
    mapped = mapping if mapping is not None else np.asarray
    seen = mapped(state.seen)
    valid = seen if seen.any() else np.ones(shape, np.bool_)

    light = band_sunlight(bands, air, state.shift_nm, state.fwhm_factor, state.smile_nm)
    leaving = ground.reflectance * light
    if ground.emission is not None:
        leaving += ground.emission
    mean = leaving.mean(axis=(1, 2))
    scattered = np.float32(air.path_reflectance) * light.mean(axis=(1, 2))[:, None, None]
    clean = respond(point_spread(leaving, state.psf_sigma_px) + scattered, mean, state)
    noise = rng.standard_normal(clean.shape, dtype=np.float32)
    sigma = noise_sigma(clean, bands, state, settings.instrument.sensor)
    plain = mapped(saturate(clean + sigma * noise, state))
    noise_ppm_m = visible_noise(plain, valid, unit_absorption(bands))

    plume = draw_labelled_plume(rng, settings, path_factor(air.airmass), noise_ppm_m, valid, mapping)
    signal = clean
    if plume.sources:
        behind = absorb(leaving, plume.slant_ppm_m, bands, state.smile_nm + np.float32(state.shift_nm))
        signal = respond(point_spread(behind, state.psf_sigma_px) + scattered, mean, state)
        sigma = noise_sigma(signal, bands, state, settings.instrument.sensor)
    radiance = mapped(saturate(signal + sigma * noise, state))
    radiance[:, ~valid] = 0.0
    scene = Scene(
        radiance=radiance,
        bands=bands,
        valid=valid,
        rgb=_rgb(rng, mapped(ground.visible), air, state, valid),
        acquisition=Acquisition(
            sensor=settings.instrument.sensor,
            solar_zenith_deg=air.solar_zenith_deg,
            view_zenith_deg=air.view_zenith_deg,
            source=name,
        ),
    )
    tile = LabelledTile(
        name=name,
        scene=scene,
        label=plume.label,
        enhancement_ppm_m=mapped(plume.slant_ppm_m),
        emission_kg_h=float(sum(source.emission_kg_h for source in plume.sources)),
        sources=plume.sources,
    )
    return SimulatedTile(tile, mapped(clean), mapped(sigma))


def _rgb(
    rng: np.random.Generator,
    visible: Float32[np.ndarray, "3 row col"],
    air: AirState,
    state: InstrumentState,
    valid: Bool[np.ndarray, "row col"],
) -> Float32[np.ndarray, "3 row col"]:
    """Radiance at 640, 550 and 460 nm, with haze, blur and a little noise."""
    white, haze = (part.astype(np.float32)[:, None, None] for part in visible_sunlight(air))
    seen = point_spread(visible * white, state.psf_sigma_px) + haze
    seen *= 1.0 + np.float32(_RGB_NOISE) * rng.standard_normal(seen.shape, dtype=np.float32)
    seen[:, ~valid] = 0.0
    return seen
