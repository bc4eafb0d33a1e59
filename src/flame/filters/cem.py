"""Constrained energy minimisation (CEM)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters.background import usable_background
from flame.filters.pixels import pixels_of
from flame.filters.target import LinearSettings, target_spectrum
from flame.filters.whitening import whitening
from flame.physics import BandSet

__all__ = ["score"]


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: LinearSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """The filter of least output energy among those that answer 1 to the target, `x^T R^-1 t / (t^T R^-1 t)`.

    R is the correlation matrix: the mean is not removed. Farrand and Harsanyi, "Mapping the distribution of mine
    tailings in the Coeur d'Alene River Valley, Idaho, through the use of a constrained energy minimization technique",
    Remote Sensing of Environment 59 (1997).

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Target and background; defaults if None.

    Returns:
        Statistic; with the `multiplicative` target a score of 1 is 100,000 ppm m. 0 where invalid.
    """
    settings = settings or LinearSettings()
    usable, background = usable_background(pixels_of(radiance, bands, valid), settings.background)
    pixels = usable.pixels
    target = target_spectrum(settings.target, background, bands, centred=False)
    correlation = background.covariance + np.outer(background.mean, background.mean)
    weight = whitening(correlation, background.shrinkage).solve(target)
    return pixels.as_image(pixels.project(weight / (target @ weight)))
