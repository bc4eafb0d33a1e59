"""Background statistics of an image: mean, covariance, and what to do when they are poor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

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
    "usable_background",
    "usable_pixels",
]

PIXELS_PER_BAND = 5
"""With fewer pixels than this a band, the noise of the covariance costs the filter a fifth of its signal-to-noise ratio
or more (Reed, Mallett and Brennan 1974), so it is shrunk."""

_FEW = 4096
_SAMPLE = 1024
_STACKED = 16
_PRODUCTS_ON_ONE_THREAD = 340_000
"""Above this BLAS wakes a second thread, which gains nothing on products so thin and loses much where it must wait."""

Preparation: TypeAlias = Callable[[Float32[np.ndarray, "band pixel"]], Float32[np.ndarray, "band pixel"]]


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


def estimate(pixels: Pixels, shrinkage: float | None = None, prepare: Preparation | None = None) -> Background:
    """Mean and covariance, in one pass over the pixels.

    Noise is a millionth of the variance, which float32 would lose, and float64 takes half as long again. So a sample
    tells how to turn the axes until brightness and noise lie along different ones, and float32 loses nothing there.

    Args:
        pixels: The pixels to look at.
        shrinkage: As in `BackgroundSettings`.
        prepare: Takes the logarithm of spectra, if that is what to look at.

    Raises:
        FilterError: If no band varies.
    """
    count = pixels.count
    sample = pixels.sample(count if count <= _FEW else _SAMPLE)
    spectra = sample.spectra if prepare is None else prepare(sample.spectra)
    mean = spectra.mean(axis=1, dtype=np.float64)
    centred = spectra - mean[:, None]
    thin = np.array_split(centred, 1 + centred.size * mean.size // _PRODUCTS_ON_ONE_THREAD, axis=1)
    covariance = sum((part @ part.T for part in thin), np.zeros((mean.size, mean.size))) / sample.count
    if sample.count < count:
        axes = np.linalg.qr(covariance @ covariance)[0]  # near enough to the eigenvectors, and quicker
        mean, covariance = _moments(pixels, mean.astype(np.float32), axes.astype(np.float32), prepare)
    if not np.isfinite(mean).all():
        raise FilterError("valid pixels hold NaN, infinite or absurdly large radiance; mark them invalid")
    resolution = 1e-7 * (np.abs(mean) if prepare is None else np.ones_like(mean))
    if not (np.diagonal(covariance) > np.square(resolution)).any():
        raise FilterError(f"no band varies over the {count} usable pixels: there is no background to tell a plume from")
    if shrinkage is None:
        shrinkage = leave_one_out_shrinkage(spectra) if count < PIXELS_PER_BAND * mean.size else 0.0
    return Background(mean, covariance, shrinkage)


def _moments(
    pixels: Pixels,
    origin: Float32[np.ndarray, " band"],
    axes: Float32[np.ndarray, "band band"],
    prepare: Preparation | None,
) -> tuple[Float64[np.ndarray, " band"], Float64[np.ndarray, "band band"]]:
    """Mean and covariance from sums of `z` and `z z^T`, z = axes^T (x - origin)."""
    bands = len(origin)
    step = max(16, _PRODUCTS_ON_ONE_THREAD // (bands * (bands + 1)))

    def sums(block: Block) -> Float64[np.ndarray, "band band+1"]:
        total = np.zeros((bands, bands + 1))
        count = block.spectra.shape[1]
        even = count - count % step
        for first, last in pairwise([*range(0, even, _STACKED * step), even, count]):
            spectra = block.spectra[:, first:last]
            centred = (spectra if prepare is None else prepare(spectra)) - origin[:, None]
            # Many thin products in one call: single ones would make the threads wait for the interpreter.
            stack = centred.reshape(bands, -1, min(step, max(1, last - first))).transpose(1, 2, 0)
            z = np.empty((*stack.shape[:2], bands + 1), dtype=np.float32)
            z[..., -1] = 1.0
            np.matmul(stack, axes, out=z[..., :-1])
            total += np.matmul(z[..., :-1].transpose(0, 2, 1), z).sum(axis=0)
        return total

    moments = sum(pixels.map(sums), np.zeros((bands, bands + 1))) / pixels.count
    shift, back = moments[:, -1], np.linalg.inv(axes.astype(np.float64))
    covariance = back.T @ (moments[:, :-1] - np.outer(shift, shift)) @ back
    return origin + shift @ back, (covariance + covariance.T) / 2


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


def usable_pixels(pixels: Pixels, settings: BackgroundSettings) -> Usable:
    """Set saturated and broken pixels aside.

    Raises:
        FilterError: If the mean spectrum is dark or not finite, or pixels scatter about zero.
    """
    while True:
        mean = pixels.mean()
        albedo, left = _without_saturated(pixels, mean, settings)
        if left is None:
            return Usable(pixels, mean, albedo)
        pixels = left


def usable_background(pixels: Pixels, settings: BackgroundSettings) -> tuple[Usable, Background]:
    """`usable_pixels` and their background, whose pass over the pixels gives the mean too.

    Raises:
        FilterError: As `usable_pixels` and `estimate`.
    """
    while True:
        background = estimate(pixels, settings.shrinkage)
        albedo, left = _without_saturated(pixels, background.mean, settings)
        if left is None:
            return Usable(pixels, background.mean, albedo), background
        pixels = left


def _without_saturated(
    pixels: Pixels, mean: Float64[np.ndarray, " band"], settings: BackgroundSettings
) -> tuple[Float32[np.ndarray, " pixel"], Pixels | None]:
    """Albedo factors, and the pixels that remain if some have to be set aside."""
    if not np.isfinite(mean).all():
        raise FilterError("valid pixels hold NaN, infinite or absurdly large radiance; mark them invalid")
    if mean.sum() <= 0:
        raise FilterError("the mean radiance is not above zero: this is not radiance, or nothing was lit")
    albedo = pixels.project(mean / (mean @ mean))
    too_bright = albedo > settings.max_albedo
    if not too_bright.any():
        return albedo, None
    # The mean of all albedo factors is 1: many can be so large only if others are as far below zero.
    if np.count_nonzero(too_bright) * settings.max_albedo > 2 * pixels.count:
        raise FilterError("the pixels scatter about zero: this is not radiance, or nothing was lit")
    return albedo, pixels.restricted(pixels.usable & ~too_bright)
