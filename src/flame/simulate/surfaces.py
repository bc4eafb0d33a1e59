"""Reflectance of a landscape: materials for a layout, and sharp absorbers strewn over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32

from flame.physics import BandSet
from flame.simulate.fields import fractal
from flame.simulate.layout import Layout, draw_layout
from flame.simulate.materials import FEATURES, feature_absorbance, spectra_of
from flame.simulate.settings import SurfaceSettings

__all__ = ["Ground", "draw_ground"]

_FLAME_K = 1700.0
_PLASTICS = ("plastic", "pvc_roof", "hydrocarbon")
_OBJECTS = ("paint", "roof", "plastic_roof", "tar", "water")


@dataclass(frozen=True, eq=False)
class Ground:
    """What the sun lights.

    Attributes:
        reflectance: Reflectance times relative illumination in each band.
        visible: The same at 640, 550 and 460 nm.
        emission: Radiance of flames, in µW cm-2 nm-1 sr-1, or None where nothing burns.
    """

    reflectance: Float32[np.ndarray, "band row col"]
    visible: Float32[np.ndarray, "3 row col"]
    emission: Float32[np.ndarray, "band row col"] | None


def draw_ground(rng: np.random.Generator, shape: tuple[int, int], bands: BandSet, settings: SurfaceSettings) -> Ground:
    """One landscape with its spectra."""
    layout = draw_layout(rng, shape, settings)
    swir, visible = _materials(rng, layout, bands, settings.alike.draw(rng))
    shares = np.stack(layout.shares)
    pixels = shares.reshape(len(shares), -1)
    reflectance = (swir.T.astype(np.float32) @ pixels).reshape(len(bands), *shape)
    depth = _absorbers(rng, shape, bands, settings)
    if depth is not None:
        reflectance *= np.exp(-depth)
    light = layout.light * np.float32(settings.brightness.draw(rng))
    reflectance *= light
    seen = (visible[:, ::-1].T.astype(np.float32) @ pixels).reshape(3, *shape) * light
    return Ground(reflectance, seen, _emission(layout, bands))


def _materials(
    rng: np.random.Generator, layout: Layout, bands: BandSet, alike: float
) -> tuple[Float[np.ndarray, "material band"], Float[np.ndarray, "material 3"]]:
    """A spectrum for each material of the layout, by its kind; those of the ground resemble each other."""
    swir = np.empty((len(layout.kinds), len(bands)))
    visible = np.empty((len(layout.kinds), 3))
    for kind in sorted(set(layout.kinds)):
        members = [index for index, other in enumerate(layout.kinds) if other == kind]
        library = "paint" if kind == "plastic_roof" else kind
        swir[members], visible[members] = spectra_of(
            library, len(members), bands, rng, 1.0 if kind in _OBJECTS else alike
        )
        if kind == "plastic_roof":
            feature = feature_absorbance(str(rng.choice(_PLASTICS)), bands)
            swir[members] *= np.exp(-rng.uniform(0.05, 0.6) * feature)
    return swir, visible


def _absorbers(
    rng: np.random.Generator, shape: tuple[int, int], bands: BandSet, settings: SurfaceSettings
) -> Float32[np.ndarray, "band row col"] | None:
    """Absorbance of minerals and plant matter, each in patches of its own."""
    spectra, fields = [], []
    for name in FEATURES:
        if name in _PLASTICS or rng.uniform() >= settings.confuser_chance:
            continue
        patch = fractal(rng, shape, settings.absorber_roughness.draw(rng))[0]
        cover = np.clip(0.5 + patch / np.float32(rng.uniform(0.5, 3.0)), 0.0, 1.0)
        spectra.append(settings.confuser_strength.draw(rng) * feature_absorbance(name, bands))
        fields.append(cover)
    if not spectra:
        return None
    depth = np.stack(spectra, axis=1).astype(np.float32) @ np.stack(fields).reshape(len(fields), -1)
    return np.asarray(depth.reshape(len(bands), *shape))


def _emission(layout: Layout, bands: BandSet) -> Float32[np.ndarray, "band row col"] | None:
    """Planck's law for a flame, in µW cm-2 nm-1 sr-1, by the share of each pixel that it fills."""
    if not layout.heat.any():
        return None
    metres = bands.centres_nm * 1e-9
    planck = 1.191042972e-16 / metres**5 / np.expm1(0.01438776877 / (metres * _FLAME_K))
    return np.asarray(np.multiply.outer((planck * 1e-7).astype(np.float32), layout.heat))
