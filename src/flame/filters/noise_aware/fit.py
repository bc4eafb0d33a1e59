"""From the moments of a sample to clutter, noise law and the weights at each brightness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float32, Float64

from flame.filters.background import PIXELS_PER_BAND
from flame.filters.errors import FilterError
from flame.filters.noise_aware.levels import Levels
from flame.filters.noise_aware.moments import BinnedSample, Moments
from flame.filters.noise_aware.noise_law import NoiseLaw, fit_law, implied_noise, measure_noise, with_least_noise
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.whitening import leave_one_out_shrinkage

__all__ = ["LEAST_BINS", "NO_INVERSE", "Fit", "Ground", "at_noise", "fit_filter", "level_logs"]

NO_INVERSE = "the covariance of this image has no inverse; was noise removed from it, or bands made of others?"
LEAST_BINS = 4
"""A noise law has three terms; it takes a bin more to see whether they fit."""

_ENDS = (0.002, 0.998)
_MOST_TAKEN = 0.7
_NEXT_TO_NOTHING = 1e-6
_NEXT_TO_NONE = 1e-9
_LEVEL_PIXELS = 400
_LEAST_LEVEL_PIXELS = 30
_LEAST_SPREAD = 0.3
_RIDGE = 0.05
_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class Ground:
    """A filter in the live bands of a sample.

    Attributes:
        law: Noise law.
        levels: Weights at each brightness.
        neighbour, neighbour_mean: Weights of the neighbours' spectra and their mean response.
        mean, covariance, mean_noise: Mean spectrum, its covariance, and the noise in that.
    """

    law: NoiseLaw
    levels: Levels
    neighbour: Float64[np.ndarray, " band"]
    neighbour_mean: float
    mean: Float64[np.ndarray, " band"]
    covariance: Float64[np.ndarray, "band band"]
    mean_noise: Float64[np.ndarray, " band"]


@dataclass(frozen=True, eq=False)
class Fit(Ground):
    """The filter of one pass, and what it says of the sample's pixels.

    Attributes:
        estimate_ppm_m, sigma_ppm_m: Linear estimate of each pixel.
    """

    estimate_ppm_m: Float32[np.ndarray, " pixel"]
    sigma_ppm_m: Float32[np.ndarray, " pixel"]


def at_noise(
    covariance: Float64[np.ndarray, "band band"],
    mean_noise: Float64[np.ndarray, " noisy"],
    noise: Float64[np.ndarray, "level noisy"],
    law: NoiseLaw,
) -> Float64[np.ndarray, "level band band"]:
    """The covariance of a sample with its mean noise exchanged for the noise of each level.

    No more is taken away than leaves every direction a part of its variance: chance makes some directions of a sample
    seem less noisy than they are. Bands of doubtful noise have none to take away and are given it first.

    Args:
        covariance: Covariance of the sample, in the bands and in what else was observed.
        mean_noise: Mean variance by noise of each band.
        noise: The same at each level.
        law: The noise law.
    """
    each = np.repeat(covariance[None], len(noise), axis=0)
    if not mean_noise.any():
        return each
    band = np.arange(len(mean_noise))
    added = np.zeros_like(mean_noise) if law.doubtful is None else np.where(law.doubtful, mean_noise, 0.0)
    rest = covariance[len(band) :, : len(band)]
    seen = covariance[: len(band), : len(band)] + np.diag(added)
    if len(rest):
        seen = seen - rest.T @ np.linalg.solve(covariance[len(band) :, len(band) :], rest)
    # A band in which the fit saw no noise has none to take away: next to nothing stands for it in the ratio.
    unit = np.sqrt(np.maximum(mean_noise, _NEXT_TO_NOTHING * np.median(mean_noise[mean_noise > 0])))
    change = np.maximum(noise - mean_noise, -_MOST_TAKEN * _bearable(seen / np.outer(unit, unit)) * mean_noise)
    each[:, band, band] += added + change
    return each


def _bearable(matrix: Float64[np.ndarray, "n n"]) -> float:
    """Its least eigenvalue, at most 1; less if `_MOST_TAKEN` of that could not be taken from its diagonal."""
    ratio = min(_least_eigenvalue(matrix), 1.0)
    while ratio > _NEXT_TO_NONE:
        try:
            np.linalg.cholesky(matrix - _MOST_TAKEN * ratio * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            # The iteration may begin with next to nothing of the least direction and stay above it.
            ratio *= 0.5
        else:
            break
    return ratio


def _least_eigenvalue(matrix: Float64[np.ndarray, "n n"]) -> float:
    """The least eigenvalue of a positive matrix, by inverse iteration; a little more than it at worst."""
    inverse = np.linalg.inv(matrix)
    vector = inverse[:, np.argmax(np.diagonal(inverse))]
    for _ in range(_ROUNDS):
        vector = inverse @ (vector / np.linalg.norm(vector))
    return 1.0 / float(np.linalg.norm(vector))


def _neighbour_direction(
    covariance: Float64[np.ndarray, "both both"],
    spectrum: Float64[np.ndarray, " band"],
    ridge: Float64[np.ndarray, " both"],
) -> Float64[np.ndarray, " band"]:
    """Weights of the neighbours' spectra in the best estimate from a pixel and its neighbours together.

    The estimate has response 1 to methane in the pixel and none to methane in its neighbours: what they tell is the
    ground alone, so a plume wider than the neighbourhood is not taken for ground.

    Args:
        covariance: Of a pixel's spectrum and, behind it, its neighbours'.
        spectrum: Change of log-radiance by 1 ppm m.
        ridge: Variance added, against directions without noise, where any target has boundless contrast.
    """
    bands = len(spectrum)
    own, cross, around = covariance[:bands, :bands], covariance[:bands, bands:], covariance[bands:, bands:]
    # By blocks: the whole is so large that BLAS would wake its threads, which costs more than it gains.
    solved = np.linalg.solve(own + np.diag(ridge[:bands]), np.column_stack([cross, spectrum]))
    regression, plain = solved[:, :-1], solved[:, -1]
    left = around + np.diag(ridge[bands:]) - cross.T @ regression
    told, blind = np.linalg.solve(left, np.column_stack([-regression.T @ spectrum, spectrum])).T
    # Of C^-1 (s, 0) and C^-1 (0, s) the combination with responses 1 and 0.
    response = np.array([[spectrum @ (plain - regression @ told), spectrum @ told], [0.0, spectrum @ blind]])
    response[1, 0] = response[0, 1]
    first, second = np.linalg.solve(response, [1.0, 0.0])
    direction = first * told + second * blind
    return np.asarray(direction - spectrum * (spectrum @ direction) / (spectrum @ spectrum))


def level_logs(brightness: Float32[np.ndarray, " pixel"], levels: int) -> tuple[float, Float64[np.ndarray, " level"]]:
    """Log-brightness of the first level and of all: from the darkest pixels to the brightest but for outliers."""
    low, high = np.log(np.quantile(brightness, _ENDS))
    return float(low), np.linspace(low, max(high, low + 0.01), levels)


def _middle(values: Float32[np.ndarray, " pixel"]) -> float:
    """The median, or the upper of two: that of NumPy takes longer to call than to compute."""
    return float(np.partition(values, values.size // 2)[values.size // 2])


def _level_statistics(
    z: Float32[np.ndarray, " pixel"], place: Float32[np.ndarray, " pixel"], levels: int
) -> tuple[Float64[np.ndarray, " level"], Float64[np.ndarray, " level"]]:
    """Median and robust spread at each level, each level lending to its neighbours; places must not decrease."""
    edges = np.searchsorted(place, np.arange(levels + 1) - 0.5)
    median, spread, count = np.zeros(levels), np.ones(levels), np.zeros(levels)
    for level, (low, high) in enumerate(pairwise(edges)):
        if high - low < _LEAST_LEVEL_PIXELS:
            continue
        here = z[low:high]
        median[level] = _middle(here)
        spread[level] = 1.4826 * _middle(np.abs(here - np.float32(median[level])))
        count[level] = min(high - low, _LEVEL_PIXELS)
    apart = np.arange(levels)[:, None] - np.arange(levels)
    lent = np.exp(-np.square(apart)) * (count + 1e-9)
    lent /= lent.sum(axis=1, keepdims=True)
    return lent @ median, np.maximum(np.sqrt(lent @ np.square(spread)), _LEAST_SPREAD)


def _ground(
    binned: BinnedSample,
    moments: Moments,
    law: NoiseLaw | None,
    given: NoiseLaw | None,
    settings: NoiseAwareSettings,
    *,
    bands: int,
    refine: bool,
) -> tuple[NoiseLaw, Float64[np.ndarray, " bin"], Float64[np.ndarray, "band band"]]:
    """Noise law, weight of each bin's pixels, and covariance of their spectra."""
    pixels = float(moments.count.sum())
    measurable = given is None and len(moments.count) >= LEAST_BINS
    measured = measure_noise(moments, bands) if measurable and (law is None or refine) else None
    if law is None:
        law = with_least_noise(fit_law(measured)) if measured else given or NoiseLaw(np.zeros(bands), np.zeros(bands))
    typical = law.read_out.mean() * moments.inverse_square + law.shot.mean() * moments.inverse
    weight = 1.0 / (0.3 + typical / np.median(typical)) if typical.any() else np.ones(len(typical))
    covariance = moments.covariance(weight)[1][:bands, :bands]
    if not (np.diagonal(covariance) > 1e-14).any():
        raise FilterError(
            f"no band varies over the {pixels:.0f} usable pixels: there is no background to tell a plume from"
        )
    if pixels < PIXELS_PER_BAND * bands:
        shrinkage = settings.background.shrinkage
        if shrinkage is None:
            spectra = binned.chunks[:, :bands].transpose(1, 0, 2).reshape(bands, -1)[:, : binned.order.size]
            shrinkage = leave_one_out_shrinkage(spectra)
        covariance = (1.0 - shrinkage) * covariance + shrinkage * np.diag(np.diagonal(covariance))
    if measured is not None and refine:
        noise = law.variance(measured.brightness).T
        each = at_noise(covariance, law.mean(moments, weight), noise, law)
        law = with_least_noise(fit_law(implied_noise(measured, noise, each)))
    return law, weight, covariance


def fit_filter(
    binned: BinnedSample,
    plume_ppm_m: Float32[np.ndarray, " pixel"],
    spectrum: Float64[np.ndarray, " band"],
    settings: NoiseAwareSettings,
    *,
    ring_noise: float,
    law: NoiseLaw | None = None,
    given: NoiseLaw | None = None,
    refine: bool,
) -> Fit:
    """One pass.

    Args:
        binned: The sample.
        plume_ppm_m: What is known of its plumes, in linear ppm m.
        spectrum: Change of log-radiance by 1 ppm m, in the sample's bands.
        settings: Settings of the filter.
        ring_noise: Variance of noise in the neighbours' mean, in units of a pixel's own.
        law: Noise law of an earlier pass.
        given: A law to use instead of measuring one.
        refine: Whether to correct a measured law for what it cannot tell from noise.
    """
    bands = len(spectrum)
    moments = binned.without(plume_ppm_m, spectrum)
    law, weight, covariance = _ground(binned, moments, law, given, settings, bands=bands, refine=refine)
    mean, joint = moments.covariance(weight)
    neighbour, neighbour_mean = np.zeros(bands), 0.0
    mean_noise = law.mean(moments, weight)
    if len(mean) > bands:
        ridge = _RIDGE * mean_noise if law.doubtful is None else np.where(law.doubtful, 1.0, _RIDGE) * mean_noise
        neighbour = _neighbour_direction(joint, spectrum, np.concatenate([ridge, ring_noise * ridge]))
        neighbour_mean = float(neighbour @ mean[bands:])
        cross = joint[:bands, bands:] @ neighbour
        power = neighbour @ joint[bands:, bands:] @ neighbour
        covariance = np.block([[covariance, cross[:, None]], [cross[None], np.array([[power]])]])
    mean = mean[:bands]

    low, logs = level_logs(binned.brightness, settings.levels)
    noise = law.variance(np.exp(logs)).T
    each = at_noise(covariance, mean_noise, noise, law)
    target = np.append(spectrum, np.zeros(len(covariance) - bands))
    solved = np.linalg.solve(each, np.repeat(target[None, :, None], settings.levels, axis=0))[..., 0]
    power = solved @ target
    if not (power > 0).all():
        raise FilterError(NO_INVERSE)
    solved /= power[:, None]
    levels = Levels(
        first_log=low,
        step_log=float(logs[1] - logs[0]),
        weight=solved[:, :bands],
        offset=solved[:, :bands] @ mean,
        neighbour_gain=solved[:, bands] if len(covariance) > bands else np.zeros(settings.levels),
        sigma_ppm_m=power**-0.5,
        log_noise=np.sqrt(np.median(noise, axis=1)),
    )
    place = levels.place(binned.brightness)
    heard = binned.heard(neighbour) - np.float32(neighbour_mean) if neighbour.any() else np.zeros_like(place)
    responses = binned.respond(levels.weight)
    estimate, sigma = _evaluate(levels, responses, place, heard)
    median, spread = _level_statistics((estimate - plume_ppm_m) / sigma, place, settings.levels)
    levels = replace(
        levels, offset=levels.offset + median * levels.sigma_ppm_m, sigma_ppm_m=levels.sigma_ppm_m * spread
    )
    ground = covariance[:bands, :bands], mean_noise
    return Fit(law, levels, neighbour, neighbour_mean, mean, *ground, *_evaluate(levels, responses, place, heard))


def _evaluate(
    levels: Levels,
    responses: Float32[np.ndarray, "level pixel"],
    place: Float32[np.ndarray, " pixel"],
    heard: Float32[np.ndarray, " pixel"],
) -> tuple[Float32[np.ndarray, " pixel"], Float32[np.ndarray, " pixel"]]:
    """Linear estimate and sigma of every pixel, interpolated between the levels."""
    below = np.minimum(place.astype(np.intp), len(responses) - 2)
    share = place - below.astype(np.float32)

    def between(low: Float32[np.ndarray, " pixel"], high: Float32[np.ndarray, " pixel"]) -> np.ndarray:
        return np.asarray(low * (1 - share) + high * share)

    pixel = np.arange(place.size)
    offset, gain, sigma = (
        between(table.astype(np.float32)[below], table.astype(np.float32)[below + 1])
        for table in (levels.offset, levels.neighbour_gain, levels.sigma_ppm_m)
    )
    return between(responses[below, pixel], responses[below + 1, pixel]) - offset + gain * heard, sigma
