"""The filter applied: enhancement and sigma of each pixel, and the smoothed posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32
from scipy.ndimage import correlate1d

from flame.filters.errors import FilterError
from flame.filters.noise_aware.background import NoiseAwareBackground, estimate_background
from flame.filters.noise_aware.project import project
from flame.filters.noise_aware.sample import neighbour_weight
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.noise_aware.smoothing import learn_prior, smooth
from flame.physics import BandMismatchError, BandSet

__all__ = ["NoiseAwareResult", "Posterior", "apply", "noise_aware_fields", "score"]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Smoothed enhancement, shrunk towards none.

    Attributes:
        mean_ppm_m: Expected enhancement; 0 where no usable pixel is near.
        sigma_ppm_m: Its standard deviation; the prior's where nothing is known.
        prior_ppm_m: Width of the prior.
        width_px: Standard deviation of the Gaussian.
    """

    mean_ppm_m: Float32[np.ndarray, "row col"]
    sigma_ppm_m: Float32[np.ndarray, "row col"]
    prior_ppm_m: float
    width_px: float


@dataclass(frozen=True, eq=False)
class NoiseAwareResult:
    """What the filter says of each pixel.

    Attributes:
        enhancement_ppm_m: Estimate, not shrunk: noise makes it negative where there is no methane. 0 where not usable.
        sigma_ppm_m: Its standard deviation by noise and clutter; infinite where not usable.
        usable: Pixels that are valid, neither saturated nor too dark to tell.
        brightness: Light against the tile's mean spectrum; 0 where not usable.
        anomaly: How unlike the tile's ground a pixel is: about 1 for half of them, much more for a foreign material.
    """

    enhancement_ppm_m: Float32[np.ndarray, "row col"]
    sigma_ppm_m: Float32[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]
    brightness: Float32[np.ndarray, "row col"]
    anomaly: Float32[np.ndarray, "row col"]

    def smoothed(self, width_px: float) -> tuple[Float32[np.ndarray, "row col"], Float32[np.ndarray, "row col"]]:
        """Inverse-variance Gaussian mean and its sigma, raised to the spread that the tile's ground really has."""
        mean, sigma = smooth(self.enhancement_ppm_m, self.sigma_ppm_m, (width_px, width_px))
        z = (mean / sigma)[self.usable]
        if z.size:
            spread = 1.4826 * np.median(np.abs(z - np.median(z)))
            sigma = sigma * np.float32(max(1.0, float(spread)))
        return mean, sigma

    def posterior(self, width_px: float = 1.5, prior_ppm_m: float | None = None) -> Posterior:
        """Smoothed enhancement under a prior of none.

        Args:
            width_px: Standard deviation of the Gaussian.
            prior_ppm_m: Width of the prior, normal about zero; learned from the tile if None.
        """
        mean, sigma = self.smoothed(width_px)
        width = learn_prior(mean[self.usable], sigma[self.usable]) if prior_ppm_m is None else prior_ppm_m
        known = 1 / (1 + np.square(sigma / np.float32(width)))
        spread = np.float32(width) * np.sqrt(1 - known)
        return Posterior(mean * known, spread, width, width_px)


def apply(
    background: NoiseAwareBackground,
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
) -> NoiseAwareResult:
    """Enhancement and sigma of each pixel against a known background.

    Raises:
        BandMismatchError: If the bands are not those of the background.
        FilterError: If a valid pixel holds no radiance.
    """
    if bands != background.bands:
        raise BandMismatchError(background.bands, bands)
    seen = project(background, radiance, valid)
    if not np.isfinite(seen.brightness).all():
        raise FilterError("valid pixels hold NaN, infinite or absurdly large radiance; mark them invalid")
    usable = valid & background.scale.usable(seen.brightness)
    estimate = seen.estimate
    if background.neighbour.any():
        weight = neighbour_weight(seen.brightness, usable)
        total = _ring(weight)
        told = _ring(weight * seen.neighbour) / np.where(total > 0, total, np.float32(1))
        estimate = estimate + seen.gain * told
    odd = np.maximum(seen.anomaly[0] + estimate * (seen.anomaly[1] + estimate * seen.anomaly[2]), 0)
    least, rise = (np.float32(c) for c in background.anomaly.widening)
    enhancement, slope = background.saturation.invert(estimate)
    sigma = seen.sigma * slope * np.sqrt(least + rise * np.maximum(odd - 1, 0))
    return NoiseAwareResult(
        np.where(usable, enhancement, np.float32(0)),
        np.where(usable, sigma, np.float32(np.inf)),
        usable,
        np.where(usable, seen.brightness, np.float32(0)),
        np.where(usable, odd, np.float32(0)),
    )


def _ring(layer: Float32[np.ndarray, "row col"]) -> Float32[np.ndarray, "row col"]:
    """Weighted sum over the eight neighbours, `ring_kernel`; nothing lies beyond the edges."""
    taps = np.array([1, 2, 1], dtype=np.float32)
    around = correlate1d(correlate1d(layer, taps, axis=0, mode="constant"), taps, axis=1, mode="constant")
    return np.asarray((around - 4 * layer) / np.float32(12))


def noise_aware_fields(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: NoiseAwareSettings | None = None,
) -> NoiseAwareResult:
    """Enhancement and its standard deviation for each pixel, by eq:log_mf_estimator with the pixel's own covariance.

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Defaults if None.

    Raises:
        FilterError: If there is nothing to learn from; the message says why.
    """
    return apply(estimate_background(radiance, bands, valid, settings), radiance, bands, valid)


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: NoiseAwareSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """Enhancement in ppm m, not shrunk and not smoothed; 0 where invalid, saturated or too dark to tell.

    Arguments as in `noise_aware_fields`, which returns the standard deviation too.
    """
    return noise_aware_fields(radiance, bands, valid, settings).enhancement_ppm_m
