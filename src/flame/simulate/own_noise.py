"""Ground that a spectrometer took: its noise is part of the ground, coarse in wavelength and white in space.

Real scenes that stand for ground in another sensor's bands carry the noise of the instrument that took them, drawn out
over the finer bands by interpolation; so do products that were resampled. A network that only knows clutter with a
shape takes such noise for strange materials, wherever the sensor itself is quiet, and believes no plume there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

from flame.physics import BandSet

__all__ = ["OwnNoiseSettings", "add_own_noise"]


@dataclass(frozen=True)
class OwnNoiseSettings:
    """How noisy the ground itself is.

    Attributes:
        chance: Chance that a tile's ground has noise of its own.
        noisiest, quietest: Signal to noise of a band of the instrument that took it, at the tile's mean radiance; drawn
            in the logarithm.
        finest_nm, coarsest_nm: Distance between the bands of that instrument.
    """

    chance: float = 0.5
    noisiest: float = 40.0
    quietest: float = 1000.0
    finest_nm: float = 8.0
    coarsest_nm: float = 12.0


def add_own_noise(
    rng: np.random.Generator,
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    settings: OwnNoiseSettings,
    normal: Callable[[tuple[int, ...]], Float32[np.ndarray, ...]],
) -> Float64[np.ndarray, " band"]:
    """Adds the noise, in place, and returns its standard deviation in each band at the tile's mean radiance.

    Part of it is the same for all pixels and part grows with the root of their light, in a share that is drawn.

    Args:
        rng: Source of randomness.
        radiance: Plume-free ground.
        bands: Its bands.
        settings: How much noise there is.
        normal: Gives standard normal values of a shape.
    """
    spread = _spread(rng, bands.centres_nm, rng.uniform(settings.finest_nm, settings.coarsest_nm))
    usual = radiance.mean(axis=(1, 2), dtype=np.float64)
    usual_there = spread.T @ usual / np.maximum(spread.sum(axis=0), 1e-6)
    ratio = np.exp(rng.uniform(np.log(settings.noisiest), np.log(settings.quietest)))
    sigma = usual_there / ratio
    light = np.maximum(radiance.mean(axis=0) / np.float32(usual.mean()), np.float32(0))
    share = np.float32(rng.uniform())
    noise = normal((spread.shape[1], *light.shape)) * np.sqrt((1 - share) + share * light)
    weights = (spread * sigma).astype(np.float32)
    radiance += (weights @ noise.reshape(len(sigma), -1)).reshape(radiance.shape)
    np.maximum(radiance, np.float32(1e-6), out=radiance)
    return np.asarray(np.sqrt(np.square(spread * sigma).sum(axis=1)))


def _spread(
    rng: np.random.Generator, centres_nm: Float64[np.ndarray, " band"], spacing_nm: float
) -> Float64[np.ndarray, "band knot"]:
    """Linear interpolation from bands a distance apart, the first of which lies anywhere before the tile's."""
    first = centres_nm[0] - spacing_nm * rng.uniform()
    knots = int(np.ceil((centres_nm[-1] - first) / spacing_nm)) + 1
    place = (centres_nm - first) / spacing_nm
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(knots))))
