"""Background statistics of an image: mean, covariance, and what to do when they are poor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

from flame.filters.errors import FilterError
from flame.filters.pixels import Pixels
from flame.filters.whitening import Whitening, leave_one_out_shrinkage, whitening

__all__ = [
    "PIXELS_PER_BAND",
    "Background",
    "BackgroundSettings",
    "estimate",
    "estimate_radiance",
    "usable_pixels",
]

PIXELS_PER_BAND = 5
"""With fewer pixels than this a band, the noise of the covariance costs the filter a fifth of its signal-to-noise ratio
or more (Reed, Mallett and Brennan 1974), so it is shrunk."""


@dataclass(frozen=True)
class BackgroundSettings:
    """How the background is estimated. The defaults change nothing on a healthy image.

    Attributes:
        shrinkage: Weight of the covariance's diagonal against the whole, 0 to 1, as MAG1C's `alpha`. None: 0, but
            chosen by leave-one-out likelihood when there are fewer than `PIXELS_PER_BAND` pixels a band.
        min_albedo: Pixels darker than this share of the mean spectrum hold too little light to divide by.
        max_albedo: Pixels brighter than this many mean spectra are saturated or broken: they stay out of the
            statistics and score 0.
    """

    shrinkage: float | None = None
    min_albedo: float = 0.01
    max_albedo: float = 100.0

    def __post_init__(self) -> None:
        if self.shrinkage is not None and not 0 <= self.shrinkage <= 1:
            raise FilterError(f"shrinkage must lie in 0 to 1, got {self.shrinkage}")
        if not 0 < self.min_albedo < 1 < self.max_albedo:
            raise FilterError(f"expected 0 < min_albedo < 1 < max_albedo, got {self.min_albedo} and {self.max_albedo}")


@dataclass(frozen=True, eq=False)
class Background:
    """Mean and covariance of the background.

    Attributes:
        mean: Mean spectrum.
        covariance: Covariance, divided by the number of pixels.
        shrinkage: Weight of the diagonal to be used when it is inverted.
    """

    mean: Float64[np.ndarray, " band"]
    covariance: Float64[np.ndarray, "band band"]
    shrinkage: float

    def whitening(self) -> Whitening:
        """The inverse covariance, ready to be applied."""
        return whitening(self.covariance, self.shrinkage)


def estimate(
    blocks: Callable[[], Iterable[Float32[np.ndarray, "band pixel"]]], shrinkage: float | None = None
) -> Background:
    """Mean and covariance in one pass and in float64: noise is a millionth of the variance, float32 would lose it.

    Args:
        blocks: Gives the pixels as blocks of (band, pixel), anew each time it is called.
        shrinkage: As in `BackgroundSettings`.

    Raises:
        FilterError: If no band varies.
    """
    total: Float64[np.ndarray, " band"] | None = None
    for block in blocks():
        spectra = block.astype(np.float64)
        if total is None:
            # Any spectrum near the mean will do: it keeps the products from cancelling later.
            centre = spectra.mean(axis=1)
            total, products, count = np.zeros_like(centre), np.zeros((centre.size, centre.size)), 0
        spectra -= centre[:, None]
        total += spectra.sum(axis=1)
        products += spectra @ spectra.T
        count += spectra.shape[1]
    if total is None:
        raise FilterError("no usable pixel is left")
    shift = total / count
    mean = centre + shift
    covariance = products / count - np.outer(shift, shift)
    if not (np.diagonal(covariance) > np.square(1e-7 * mean)).any():
        raise FilterError(f"no band varies over the {count} usable pixels: there is no background to tell a plume from")
    if shrinkage is None:
        few = count < PIXELS_PER_BAND * mean.size
        shrinkage = leave_one_out_shrinkage(np.concatenate(list(blocks()), axis=1)) if few else 0.0
    return Background(mean, covariance, shrinkage)


def estimate_radiance(pixels: Pixels, settings: BackgroundSettings) -> Background:
    """The background of these pixels' radiance."""
    return estimate(lambda: (block.spectra for block in pixels.blocks()), settings.shrinkage)


def usable_pixels(pixels: Pixels, settings: BackgroundSettings) -> tuple[Pixels, Float32[np.ndarray, " pixel"]]:
    """The pixels that are not saturated or broken, and the albedo factor `x . mean / (mean . mean)` of each.

    Raises:
        FilterError: If the mean spectrum is dark or not finite.
    """
    while True:
        mean = pixels.mean()
        if not np.isfinite(mean).all():
            raise FilterError("valid pixels hold NaN, infinite or absurdly large radiance; mark them invalid")
        if mean.sum() <= 0:
            raise FilterError("the mean radiance is not above zero: this is not radiance, or nothing was lit")
        albedo = pixels.project(mean / (mean @ mean))
        too_bright = albedo > settings.max_albedo
        if not too_bright.any():
            return pixels, albedo
        pixels = pixels.restricted(pixels.usable & ~too_bright)
