"""The matched filter (MF)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters.background import usable_background
from flame.filters.pixels import pixels_of
from flame.filters.target import LinearSettings, target_spectrum
from flame.physics import BandSet

__all__ = ["score"]


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: LinearSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """Eq:mf_estimate of the paper, `(x - mean)^T C^-1 t / (t^T C^-1 t)`.

    Manolakis and Shaw, "Detection algorithms for hyperspectral imaging applications", IEEE Signal Processing Magazine
    19 (2002); Thompson et al., "Real-time remote detection and measurement for airborne imaging spectroscopy: a case
    study with methane", Atmospheric Measurement Techniques 8 (2015).

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
    target = target_spectrum(settings.target, background, bands, centred=True)
    weight = background.whitening().solve(target)
    weight /= target @ weight
    return pixels.as_image(pixels.project(weight, offset=float(background.mean @ weight)))
