"""What the ground of a tile looks like: clutter, noise law, and the filter's weights at each brightness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import nnls

from flame.filters.background import PIXELS_PER_BAND
from flame.filters.errors import FilterError
from flame.filters.noise_aware.noise_law import (
    NoiseLaw,
    fit_law,
    implied_noise,
    law_of_sensor,
    measure_noise,
    with_least_noise,
)
from flame.filters.noise_aware.sample import RowSample, Scale, draw_sample
from flame.filters.noise_aware.saturation import Saturation, saturation_of
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.noise_aware.smoothing import smooth
from flame.filters.pixels import pixels_of
from flame.filters.whitening import leave_one_out_shrinkage
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption

__all__ = ["Anomaly", "Levels", "NoiseAwareBackground", "estimate_background"]

_LEAST_BINS = 4
_DIRECTIONS = 8
_ENDS = (0.002, 0.998)
_LEAST_CLUTTER = 1e-3
_PLUME_PRIOR_PPM_M = 2000.0
_TOO_STRONG_PPM_M = 6000.0
_LEVEL_PIXELS = 400
_RIDGE = 0.2
_MOST_Z = 10.0


@dataclass(frozen=True, eq=False)
class Levels:
    """The filter at brightness levels that are evenly spaced in the logarithm.

    Attributes:
        first_log, step_log: Log-brightness of the first level, and from one to the next.
        weight: Weights of log-radiance, each level: `C^-1 s / (s^T C^-1 s)`, in ppm m.
        offset: What to subtract, in ppm m: the response of the mean spectrum and the level's own median.
        neighbour_gain: Factor on what the neighbours say, in ppm m.
        sigma_ppm_m: Standard deviation of the estimate over plume-free ground.
        log_noise: Noise of log-radiance in the middle band.
    """

    first_log: float
    step_log: float
    weight: Float64[np.ndarray, "level band"]
    offset: Float64[np.ndarray, " level"]
    neighbour_gain: Float64[np.ndarray, " level"]
    sigma_ppm_m: Float64[np.ndarray, " level"]
    log_noise: Float64[np.ndarray, " level"]

    def place(self, brightness: Float32[np.ndarray, ...]) -> Float32[np.ndarray, ...]:
        """Where a brightness lies between the levels: 0 at the first, held at both ends."""
        place = (np.log(brightness) - np.float32(self.first_log)) / np.float32(self.step_log)
        return np.asarray(np.clip(place, 0, len(self.offset) - 1), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Anomaly:
    """How unlike the tile's ground a pixel is, along the directions in which the ground varies most.

    Where it is large the clutter is not what the covariance says, and the estimate's sigma grows, as it does under an
    elliptically contoured distribution: Theiler and Foy, "EC-GLRT: detecting weak plumes in non-Gaussian hyperspectral
    clutter using an elliptically-contoured generalized likelihood ratio test", IGARSS (2008).

    Attributes:
        direction: Weights of log-radiance.
        mean: What the mean spectrum has along them.
        methane: What 1 ppm m of methane changes along them.
        clutter, read_out, shot: Variance along them by ground and, at brightness r, by noise: `/ r^2` and `/ r`.
        typical: Median of the mean square over its expectation.
        widening: (c0, c1): variance of the estimate is multiplied by `c0 + c1 max(anomaly - 1, 0)`.
    """

    direction: Float64[np.ndarray, "direction band"]
    mean: Float64[np.ndarray, " direction"]
    methane: Float64[np.ndarray, " direction"]
    clutter: Float64[np.ndarray, " direction"]
    read_out: Float64[np.ndarray, " direction"]
    shot: Float64[np.ndarray, " direction"]
    typical: float
    widening: tuple[float, float]


@dataclass(frozen=True, eq=False)
class NoiseAwareBackground:
    """Everything the filter needs to know of a tile; `apply` uses it on this or another tile of the same ground.

    Attributes:
        bands: The bands it is for.
        scale: What brightness means.
        law: Noise of each live band against brightness; zero if it is not known.
        levels: The filter itself.
        neighbour: Weights with which neighbours' log-radiance tells the ground, blind to methane; zeros if not used.
        neighbour_mean: Their response to the mean spectrum.
        anomaly: How unusual pixels are noticed.
        saturation: From linear to true enhancement.
        max_log_noise: Pixels noisier than this are too dark to tell.
    """

    bands: BandSet
    scale: Scale
    law: NoiseLaw
    levels: Levels
    neighbour: Float64[np.ndarray, " band"]
    neighbour_mean: float
    anomaly: Anomaly
    saturation: Saturation
    max_log_noise: float


@dataclass(frozen=True, eq=False)
class _Fit:
    """One pass over the sample, in its live bands."""

    law: NoiseLaw
    levels: Levels
    neighbour: Float64[np.ndarray, " band"]
    neighbour_mean: float
    mean: Float64[np.ndarray, " band"]
    clutter: Float64[np.ndarray, "band band"]
    estimate_ppm_m: Float64[np.ndarray, " pixel"]
    sigma_ppm_m: Float64[np.ndarray, " pixel"]


def _positive_part(
    covariance: Float64[np.ndarray, "band band"], noise: Float64[np.ndarray, " band"]
) -> Float64[np.ndarray, "band band"]:
    """Clutter: covariance less noise, without the eigenvalues that are not larger than chance makes them.

    In units of the noise, chance scatters eigenvalues about zero to both sides alike, so the most negative one tells
    how far; those beyond are cleared of chance.
    """
    scale = np.sqrt(np.maximum(noise, 1e-6 * np.diagonal(covariance)))
    values, vectors = eigh((covariance - np.diag(noise)) / np.outer(scale, scale), check_finite=False)
    chance = max(-values[0], 0.0)
    values = np.sqrt(np.maximum(np.square(values) - chance**2, 0.0)) * (values > chance)
    vectors = vectors * scale[:, None]
    return np.asarray((vectors * np.maximum(values, _LEAST_CLUTTER)) @ vectors.T)


def _covariance(
    data: Float64[np.ndarray, "band pixel"], weight: Float64[np.ndarray, " pixel"]
) -> tuple[Float64[np.ndarray, " band"], Float64[np.ndarray, "band band"]]:
    mean = data @ weight
    centred = (data - mean[:, None]) * np.sqrt(weight)
    return mean, centred @ centred.T


def _neighbour_direction(
    sample: RowSample,
    chosen: Bool[np.ndarray, " pixel"],
    plume_ppm_m: Float32[np.ndarray, " pixel"],
    weight: Float64[np.ndarray, " chosen"],
    spectrum: Float64[np.ndarray, " band"],
    ridge: float,
) -> Float64[np.ndarray, " band"]:
    """Weights of the neighbours' spectra in the best estimate from a pixel and its neighbours together.

    The estimate has response 1 to methane in the pixel and none to methane in its neighbours: what they tell is the
    ground alone, so a plume wider than the neighbourhood is not taken for ground.
    """
    bands = len(spectrum)
    both = np.concatenate([sample.log_spectra[:, chosen], sample.ring[:, chosen]]).astype(np.float64)
    both -= np.tile(spectrum, 2)[:, None] * plume_ppm_m[chosen]
    _, covariance = _covariance(both, weight / weight.sum())
    # Against directions without noise, as behind interpolated bands, where any target has boundless contrast.
    quiet = ridge * float(np.median(sample.ring_noise[chosen]))
    covariance[np.diag_indices(2 * bands)] += np.repeat([ridge, quiet], bands)
    constraints = np.zeros((2 * bands, 2))
    constraints[:bands, 0] = constraints[bands:, 1] = spectrum
    try:
        solved = cho_solve(cho_factor(covariance, check_finite=False), constraints, check_finite=False)
    except LinAlgError:  # bands interpolated from others
        return np.zeros(bands)
    direction = (solved @ np.linalg.inv(constraints.T @ solved)[:, 0])[bands:]
    return np.asarray(direction - spectrum * (spectrum @ direction) / (spectrum @ spectrum))


def _level_statistics(
    z: Float64[np.ndarray, " pixel"], place: Float32[np.ndarray, " pixel"], levels: int
) -> tuple[Float64[np.ndarray, " level"], Float64[np.ndarray, " level"]]:
    """Median and robust spread at each level, each level lending to its neighbours."""
    nearest = np.rint(place).astype(np.intp)
    median, spread, count = np.zeros(levels), np.ones(levels), np.zeros(levels)
    for level in range(levels):
        here = z[nearest == level]
        if here.size < 30:
            continue
        median[level] = np.median(here)
        spread[level] = 1.4826 * np.median(np.abs(here - median[level]))
        count[level] = min(here.size, _LEVEL_PIXELS)
    apart = np.arange(levels)[:, None] - np.arange(levels)
    lent = np.exp(-np.square(apart)) * count + 1e-9
    lent /= lent.sum(axis=1, keepdims=True)
    return lent @ median, np.sqrt(lent @ np.square(spread))


def _fit(
    sample: RowSample,
    plume_ppm_m: Float32[np.ndarray, " pixel"],
    law: NoiseLaw | None,
    spectrum: Float64[np.ndarray, " band"],
    settings: NoiseAwareSettings,
    *,
    last: bool,
    given: NoiseLaw | None,
) -> _Fit:
    bands = len(spectrum)
    chosen = sample.usable & (plume_ppm_m < _TOO_STRONG_PPM_M)
    if np.count_nonzero(chosen) < 0.5 * np.count_nonzero(sample.usable):
        chosen = sample.usable
    count = int(np.count_nonzero(chosen))
    brightness = sample.brightness[chosen].astype(np.float64)
    data = sample.log_spectra[:, chosen] - spectrum[:, None] * plume_ppm_m[chosen]
    bins = min(settings.bins, count // (PIXELS_PER_BAND * bands))
    measured = measure_noise(data, brightness, bins) if given is None and bins >= _LEAST_BINS else None
    if measured is None:
        law = given or NoiseLaw(np.zeros(bands), np.zeros(bands))
    elif law is None:
        law = with_least_noise(fit_law(measured))
    noise = law.variance(brightness)
    typical = noise.mean(axis=0)
    weight = 1.0 / (0.3 + typical / np.median(typical)) if typical.any() else np.ones(count)
    weight /= weight.sum()
    mean, covariance = _covariance(data, weight)
    if not (np.diagonal(covariance) > 1e-14).any():
        raise FilterError(f"no band varies over the {count} usable pixels: there is no background to tell a plume from")
    if count < PIXELS_PER_BAND * bands:
        shrinkage = settings.background.shrinkage
        shrinkage = leave_one_out_shrinkage(data) if shrinkage is None else shrinkage
        covariance = (1.0 - shrinkage) * covariance + shrinkage * np.diag(np.diagonal(covariance))
    clutter = _positive_part(covariance, noise @ weight)
    if last and measured is not None:
        law = with_least_noise(fit_law(implied_noise(measured, law, clutter)))
        noise = law.variance(brightness)
        clutter = _positive_part(covariance, noise @ weight)

    neighbour, gain_of, heard = np.zeros(bands), None, None
    around = chosen & sample.has_ring
    if settings.neighbours and np.count_nonzero(around) >= 2 * PIXELS_PER_BAND * bands:
        ridge = _RIDGE * float(np.median(noise @ weight))
        neighbour = _neighbour_direction(sample, around, plume_ppm_m, weight[around[chosen]], spectrum, ridge)
    extended, total = clutter, np.append(spectrum, 0.0)
    heard = np.where(sample.has_ring, neighbour.astype(np.float32) @ sample.ring, np.float32(0))
    heard_mean = float(heard[around].mean()) if around.any() else 0.0
    heard = np.where(sample.has_ring, heard - np.float32(heard_mean), np.float32(0))
    if neighbour.any():
        told = heard[chosen].astype(np.float64)
        cross = (data - mean[:, None]) @ (weight * told)
        extended = np.block([[clutter, cross[:, None]], [cross[None], np.array([[weight @ np.square(told)]])]])

    low, high = np.log(np.quantile(brightness, _ENDS))
    high = max(high, low + 0.01)
    logs = np.linspace(low, high, settings.levels)
    at = law.variance(np.exp(logs))
    weights, gains, sigmas = [], [], []
    for level in range(settings.levels):
        c = extended.copy()
        c[np.diag_indices(bands)] += at[:, level]
        solved = _solve(c, total[: len(c)])
        power = float(total[: len(c)] @ solved)
        if not power > 0:
            raise FilterError("methane absorbs in none of the bands that vary; give bands between 2122 and 2488 nm")
        solved /= power
        weights.append(solved[:bands])
        gains.append(solved[bands] if len(c) > bands else 0.0)
        sigmas.append(power**-0.5)
    weight_of, gain_of, sigma = np.array(weights), np.array(gains), np.array(sigmas)
    levels = Levels(
        float(low),
        float(logs[1] - logs[0]),
        weight_of,
        weight_of @ mean,
        gain_of,
        sigma,
        np.sqrt(np.median(at, axis=0)),
    )
    place = levels.place(sample.brightness)
    estimate, raw_sigma = _evaluate(levels, sample, place, heard)
    median, spread = _level_statistics((estimate / raw_sigma)[chosen], place[chosen], settings.levels)
    levels = Levels(
        levels.first_log,
        levels.step_log,
        weight_of,
        levels.offset + median * sigma,
        gain_of,
        sigma * np.maximum(spread, 0.3),
        levels.log_noise,
    )
    estimate, raw_sigma = _evaluate(levels, sample, place, heard)
    return _Fit(law, levels, neighbour, heard_mean, mean, clutter, estimate, raw_sigma)


def _solve(matrix: Float64[np.ndarray, "n n"], right: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    try:
        return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False))
    except LinAlgError:
        raised = matrix + 1e-9 * np.diag(np.diagonal(matrix))
        return np.asarray(np.linalg.lstsq(raised, right, rcond=None)[0])


def _evaluate(
    levels: Levels,
    sample: RowSample,
    place: Float32[np.ndarray, " pixel"],
    heard: Float32[np.ndarray, " pixel"],
) -> tuple[Float64[np.ndarray, " pixel"], Float64[np.ndarray, " pixel"]]:
    """Linear estimate and sigma of every sampled pixel."""
    at = np.arange(len(levels.offset))
    responses = levels.weight.astype(np.float32) @ sample.log_spectra - levels.offset.astype(np.float32)[:, None]
    below = np.minimum(place.astype(np.intp), len(at) - 2)
    share = place - below
    pixel = np.arange(place.size)
    estimate = responses[below, pixel] * (1 - share) + responses[below + 1, pixel] * share
    estimate += np.interp(place, at, levels.neighbour_gain) * heard
    return estimate, np.interp(place, at, levels.sigma_ppm_m)


def _find_anomalies(
    sample: RowSample, fit: _Fit, spectrum: Float64[np.ndarray, " band"], plume_ppm_m: Float32[np.ndarray, " pixel"]
) -> Anomaly:
    """Directions of most clutter over noise, and how the spread of the estimate grows with the distance along them."""
    noise = fit.law.read_out + fit.law.shot
    scale = np.sqrt(np.maximum(noise, 1e-6 * np.diagonal(fit.clutter)))
    values, vectors = eigh(fit.clutter / np.outer(scale, scale), check_finite=False)
    count = min(_DIRECTIONS, len(values))
    direction = (vectors[:, ::-1][:, :count] / scale[:, None]).T
    values = values[::-1][:count]
    anomaly = Anomaly(
        direction=direction,
        mean=direction @ fit.mean,
        methane=direction @ spectrum,
        clutter=values,
        read_out=np.square(direction) @ fit.law.read_out,
        shot=np.square(direction) @ fit.law.shot,
        typical=1.0,
        widening=(1.0, 0.0),
    )
    r = sample.brightness.astype(np.float64)
    along = direction @ sample.log_spectra - anomaly.mean[:, None]
    along -= anomaly.methane[:, None] * fit.estimate_ppm_m
    expected = values[:, None] + np.outer(anomaly.read_out, r**-2) + np.outer(anomaly.shot, 1.0 / r)
    distance = np.mean(np.square(along) / expected, axis=0)
    used = sample.usable
    typical = float(np.median(distance[used]))
    if not typical > 0 or np.count_nonzero(used) < 100:
        return anomaly
    excess = np.maximum(distance[used] / typical - 1.0, 0.0)
    z = (fit.estimate_ppm_m - plume_ppm_m)[used] / fit.sigma_ppm_m[used]
    squares = np.minimum(np.square(z), _MOST_Z**2)
    order = np.argsort(excess, kind="stable")
    parts = np.array_split(order, 24)
    x = np.array([excess[part].mean() for part in parts])
    y = np.array([squares[part].mean() for part in parts])
    # Relative errors alike, so that the few outlying pixels count as much as the many others.
    found, _ = nnls(np.stack([np.ones_like(x), x], axis=1) / y[:, None], np.ones_like(y))
    return Anomaly(
        anomaly.direction,
        anomaly.mean,
        anomaly.methane,
        anomaly.clutter,
        anomaly.read_out,
        anomaly.shot,
        typical,
        (float(max(found[0], 0.5)), float(found[1])),
    )


def _found_plume(sample: RowSample, fit: _Fit, settings: NoiseAwareSettings) -> Float32[np.ndarray, " pixel"]:
    """What is surely methane in the sample, in linear ppm m."""
    reach = settings.smoothing_px
    estimate = np.where(sample.usable, fit.estimate_ppm_m, 0.0).astype(np.float32).reshape(sample.shape)
    sigma = np.where(sample.usable, fit.sigma_ppm_m, np.inf).astype(np.float32).reshape(sample.shape)
    mean, spread = smooth(estimate, sigma, (reach / sample.step, reach))
    shrunk = mean / (1.0 + np.square(spread / np.float32(_PLUME_PRIOR_PPM_M)))
    # A soft edge: the last digits of a pixel must not decide what the tile's ground is.
    surely = np.clip(mean / spread - np.float32(settings.plume_significance - 0.5), 0, 1)
    return np.where(np.isfinite(spread), shrunk * surely, np.float32(0)).reshape(-1)


def estimate_background(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: NoiseAwareSettings | None = None,
) -> NoiseAwareBackground:
    """Learns a tile's ground and noise; plumes are found and subtracted between the passes.

    With fewer than 20 pixels a band the noise law cannot be seen and is the sensor's, if the settings name one, else
    noise counts as ground; with fewer than 10 a band the neighbours are not asked; with fewer than 5 the covariance is
    shrunk to its diagonal by leave-one-out likelihood.

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Defaults if None.

    Raises:
        FilterError: If there is nothing to learn from; the message says why.
    """
    settings = settings or NoiseAwareSettings()
    pixels_of(radiance, bands, valid)
    scale, sample = draw_sample(radiance, valid, settings)
    spectrum = unit_absorption(bands)[scale.live] / ABSORPTION_UNIT_PPM_M
    few = np.count_nonzero(sample.usable) < _LEAST_BINS * PIXELS_PER_BAND * len(spectrum)
    given = None
    if few and settings.sensor is not None:
        full = law_of_sensor(settings.sensor, bands, np.maximum(scale.reference, 1e-6))
        given = NoiseLaw(full.read_out[scale.live], full.shot[scale.live])
    plume = np.zeros(sample.usable.size, dtype=np.float32)
    law = None
    for number in range(settings.passes):
        last = number == settings.passes - 1
        fit = _fit(sample, plume, law, spectrum, settings, last=last, given=given)
        law = fit.law
        if not last:
            plume = _found_plume(sample, fit, settings)
    anomaly = _find_anomalies(sample, fit, spectrum, plume)
    live = scale.live

    def spread_out(values: Float64[np.ndarray, "... live"]) -> Float64[np.ndarray, "... band"]:
        full = np.zeros((*values.shape[:-1], live.size))
        full[..., live] = values
        return full

    levels = Levels(
        fit.levels.first_log,
        fit.levels.step_log,
        spread_out(fit.levels.weight),
        fit.levels.offset,
        fit.levels.neighbour_gain,
        fit.levels.sigma_ppm_m,
        fit.levels.log_noise,
    )
    anomaly = Anomaly(
        spread_out(anomaly.direction),
        anomaly.mean,
        anomaly.methane,
        anomaly.clutter,
        anomaly.read_out,
        anomaly.shot,
        anomaly.typical,
        anomaly.widening,
    )
    curve = saturation_of(bands, levels.weight[2 * settings.levels // 3])
    neighbour = spread_out(fit.neighbour)
    return NoiseAwareBackground(
        bands, scale, fit.law, levels, neighbour, fit.neighbour_mean, anomaly, curve, settings.max_log_noise
    )
