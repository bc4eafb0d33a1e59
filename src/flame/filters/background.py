"""Background statistics of an image: mean, covariance, and what to do when they are poor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

from flame.filters.errors import FilterError
from flame.filters.pixels import Block, Pixels
from flame.filters.whitening import Whitening, leave_one_out_shrinkage, whitening

__all__ = [
    "PIXELS_PER_BAND",
    "Background",
    "BackgroundSettings",
    "Usable",
    "estimate",
    "usable_pixels",
]

PIXELS_PER_BAND = 5
"""With fewer pixels than this a band, the noise of the covariance costs the filter a fifth of its signal-to-noise ratio
or more (Reed, Mallett and Brennan 1974), so it is shrunk."""

_FLOAT64_PIXELS = 1024
_PRODUCTS_ON_ONE_THREAD = 380_000
"""Above this BLAS wakes a second thread, which gains nothing on products so thin and loses much where it must wait."""


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
    pixels: Pixels,
    centre: Float64[np.ndarray, " band"],
    shrinkage: float | None = None,
    prepare: Callable[[Float32[np.ndarray, "band pixel"]], Float32[np.ndarray, "band pixel"]] | None = None,
) -> Background:
    """Mean and covariance in one pass and in float64: noise is a millionth of the variance, float32 would lose it.

    Args:
        pixels: The pixels to look at.
        centre: Any spectrum near the mean; it keeps the products from cancelling.
        shrinkage: As in `BackgroundSettings`.
        prepare: Takes the logarithm of spectra, if that is what to look at.

    Raises:
        FilterError: If no band varies.
    """
    centre32 = centre.astype(np.float32)

    def spectra(block: Block) -> Float32[np.ndarray, "band pixel"]:
        return block.spectra if prepare is None else prepare(block.spectra)

    sums = pixels.map(lambda block: _centred_sums(spectra(block), centre32))
    count = pixels.count
    shift = sum(total for total, _ in sums) / count
    mean = centre32 + shift
    covariance = sum(products for _, products in sums) / count - np.outer(shift, shift)
    resolution = 1e-7 * (np.abs(mean) if prepare is None else np.ones_like(mean))
    if not (np.diagonal(covariance) > np.square(resolution)).any():
        raise FilterError(f"no band varies over the {count} usable pixels: there is no background to tell a plume from")
    if shrinkage is None:
        few = count < PIXELS_PER_BAND * mean.size
        shrinkage = leave_one_out_shrinkage(np.concatenate(pixels.map(spectra), axis=1)) if few else 0.0
    return Background(mean, covariance, shrinkage)


def _centred_sums(
    spectra: Float32[np.ndarray, "band pixel"], centre: Float32[np.ndarray, " band"]
) -> tuple[Float64[np.ndarray, " band"], Float64[np.ndarray, "band band"]]:
    """Sum of the centred spectra and of their outer products, in float64."""
    bands, pixels = spectra.shape
    total, products = np.zeros(bands), np.zeros((bands, bands))
    step = max(16, _PRODUCTS_ON_ONE_THREAD // (bands * (bands + 1)))
    for first in range(0, pixels, _FLOAT64_PIXELS):
        centred = (spectra[:, first : first + _FLOAT64_PIXELS] - centre[:, None]).astype(np.float64)
        total += centred.sum(axis=1)
        for start in range(0, centred.shape[1], step):
            part = centred[:, start : start + step]
            products += part @ part.T
    return total, products


@dataclass(frozen=True, eq=False)
class Usable:
    """The pixels of an image that are neither invalid nor saturated.

    Attributes:
        pixels: The pixels.
        mean: Their mean spectrum, to float32 precision.
        albedo: The albedo factor `x . mean / (mean . mean)` of each.
    """

    pixels: Pixels
    mean: Float64[np.ndarray, " band"]
    albedo: Float32[np.ndarray, " pixel"]

    def background(self, shrinkage: float | None) -> Background:
        """Mean and covariance of their radiance."""
        return estimate(self.pixels, self.mean, shrinkage)


def usable_pixels(pixels: Pixels, settings: BackgroundSettings) -> Usable:
    """Set saturated and broken pixels aside.

    Raises:
        FilterError: If the mean spectrum is dark or not finite, or pixels scatter about zero.
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
            return Usable(pixels, mean, albedo)
        # The mean of all albedo factors is 1: many can be so large only if others are as far below zero.
        if np.count_nonzero(too_bright) * settings.max_albedo > 2 * pixels.count:
            raise FilterError("the pixels scatter about zero: this is not radiance, or nothing was lit")
        pixels = pixels.restricted(pixels.usable & ~too_bright)
