"""Plumes put into real scenes by the same physics that makes simulated ones."""

from __future__ import annotations

import numpy as np

from flame.errors import FlameError
from flame.physics import SENSORS, noise_model, unit_absorption
from flame.scene import AnyScene, Scene
from flame.simulate.atmosphere import airmass_of, path_factor
from flame.simulate.settings import TileSettings
from flame.simulate.tiles import SimulatedTile, absorb
from flame.simulate.visibility import draw_labelled_plume, visible_noise
from flame.tile import LabelledTile

__all__ = ["cut_background", "inject_plume"]

_LEAST_VALID = 0.3
_TRIES = 20


def cut_background(scene: AnyScene, rng: np.random.Generator, size: int) -> Scene:
    """A random square of a scene, flipped and turned at random.

    A scene smaller than the square is continued by its own mirror image.

    Raises:
        FlameError: If no square with enough valid pixels is found.
    """
    scene = scene.methane()
    for _ in range(_TRIES):
        rows, cols = (_window(rng, length, size) for length in scene.shape)
        if rng.uniform() < 0.5:
            rows = rows[::-1]
        if rng.uniform() < 0.5:
            cols = cols[::-1]
        if scene.valid[np.ix_(rows, cols)].mean() >= _LEAST_VALID:
            break
    else:
        where = scene.acquisition.source or "the scene"
        raise FlameError(
            f"{where}: no {size}x{size} square with 30 % valid pixels in {_TRIES} tries; use a smaller tile size"
        )
    turned = rng.uniform() < 0.5
    first = int(rows.min())
    lines = scene.rows(first, int(rows.max()) + 1)

    def cut(layer: np.ndarray) -> np.ndarray:
        part = layer[..., rows[:, None] - first, cols[None, :]]
        return np.ascontiguousarray(np.swapaxes(part, -1, -2) if turned else part)

    return Scene(
        radiance=cut(lines.radiance),
        bands=scene.bands,
        valid=cut(lines.valid),
        rgb=None if lines.rgb is None else cut(lines.rgb),
        acquisition=scene.acquisition,
    )


def _window(rng: np.random.Generator, length: int, size: int) -> np.ndarray:
    """Indices of a window; beyond the ends they run back, as in a mirror."""
    period = 2 * length
    start = int(rng.integers(0, length - size + 1)) if length >= size else int(rng.integers(0, period))
    index = (start + np.arange(size)) % period
    return np.where(index < length, index, period - 1 - index)


def inject_plume(
    scene: Scene, rng: np.random.Generator, settings: TileSettings, name: str, *, add_noise: bool = True
) -> SimulatedTile:
    """Draws plumes over a scene and lets them absorb its light.

    Args:
        scene: Plume-free radiance; its own bands and, if known, its own angles are used.
        rng: Source of randomness.
        settings: Plume, label, noise scale and pixel size; angles where the scene does not tell.
        name: Identifier of the tile.
        add_noise: Add sensor noise after the plume. Wanted for smooth (denoised, resampled or averaged) backgrounds;
            a scene with its full noise needs none, and its noise then counts as background.

    Returns:
        The tile; `background_radiance` is the scene's own radiance, `noise_sigma` that of the sensor's noise model.
    """
    settings = settings.regime(rng)
    scene = scene.methane()
    acquisition = scene.acquisition
    drawn = settings.atmosphere.solar_zenith_deg.draw(rng), settings.atmosphere.view_zenith_deg.draw(rng)
    sun = drawn[0] if acquisition.solar_zenith_deg is None else acquisition.solar_zenith_deg
    view = drawn[1] if acquisition.view_zenith_deg is None else acquisition.view_zenith_deg
    background = np.where(scene.valid, scene.radiance, np.float32(0))
    known = acquisition.sensor if acquisition.sensor in SENSORS else settings.instrument.sensor
    scale = np.float32(settings.instrument.noise_scale.draw(rng))
    model = noise_model(str(known))
    noise = scale * np.float32(add_noise) * rng.standard_normal(background.shape, dtype=np.float32)
    clean = background + model.sigma(background, scene.bands) * noise
    noise_ppm_m = visible_noise(clean, scene.valid, unit_absorption(scene.bands))
    plume = draw_labelled_plume(rng, settings, path_factor(airmass_of(sun, view)), noise_ppm_m, scene.valid)
    signal = absorb(background, plume.slant_ppm_m, scene.bands, np.zeros(scene.shape, np.float32))
    sigma = model.sigma(signal, scene.bands)
    radiance = np.where(scene.valid, signal + sigma * noise, np.float32(0))
    tile = LabelledTile(
        name=name,
        scene=Scene(radiance, scene.bands, scene.valid, scene.rgb, scene.geo, acquisition),
        label=plume.label,
        enhancement_ppm_m=plume.slant_ppm_m,
        emission_kg_h=float(sum(source.emission_kg_h for source in plume.sources)),
        sources=plume.sources,
    )
    return SimulatedTile(tile, background, scale * sigma)
