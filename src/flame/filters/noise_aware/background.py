"""What the filter knows of a tile: its ground, its noise, and the weights that follow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64

from flame.filters.background import PIXELS_PER_BAND
from flame.filters.errors import FilterError
from flame.filters.noise_aware.anomaly import Anomaly, find_anomalies
from flame.filters.noise_aware.compiled import learn_with_kernels
from flame.filters.noise_aware.fit import LEAST_BINS, NO_INVERSE, Fit, Ground, fit_filter
from flame.filters.noise_aware.levels import Levels
from flame.filters.noise_aware.moments import BinnedSample, bin_sample
from flame.filters.noise_aware.noise_law import NoiseLaw, law_of_sensor
from flame.filters.noise_aware.sample import RowSample, Scale, draw_sample, kernels_for
from flame.filters.noise_aware.saturation import Saturation, saturation_of
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.noise_aware.smoothing import honest_factor, smooth
from flame.filters.pixels import check_pixels, threads
from flame.kernels import Kernels
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption

__all__ = ["NoiseAwareBackground", "estimate_background"]

_PLUME_PRIOR_PPM_M = 2000.0


@dataclass(frozen=True, eq=False)
class NoiseAwareBackground:
    """Everything the filter needs to know of a tile; `apply` uses it on this or another tile of the same ground.

    Attributes:
        bands: The bands it is for.
        scale: What brightness means, and which pixels are too dark or too bright to tell.
        mean: Mean of log-radiance, each band divided by the scale's reference first; 0 in dead bands.
        covariance: Covariance of log-radiance in the live bands.
        mean_noise: What noise adds to its diagonal.
        law: Noise of each live band against brightness; zero if it is not known.
        levels: The filter itself.
        neighbour: Weights with which neighbours' log-radiance tells the ground, blind to methane; zeros if not used.
        neighbour_mean: Their response to the mean spectrum.
        anomaly: How unusual pixels are noticed.
        saturation: From linear to true enhancement.
    """

    bands: BandSet
    scale: Scale
    mean: Float64[np.ndarray, " band"]
    covariance: Float64[np.ndarray, "live live"]
    mean_noise: Float64[np.ndarray, " live"]
    law: NoiseLaw
    levels: Levels
    neighbour: Float64[np.ndarray, " band"]
    neighbour_mean: float
    anomaly: Anomaly
    saturation: Saturation


def _found_plume(
    sample: RowSample, binned: BinnedSample, fit: Fit, settings: NoiseAwareSettings
) -> Float32[np.ndarray, " pixel"]:
    """What is surely methane in the sample, in linear ppm m."""
    estimate = np.zeros(sample.usable.size, dtype=np.float32)
    sigma = np.full(sample.usable.size, np.inf, dtype=np.float32)
    estimate[binned.order] = fit.estimate_ppm_m
    sigma[binned.order] = fit.sigma_ppm_m
    width = (settings.smoothing_px / sample.step, settings.smoothing_px)
    mean, spread = (
        layer.reshape(-1)[binned.order]
        for layer in smooth(estimate.reshape(sample.shape), sigma.reshape(sample.shape), width)
    )
    spread = spread * honest_factor(mean / spread)
    shrunk = mean / (1.0 + np.square(spread / np.float32(_PLUME_PRIOR_PPM_M)))
    # A soft edge: the last digits of a pixel must not decide what the tile's ground is.
    surely = np.clip(mean / spread - np.float32(settings.plume_significance - 0.5), 0, 1)
    return np.asarray(shrunk * surely)


def _learn_with_numpy(
    sample: RowSample,
    binned: BinnedSample,
    spectrum: Float64[np.ndarray, " band"],
    settings: NoiseAwareSettings,
    ring_noise: float,
    given: NoiseLaw | None,
) -> tuple[Ground, Anomaly]:
    """All passes: the filter, and what is unusual.

    Raises:
        FilterError: If the covariance has no inverse.
    """
    plume = np.zeros(binned.order.size, dtype=np.float32)
    law = None
    try:
        for number in range(settings.passes):
            last = number == settings.passes - 1
            fit = fit_filter(
                binned, plume, spectrum, settings, ring_noise=ring_noise, law=law, given=given, refine=last
            )
            law = fit.law
            if not last:
                plume = _found_plume(sample, binned, fit, settings)
        return fit, find_anomalies(binned, fit, spectrum, plume)
    except np.linalg.LinAlgError:
        raise FilterError(NO_INVERSE) from None


def _darkest(law: NoiseLaw, scale: Scale, limit: float) -> float:
    """The brightness below which half of the bands are noisier than the limit."""
    read_out, shot = np.median(law.read_out), np.median(law.shot)
    # read_out / r^2 + shot / r = limit^2
    return max(scale.darkest, float((shot + np.sqrt(shot**2 + 4 * limit**2 * read_out)) / (2 * limit**2)))


def estimate_background(
    radiance: Float32[np.ndarray, "band ring col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: NoiseAwareSettings | None = None,
    kernels: Kernels | None = None,
    *,
    first: int = 0,
    workers: int | None = None,
    room: Float32[np.ndarray, " float"] | None = None,
) -> NoiseAwareBackground:
    """Learns a tile's ground and noise; plumes are found and subtracted between the passes.

    With fewer than 20 pixels a band the noise law cannot be seen and is the sensor's, if the settings name one, else
    noise counts as ground; with fewer than 10 a band the neighbours are not asked; with fewer than 5 the covariance is
    shrunk to its diagonal by leave-one-out likelihood.

    Args:
        radiance: Image, in any unit of radiance; a ring of rows if `first` is not 0.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Defaults if None.
        kernels: The kernels to use; those of this processor if None.
        first: Where in `radiance` the first row stands; after the last comes row 0.
        workers: Threads; as many as filters take if None.
        room: Memory to work in, whose content is lost; new memory if None.

    Raises:
        FilterError: If there is nothing to learn from; the message says why.
    """
    settings = settings or NoiseAwareSettings()
    check_pixels(radiance, bands, valid)
    if radiance.strides[-1] != radiance.itemsize:  # sums in another order would differ in their last digits
        radiance = np.ascontiguousarray(radiance)
    scale, sample = draw_sample(radiance, valid, settings, kernels, first=first, workers=workers, room=room)
    live = scale.live
    spectrum = unit_absorption(bands)[live] / ABSORPTION_UNIT_PPM_M
    each = PIXELS_PER_BAND * len(spectrum)
    count = int(np.count_nonzero(sample.usable))
    neighbours = settings.neighbours and int(np.count_nonzero(sample.has_ring)) >= 2 * each
    ring_noise = float(np.median(sample.ring_noise[sample.has_ring])) if neighbours else 1.0
    bins = min(settings.bins, count // each)
    binned = bin_sample(sample, max(1, bins), neighbours=neighbours, kernels=kernels, workers=workers, room=room)
    given = None
    if bins < LEAST_BINS and settings.sensor is not None:
        full = law_of_sensor(settings.sensor, bands, np.maximum(scale.reference, 1e-6))
        given = NoiseLaw(full.read_out[live], full.shot[live])
    kernels = kernels_for(radiance, kernels) if given is None else None
    learned = None
    if kernels is not None:
        learned = learn_with_kernels(
            *(kernels, binned, sample.shape, sample.step, spectrum, settings),
            ring_noise=ring_noise,
            workers=workers or threads(),
        )
    fit, anomaly = learned or _learn_with_numpy(sample, binned, spectrum, settings, ring_noise, given)

    def in_all_bands(values: Float64[np.ndarray, "*rows live"]) -> Float64[np.ndarray, "*rows band"]:
        full = np.zeros((*values.shape[:-1], live.size))
        full[..., live] = values
        return full

    levels = replace(fit.levels, weight=in_all_bands(fit.levels.weight))
    return NoiseAwareBackground(
        bands=bands,
        scale=replace(scale, darkest=_darkest(fit.law, scale, settings.max_log_noise)),
        mean=in_all_bands(fit.mean),
        covariance=fit.covariance,
        mean_noise=fit.mean_noise,
        law=fit.law,
        levels=levels,
        neighbour=in_all_bands(fit.neighbour),
        neighbour_mean=fit.neighbour_mean,
        anomaly=replace(anomaly, direction=in_all_bands(anomaly.direction)),
        saturation=saturation_of(bands, levels.weight[2 * settings.levels // 3]),
    )
