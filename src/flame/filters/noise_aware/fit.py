"""From the moments of a sample to clutter, noise law and the weights at each brightness."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Float64
from scipy.linalg import eigh
from scipy.optimize import nnls

from flame.filters.background import PIXELS_PER_BAND
from flame.filters.errors import FilterError
from flame.filters.noise_aware.levels import Anomaly, Levels
from flame.filters.noise_aware.moments import BinnedSample, Moments
from flame.filters.noise_aware.noise_law import NoiseLaw, fit_law, implied_noise, measure_noise, with_least_noise
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.whitening import leave_one_out_shrinkage

__all__ = ["LEAST_BINS", "Fit", "find_anomalies", "fit_filter"]

LEAST_BINS = 4
"""A noise law has three terms; it takes a bin more to see whether they fit."""

_DIRECTIONS = 8
_ENDS = (0.002, 0.998)
_LEAST_CLUTTER = 1e-3
_LEVEL_PIXELS = 400
_LEAST_LEVEL_PIXELS = 30
_LEAST_SPREAD = 0.3
_RIDGE = 0.05
_MOST_Z = 10.0
_PARTS = 24


@dataclass(frozen=True, eq=False)
class Fit:
    """A filter in the live bands of a sample, and what it says of the sample's pixels.

    Attributes:
        law: Noise law.
        levels: Weights at each brightness.
        neighbour, neighbour_mean: Weights of the neighbours' spectra and their mean response.
        mean, clutter: Mean spectrum and covariance of the ground.
        estimate_ppm_m, sigma_ppm_m: Linear estimate of each pixel.
    """

    law: NoiseLaw
    levels: Levels
    neighbour: Float64[np.ndarray, " band"]
    neighbour_mean: float
    mean: Float64[np.ndarray, " band"]
    clutter: Float64[np.ndarray, "band band"]
    estimate_ppm_m: Float32[np.ndarray, " pixel"]
    sigma_ppm_m: Float32[np.ndarray, " pixel"]


def _clutter(
    covariance: Float64[np.ndarray, "band band"], noise: Float64[np.ndarray, " band"]
) -> Float64[np.ndarray, "band band"]:
    """Covariance less noise, without the eigenvalues that are not larger than chance makes them.

    In units of the noise, chance scatters eigenvalues about zero to both sides alike, so the most negative one tells
    how far; those beyond are cleared of chance.
    """
    scale = np.sqrt(np.maximum(noise, 1e-6 * np.diagonal(covariance)))
    values, vectors = eigh((covariance - np.diag(noise)) / np.outer(scale, scale), check_finite=False)
    chance = max(-values[0], 0.0)
    values = np.sqrt(np.maximum(np.square(values) - chance**2, 0.0)) * (values > chance)
    vectors = vectors * scale[:, None]
    return np.asarray((vectors * np.maximum(values, _LEAST_CLUTTER)) @ vectors.T)


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
    constraints = np.zeros((2 * bands, 2))
    constraints[:bands, 0] = constraints[bands:, 1] = spectrum
    solved = np.linalg.solve(covariance + np.diag(ridge), constraints)
    direction = (solved @ np.linalg.inv(constraints.T @ solved)[:, 0])[bands:]
    return np.asarray(direction - spectrum * (spectrum @ direction) / (spectrum @ spectrum))


def _level_statistics(
    z: Float32[np.ndarray, " pixel"], place: Float32[np.ndarray, " pixel"], levels: int
) -> tuple[Float64[np.ndarray, " level"], Float64[np.ndarray, " level"]]:
    """Median and robust spread at each level, each level lending to its neighbours."""
    nearest = np.rint(place).astype(np.intp)
    median, spread, count = np.zeros(levels), np.ones(levels), np.zeros(levels)
    for level in range(levels):
        here = z[nearest == level]
        if here.size < _LEAST_LEVEL_PIXELS:
            continue
        median[level] = np.median(here)
        spread[level] = 1.4826 * np.median(np.abs(here - median[level]))
        count[level] = min(here.size, _LEVEL_PIXELS)
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
        clutter = _clutter(covariance, law.mean(moments, weight))
        law = with_least_noise(fit_law(implied_noise(measured, law, clutter)))
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
    law, weight, extended = _ground(binned, moments, law, given, settings, bands=bands, refine=refine)
    mean, joint = moments.covariance(weight)
    neighbour, neighbour_mean = np.zeros(bands), 0.0
    noise = law.mean(moments, weight)
    if len(mean) > bands:
        ridge = np.where(law.doubtful, noise, _RIDGE * noise) if law.doubtful is not None else _RIDGE * noise
        neighbour = _neighbour_direction(joint, spectrum, np.concatenate([ridge, ring_noise * ridge]))
        neighbour_mean = float(neighbour @ mean[bands:])
        cross = joint[:bands, bands:] @ neighbour
        power = neighbour @ joint[bands:, bands:] @ neighbour
        extended = np.block([[extended, cross[:, None]], [cross[None], np.array([[power]])]])
        noise = np.append(noise, 0.0)
    mean, extended = mean[:bands], _clutter(extended, noise)

    low, high = np.log(np.quantile(binned.brightness, _ENDS))
    logs = np.linspace(low, max(high, low + 0.01), settings.levels)
    noise = law.variance(np.exp(logs)).T
    covariance = np.repeat(extended[None], settings.levels, axis=0)
    covariance[:, np.arange(bands), np.arange(bands)] += noise
    target = np.append(spectrum, np.zeros(len(extended) - bands))
    solved = np.linalg.solve(covariance, np.repeat(target[None, :, None], settings.levels, axis=0))[..., 0]
    power = solved @ target
    if not (power > 0).all():
        raise FilterError("methane absorbs in none of the bands that vary; give bands between 2122 and 2488 nm")
    solved /= power[:, None]
    levels = Levels(
        first_log=float(low),
        step_log=float(logs[1] - logs[0]),
        weight=solved[:, :bands],
        offset=solved[:, :bands] @ mean,
        neighbour_gain=solved[:, bands] if len(extended) > bands else np.zeros(settings.levels),
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
    clutter = extended[:bands, :bands]
    return Fit(law, levels, neighbour, neighbour_mean, mean, clutter, *_evaluate(levels, responses, place, heard))


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


def find_anomalies(
    binned: BinnedSample,
    fit: Fit,
    spectrum: Float64[np.ndarray, " band"],
    plume_ppm_m: Float32[np.ndarray, " pixel"],
) -> Anomaly:
    """Directions of most clutter over noise, and how the spread of the estimate grows with the distance along them."""
    scale = np.sqrt(np.maximum(fit.law.read_out + fit.law.shot, 1e-6 * np.diagonal(fit.clutter)))
    values, vectors = eigh(fit.clutter / np.outer(scale, scale), check_finite=False)
    direction = (vectors[:, ::-1][:, :_DIRECTIONS] / scale[:, None]).T
    anomaly = Anomaly(
        direction=direction,
        mean=direction @ fit.mean,
        methane=direction @ spectrum,
        clutter=values[::-1][:_DIRECTIONS],
        read_out=np.square(direction) @ fit.law.read_out,
        shot=np.square(direction) @ fit.law.shot,
        typical=1.0,
        widening=(1.0, 0.0),
    )
    if binned.order.size < _PARTS * 4:
        return anomaly
    inverse = 1.0 / binned.brightness.astype(np.float64)
    along = binned.respond(direction) - anomaly.mean[:, None] - np.outer(anomaly.methane, fit.estimate_ppm_m)
    expected = anomaly.clutter[:, None] + np.outer(anomaly.read_out, inverse**2) + np.outer(anomaly.shot, inverse)
    distance = np.mean(np.square(along) / expected, axis=0)
    typical = float(np.median(distance))
    excess = np.maximum(distance / typical - 1.0, 0.0)
    z = (fit.estimate_ppm_m - plume_ppm_m) / fit.sigma_ppm_m
    squares = np.minimum(np.square(z), _MOST_Z**2)
    parts = np.array_split(np.argsort(excess, kind="stable"), _PARTS)
    x = np.array([excess[part].mean() for part in parts])
    y = np.array([squares[part].mean() for part in parts])
    # Relative errors alike, so that the few outlying pixels count as much as the many others.
    found, _ = nnls(np.stack([np.ones_like(x), x], axis=1) / y[:, None], np.ones_like(y))
    return replace(anomaly, typical=typical, widening=(float(max(found[0], 0.5)), float(found[1])))
