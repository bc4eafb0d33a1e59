"""MAG1C: the matched filter with albedo correction and reweighted l1 sparsity, without its cost.

With a = R alpha (albedo factor times enhancement) the data of every iteration are `x - a t^T`, t being the last target.
So each mean is the first one less `mean(a) t`, and each covariance is the first one with a correction of rank two:

    C = C0 - q t^T - t q^T + var(a) t t^T,   q = cov(x, a).

Only `X^T a` is needed from the pixels, and it is taken in the same pass that computes the next a. Dividing by R waits
until the end, so dark pixels cannot upset the iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64

from flame.filters.background import BackgroundSettings, estimate_radiance, usable_pixels
from flame.filters.errors import FilterError
from flame.filters.pixels import Pixels, pixels_of
from flame.filters.whitening import whitening
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption

__all__ = ["Mag1cFit", "Mag1cSettings", "fit", "reweight", "score"]


@dataclass(frozen=True)
class Mag1cSettings:
    """Settings of MAG1C; the defaults are the published ones.

    Attributes:
        iterations: How many times the background is estimated again.
        epsilon: The paper's delta, which keeps the sparsity weight finite, in units of 100,000 ppm m.
        column_group: Columns that share a background, as detector columns of a push-broom sensor do; None: all.
        background: How the background is estimated.
    """

    iterations: int = 30
    epsilon: float = 1e-9
    column_group: int | None = None
    background: BackgroundSettings = field(default_factory=BackgroundSettings)

    def __post_init__(self) -> None:
        if self.iterations < 0 or self.epsilon <= 0:
            raise FilterError(f"iterations must not be negative and epsilon must be above 0, got {self}")
        if self.column_group is not None and self.column_group < 1:
            raise FilterError(f"a column group needs at least 1 column, got {self.column_group}")


@dataclass(frozen=True, eq=False)
class Mag1cFit:
    """What the last iteration knew of the background, and what it made of the pixels.

    Attributes:
        mean: Mean spectrum without the methane found.
        weight: `C^-1 t`, the whitened target.
        normaliser: `t^T C^-1 t`, at least 1.
        signal: a = albedo factor times enhancement of each pixel, in 100,000 ppm m, 0 at pixels that were not used.
    """

    mean: Float64[np.ndarray, " band"]
    weight: Float64[np.ndarray, " band"]
    normaliser: float
    signal: Float32[np.ndarray, " pixel"]


def reweight(
    response: Float32[np.ndarray, " pixel"],
    signal: Float32[np.ndarray, " pixel"],
    floor: Float32[np.ndarray, " pixel"],
    normaliser: float,
) -> Float32[np.ndarray, " pixel"]:
    """One step of eq:mag1c_iter in a: `max((response - 1 / (a + R epsilon)) / normaliser, 0)`.

    Args:
        response: `(x - mean)^T C^-1 t`.
        signal: a of the step before.
        floor: R epsilon, above 0.
        normaliser: `t^T C^-1 t`.
    """
    new = signal + floor
    np.reciprocal(new, out=new)
    np.subtract(response, new, out=new)
    new *= np.float32(1.0 / normaliser)
    return np.asarray(np.maximum(new, 0.0, out=new))


def fit(
    pixels: Pixels,
    albedo: Float32[np.ndarray, " pixel"],
    unit_spectrum: Float64[np.ndarray, " band"],
    settings: Mag1cSettings,
) -> Mag1cFit:
    """Run the iterations on the usable pixels.

    Args:
        pixels: The pixels; one centred copy of them is kept.
        albedo: Their albedo factors R.
        unit_spectrum: Unit absorption, per 100,000 ppm m.
        settings: Settings of the filter.
    """
    background = estimate_radiance(pixels, settings.background)
    first = background.whitening()
    centre = background.mean.astype(np.float32)
    blocks = [(block.where, block.spectra - centre[:, None]) for block in pixels.blocks()]
    floors = [np.maximum(albedo[w], settings.background.min_albedo) * np.float32(settings.epsilon) for w, _ in blocks]
    signals = [np.zeros(0, dtype=np.float32)] * len(blocks)
    mean, covariance = background.mean, background.covariance
    count = pixels.count
    for step in range(settings.iterations + 1):
        # What does not vary must not start to: removing methane from a dead band would make it vary.
        target = first.seen(mean * unit_spectrum)
        weight = (whitening(covariance, background.shrinkage) if step else first).solve(target)
        normaliser = float(target @ weight)
        if step:
            normaliser = max(normaliser, 1.0)
        elif not normaliser > 0:
            raise FilterError("methane leaves no trace in these bands; give bands between 2122 and 2488 nm")
        weight32, offset = weight.astype(np.float32), np.float32((mean - centre) @ weight)
        total, squares, products = 0.0, 0.0, np.zeros(mean.size)
        for i, (_, spectra) in enumerate(blocks):
            response = weight32 @ spectra
            response -= offset
            if step:
                signals[i] = reweight(response, signals[i], floors[i], normaliser)
            else:
                signals[i] = np.maximum(response / np.float32(normaliser), 0.0)
            total += float(signals[i].sum(dtype=np.float64))
            squares += float(signals[i] @ signals[i])
            products += spectra @ signals[i]
        mean_signal = total / count
        coupling = products / count - (background.mean - centre) * mean_signal
        crossed = np.outer(coupling, target)
        variance = squares / count - mean_signal**2
        fitted_mean = mean
        mean = background.mean - mean_signal * target
        covariance = background.covariance - crossed - crossed.T + variance * np.outer(target, target)
    signal = np.zeros(pixels.usable.size, dtype=np.float32)
    for (where, _), values in zip(blocks, signals, strict=True):
        signal[where] = values
    return Mag1cFit(fitted_mean, weight, normaliser, signal)


def _enhancement(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: Mag1cSettings,
) -> Float32[np.ndarray, "row col"]:
    pixels, albedo = usable_pixels(pixels_of(radiance, bands, valid), settings.background)
    signal = fit(pixels, albedo, unit_absorption(bands), settings).signal
    lit = albedo >= settings.background.min_albedo
    out = np.zeros_like(signal)
    np.divide(signal * np.float32(ABSORPTION_UNIT_PPM_M), albedo, out=out, where=lit)
    return pixels.as_image(out)


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: Mag1cSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """Methane enhancement by MAG1C, eq:mag1c_iter of the paper.

    Foote et al., "Fast and accurate retrieval of methane concentration from imaging spectrometer data using sparsity
    prior", IEEE Transactions on Geoscience and Remote Sensing 58 (2020).

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Iterations, column groups and background; defaults if None.

    Returns:
        Enhancement in ppm m, not negative; 0 where invalid, saturated, or too dark to tell.

    Raises:
        FilterError: If an image or a column group holds nothing that varies.
    """
    settings = settings or Mag1cSettings()
    if settings.column_group is None:
        return _enhancement(radiance, bands, valid, settings)
    out = np.zeros(valid.shape, dtype=np.float32)
    columns = valid.shape[1]
    group = min(settings.column_group, columns)
    for start in range(0, columns, group):
        # The last group borrows columns from the one before, so that all have the same number, as in mag1c.
        part = slice(min(start, columns - group), min(start, columns - group) + group)
        if not valid[:, part].any():
            continue
        try:
            out[:, part] = _enhancement(np.ascontiguousarray(radiance[:, :, part]), bands, valid[:, part], settings)
        except FilterError as reason:
            raise FilterError(f"columns {part.start} to {part.stop - 1}: {reason}; take more columns a group") from None
    return out
