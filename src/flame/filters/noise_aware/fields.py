"""The filter applied: enhancement and sigma of each pixel, and the smoothed posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32
from scipy.ndimage import correlate1d

from flame.filters.errors import FilterError
from flame.filters.noise_aware.background import NoiseAwareBackground, estimate_background
from flame.filters.noise_aware.project import Projection, project
from flame.filters.noise_aware.sample import kernels_for, neighbour_weight
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.noise_aware.smoothing import Prior, honest_factor, learn_prior, smooth
from flame.filters.pixels import threads
from flame.kernels import Kernels
from flame.physics import BandMismatchError, BandSet

__all__ = ["NoiseAwareResult", "Posterior", "apply", "finish", "layers", "noise_aware_fields", "score"]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Smoothed enhancement after a prior of none.

    Attributes:
        mean_ppm_m: Expected enhancement; 0 where no usable pixel is near.
        sigma_ppm_m: Its standard deviation.
        probability: Probability that there is methane at all; the prior's share where nothing is known.
        prior: The prior.
        width_px: Standard deviation of the Gaussian.
    """

    mean_ppm_m: Float32[np.ndarray, "row col"]
    sigma_ppm_m: Float32[np.ndarray, "row col"]
    probability: Float32[np.ndarray, "row col"]
    prior: Prior
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
        return mean, sigma * honest_factor((mean / sigma)[self.usable])

    def posterior(self, width_px: float = 1.5, prior: Prior | None = None) -> Posterior:
        """Smoothed enhancement after a prior of none.

        Args:
            width_px: Standard deviation of the Gaussian.
            prior: What to expect of a pixel; learned from the tile if None.
        """
        mean, sigma = self.smoothed(width_px)
        prior = prior or learn_prior(mean[self.usable], sigma[self.usable])
        known = np.isfinite(sigma)
        variance = np.square(np.where(known, sigma, np.float32(1)))
        width = np.float32(prior.width_ppm_m**2)
        probability = np.where(known, prior.belongs(mean, variance), np.float32(prior.share))
        shrinking = np.where(known, width / (variance + width), np.float32(0))
        shrunk = mean * shrinking
        left = np.where(known, variance * shrinking, width)
        spread = probability * (left + np.square(shrunk)) - np.square(probability * shrunk)
        return Posterior(probability * shrunk, np.sqrt(np.maximum(spread, 0)), probability, prior, width_px)


def apply(
    background: NoiseAwareBackground,
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    kernels: Kernels | None = None,
) -> NoiseAwareResult:
    """Enhancement and sigma of each pixel against a known background.

    Args:
        background: What `estimate_background` learned.
        radiance: Image, in the unit of radiance the background was learned in.
        bands: Its bands.
        valid: Which pixels to use.
        kernels: The kernels to use; those of this processor if None.

    Raises:
        BandMismatchError: If the bands are not those of the background.
        FilterError: If a valid pixel holds no radiance.
    """
    if bands != background.bands:
        raise BandMismatchError(background.bands, bands)
    kernels = kernels_for(radiance, kernels)
    return finish(background, project(background, radiance, valid, kernels), kernels)


def finish(
    background: NoiseAwareBackground,
    seen: Projection,
    kernels: Kernels | None,
    *,
    workers: int | None = None,
    out: Float32[np.ndarray, "4 row col"] | None = None,
) -> NoiseAwareResult:
    """Neighbours, anomaly and saturation: what `project` saw becomes enhancement and sigma.

    Args:
        background: What was projected on.
        seen: The projection.
        kernels: The kernels to use; NumPy if None.
        workers: Threads; as many as filters take if None.
        out: Where the kernels put enhancement, sigma, brightness and anomaly; new memory if None.

    Raises:
        FilterError: If a valid pixel held no radiance.
    """
    if not np.isfinite(seen.layers[0]).all():
        raise FilterError("valid pixels hold NaN, infinite or absurdly large radiance; mark them invalid")
    if kernels is None:
        return _finish_with_numpy(background, seen)
    shape = seen.layers.shape[1:]
    limits, curve = background.scale.limits, background.saturation.table
    widening = np.array(background.anomaly.widening, dtype=np.float32)
    out = np.empty((4, *shape), dtype=np.float32) if out is None else out
    kernels.finish_spectra(
        *(workers or threads(), *shape, seen.layers.ctypes.data, limits.ctypes.data, widening.ctypes.data),
        *(curve.ctypes.data, curve.shape[1], background.saturation.step, out.ctypes.data),
    )
    return NoiseAwareResult(out[0], out[1], np.isfinite(out[1]), out[2], out[3])


def _finish_with_numpy(background: NoiseAwareBackground, seen: Projection) -> NoiseAwareResult:
    """Neighbours, anomaly and saturation in NumPy."""
    brightness, estimate, tells, gain, sigma, *coefficients = seen.layers
    usable = background.scale.usable(brightness)
    weight = neighbour_weight(brightness, usable)
    total = _ring(weight)
    alone = total <= np.float32(1e-5) * weight
    told = np.where(alone, np.float32(0), _ring(weight * tells) / np.where(alone, np.float32(1), total))
    estimate = estimate + gain * told
    odd = np.maximum(coefficients[0] + estimate * (coefficients[1] + estimate * coefficients[2]), 0)
    least, rise = (np.float32(c) for c in background.anomaly.widening)
    enhancement, slope = background.saturation.invert(estimate)
    sigma = sigma * slope * np.sqrt(least + rise * np.maximum(odd - 1, 0))
    return NoiseAwareResult(
        np.where(usable, enhancement, np.float32(0)),
        np.where(usable, sigma, np.float32(np.inf)),
        usable,
        np.where(usable, brightness, np.float32(0)),
        np.where(usable, odd, np.float32(0)),
    )


def _ring(layer: Float32[np.ndarray, "row col"]) -> Float32[np.ndarray, "row col"]:
    """Sum over the eight neighbours, weighted as in `ring_kernel` times 12; nothing lies beyond the edges."""
    taps = np.array([1, 2, 1], dtype=np.float32)
    around = correlate1d(correlate1d(layer, taps, axis=0, mode="constant"), taps, axis=1, mode="constant")
    return np.asarray(around - 4 * layer)


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


def layers(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: NoiseAwareSettings | None = None,
) -> dict[str, Float32[np.ndarray, "row col"]]:
    """Every map of the filter in ppm m by name: enhancement, sigma, and mean and sigma of the posterior at 1.5 pixels.

    Arguments as in `noise_aware_fields`.
    """
    found = noise_aware_fields(radiance, bands, valid, settings)
    posterior = found.posterior()
    return {
        "enhancement": found.enhancement_ppm_m,
        "sigma": found.sigma_ppm_m,
        "posterior": posterior.mean_ppm_m,
        "posterior_sigma": posterior.sigma_ppm_m,
    }


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
