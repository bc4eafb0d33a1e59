"""The log-domain matched filter: Beer-Lambert is additive in log-radiance, so strong plumes stay unbiased."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32, Float64

from flame.filters.background import BackgroundSettings, estimate, usable_pixels
from flame.filters.errors import OTHER_BANDS, FilterError
from flame.filters.pixels import Block, Pixels, pixels_of
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption

__all__ = ["LogMatchedFilter", "LogMfSettings", "fit", "score"]


@dataclass(frozen=True)
class LogMfSettings:
    """Settings of the log-domain matched filter.

    Attributes:
        covariance: `full`: between all bands; `diagonal`: variances only, as in the paper's Proposition A.
        background: How the background is estimated. Here pixels darker than `min_albedo` stay out of it and score 0,
            and a single band below `min_albedo` of its mean is read as that.
    """

    covariance: Literal["full", "diagonal"] = "full"
    background: BackgroundSettings = field(default_factory=BackgroundSettings)


@dataclass(frozen=True, eq=False)
class LogMatchedFilter:
    """The pieces of eq:log_mf_estimator with a background and covariance shared by the tile.

    Attributes:
        mean_log: Mean log-radiance of the background, the paper's l-bar.
        variance: Variance of log-radiance in each band, the paper's omega^2.
        weight: `C^-1 s`.
        normaliser: `s^T C^-1 s`, in (100,000 ppm m)^-2: its inverse square root is the noise of the estimate.
        floor: Least radiance whose logarithm is taken, for each band.
    """

    mean_log: Float64[np.ndarray, " band"]
    variance: Float64[np.ndarray, " band"]
    weight: Float64[np.ndarray, " band"]
    normaliser: float
    floor: Float64[np.ndarray, " band"]

    def numerator(self, log_radiance: Float32[np.ndarray, "band pixel"]) -> Float32[np.ndarray, " pixel"]:
        """Eq:log_mf_numerator, `(l - l-bar)^T C^-1 s`; with a diagonal C what Proposition A says of the network."""
        centred = log_radiance - self.mean_log.astype(np.float32)[:, None]
        return np.asarray(self.weight.astype(np.float32) @ centred)

    def enhancement_ppm_m(self, log_radiance: Float32[np.ndarray, "band pixel"]) -> Float32[np.ndarray, " pixel"]:
        """Eq:log_mf_estimator, in ppm m; noise makes it negative where there is no methane."""
        return self.numerator(log_radiance) * np.float32(ABSORPTION_UNIT_PPM_M / self.normaliser)


def _log(
    spectra: Float32[np.ndarray, "band pixel"], floor: Float64[np.ndarray, " band"]
) -> Float32[np.ndarray, "band pixel"]:
    limited = np.maximum(spectra, floor.astype(np.float32)[:, None])
    return np.asarray(np.log(limited, out=limited))


def _fit(pixels: Pixels, bands: BandSet, settings: LogMfSettings) -> tuple[Pixels, LogMatchedFilter]:
    limit = settings.background.min_albedo
    usable = usable_pixels(pixels, settings.background)
    pixels, mean = usable.pixels.restricted(usable.pixels.usable & (usable.albedo >= limit)), usable.mean
    # A band without light is read as a constant, and a constant gets no weight.
    floor = limit * np.maximum(mean, limit * mean.max())
    shrinkage = 1.0 if settings.covariance == "diagonal" else settings.background.shrinkage
    background = estimate(pixels, shrinkage, lambda spectra: _log(spectra, floor))
    spectrum = unit_absorption(bands)
    weight = background.whitening().solve(spectrum)
    normaliser = float(spectrum @ weight)
    if not normaliser > 0:
        raise FilterError(f"methane absorbs in none of {bands.describe()}; {OTHER_BANDS}")
    variance = np.diagonal(background.covariance).copy()
    return pixels, LogMatchedFilter(background.mean, variance, weight, normaliser, floor)


def fit(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: LogMfSettings | None = None,
) -> LogMatchedFilter:
    """The pieces of the filter for one tile; arguments as in `score`."""
    return _fit(pixels_of(radiance, bands, valid), bands, settings or LogMfSettings())[1]


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: LogMfSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """Methane enhancement by eq:log_mf_estimator of the paper, `(l - l-bar)^T C^-1 s / (s^T C^-1 s)`.

    Gains, also of single bands, cancel. First in this form: Schaum, "A uniformly most powerful detector of gas plumes
    against a cluttered background", Remote Sensing of Environment 260 (2021).

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Covariance and background; defaults if None.

    Returns:
        Enhancement in ppm m, negative by noise where there is none; 0 where invalid, saturated, or too dark to tell.
    """
    pixels, fitted = _fit(pixels_of(radiance, bands, valid), bands, settings or LogMfSettings())
    out = np.zeros(pixels.usable.size, dtype=np.float32)

    def fill(block: Block) -> None:
        out[block.where] = fitted.enhancement_ppm_m(_log(block.spectra, fitted.floor))

    pixels.map(fill)
    return pixels.as_image(out)
