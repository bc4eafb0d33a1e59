"""Real ground with other spectra: what is special of each pixel's spectrum, stretched and moved along wavelength.

There are few real scenes to learn from, and a network that sees the same few materials again and again learns them by
heart. The scene's mean spectrum, which holds the atmosphere, and every pixel's brightness stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64

from flame.physics import BandSet

__all__ = ["RespectralSettings", "respectral"]

_LEAST = np.float32(1e-6)


@dataclass(frozen=True)
class RespectralSettings:
    """How much spectra are changed.

    Attributes:
        chance: Chance that a tile is changed at all.
        most_stretch: Largest standard deviation of the factor by which a spectrum's own features grow or shrink.
        least_reach_nm, most_reach_nm: Distance over which that factor changes; drawn in the logarithm.
        most_shift_nm: How far features move, either way.
    """

    chance: float = 0.6
    most_stretch: float = 0.6
    least_reach_nm: float = 30.0
    most_reach_nm: float = 150.0
    most_shift_nm: float = 15.0


def respectral(
    rng: np.random.Generator,
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: RespectralSettings,
) -> Float32[np.ndarray, "band row col"]:
    """The ground with other materials.

    Args:
        rng: Source of randomness.
        radiance: Plume-free ground without noise.
        bands: Its bands.
        valid: Pixels whose mean is the scene's.
        settings: How much it is changed.
    """
    if not valid.any():
        return radiance
    logs = np.log(np.maximum(radiance, _LEAST))
    usual = logs[:, valid].mean(axis=1)[:, None, None]
    bright = (logs - usual).mean(axis=0)
    own = (logs - usual - bright).reshape(len(bands), -1)
    change = _change(rng, bands.centres_nm, settings).astype(np.float32)
    return np.asarray(np.exp(usual + bright + (change @ own).reshape(logs.shape)), dtype=np.float32)


def _change(
    rng: np.random.Generator, centres_nm: Float64[np.ndarray, " band"], settings: RespectralSettings
) -> Float64[np.ndarray, "band band"]:
    """The matrix that moves a spectrum's features by linear interpolation and stretches them by a smooth factor."""
    reach = float(np.exp(rng.uniform(np.log(settings.least_reach_nm), np.log(settings.most_reach_nm))))
    knots = np.arange(centres_nm[0] - reach, centres_nm[-1] + 2 * reach, reach)
    stretch, shift_nm = rng.uniform(0.0, settings.most_stretch), settings.most_shift_nm * rng.uniform(-1.0, 1.0)
    factor = 1.0 + stretch * np.interp(centres_nm, knots, rng.standard_normal(knots.size))
    place = np.interp(centres_nm + shift_nm, centres_nm, np.arange(float(centres_nm.size)))
    left = np.minimum(place.astype(int), centres_nm.size - 2)
    moved = np.zeros((centres_nm.size, centres_nm.size))
    rows = np.arange(centres_nm.size)
    moved[rows, left] = 1.0 - (place - left)
    moved[rows, left + 1] = place - left
    return np.asarray(factor[:, None] * moved)
