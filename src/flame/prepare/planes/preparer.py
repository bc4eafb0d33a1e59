"""From radiance to planes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64
from scipy.ndimage import gaussian_filter

from flame.filters.noise_aware import NoiseAwareBackground, NoiseAwareResult, apply, estimate_background
from flame.filters.noise_aware.fit import at_noise
from flame.filters.noise_aware.sample import FLOOR
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption
from flame.prepare.planes.settings import FIELD_NAMES, WIDTHS_PX, PlaneSettings
from flame.prepare.planes.wavelengths import window_shares

__all__ = [
    *("MOST_SHARE", "MOST_SIGMA_PPM_M", "TINY", "PlaneTile", "SpectralView", "clutter_taps", "function_noise"),
    *("prepare_planes", "view_spectra", "window_filters"),
]

TINY = np.float32(1e-2)
"""Added before logarithms; the least share of a clutter window that must be usable."""

MOST_SIGMA_PPM_M = np.float32(1e5)
"""Standard deviation of an estimate that says nothing."""

MOST_SHARE = np.float32(50.0)
"""Windows add no more than this, in standard deviations of the estimate."""

_CLUTTER_REACH = 4.0


@dataclass(frozen=True, eq=False)
class SpectralView:
    """A tile's spectra against its own background, and how noisy they are: what functions of wavelength are applied to.

    Attributes:
        residual: Log-radiance about the tile's mean spectrum; 0 where not usable or a band is dead.
        inverse_brightness: One over the brightness; 1 where not usable.
        read_out, shot: Variance of log-radiance of each band at brightness r: `read_out / r^2 + shot / r`.
    """

    residual: Float32[np.ndarray, "band row col"]
    inverse_brightness: Float32[np.ndarray, "row col"]
    read_out: Float64[np.ndarray, " band"]
    shot: Float64[np.ndarray, " band"]


@dataclass(frozen=True, eq=False)
class PlaneTile:
    """A tile as planes.

    Attributes:
        fields: The planes of `FIELD_NAMES`.
        windows: Contribution of each part of the spectrum to the estimate, in standard deviations of it.
        estimate_ppm_m: The filter's estimate.
        sigma_ppm_m: Its standard deviation; a large number where not usable.
        usable: Pixels whose own spectrum tells something. The others, too dark or not valid, have no estimate and a
            huge sigma; what their neighbours say is in the averaged fields.
    """

    fields: Float32[np.ndarray, "field row col"]
    windows: Float32[np.ndarray, "window row col"]
    estimate_ppm_m: Float32[np.ndarray, "row col"]
    sigma_ppm_m: Float32[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]


def view_spectra(
    background: NoiseAwareBackground,
    radiance: Float32[np.ndarray, "band row col"],
    found: NoiseAwareResult,
) -> SpectralView:
    """The spectra of a tile against its background.

    Args:
        background: What the filter learned of the tile.
        radiance: The tile.
        found: What the filter says of its pixels.
    """
    scale = background.scale
    safe = np.where(found.usable, found.brightness, np.float32(1))
    with np.errstate(invalid="ignore", over="ignore"):
        logs = np.where(found.usable, radiance, np.float32(1)) * scale.factor[:, None, None]
    np.maximum(logs, np.float32(FLOOR) * safe, out=logs)
    np.log(logs, out=logs)
    logs -= background.mean.astype(np.float32)[:, None, None]
    logs *= scale.live.astype(np.float32)[:, None, None]
    logs *= found.usable
    read_out, shot = (np.zeros(scale.live.size) for _ in range(2))
    read_out[scale.live], shot[scale.live] = background.law.read_out, background.law.shot
    return SpectralView(logs, np.float32(1) / safe, read_out, shot)


def window_filters(
    background: NoiseAwareBackground, anchors: int
) -> tuple[Float64[np.ndarray, " anchor"], Float64[np.ndarray, "anchor window band"]]:
    """The matched filter in parts: log-brightness of each anchor, and the weights of each window there, in ppm m.

    The parts are told apart in whitened coordinates, where each component has the same variance and none of them is
    large only to be cancelled by another. Their sum is the filter.
    """
    levels, live = background.levels, background.scale.live
    last = levels.first_log + levels.step_log * (len(levels.offset) - 1)
    logs = np.linspace(levels.first_log, last, anchors)
    law = background.law
    each = at_noise(background.covariance, background.mean_noise, law.variance(np.exp(logs)).T, law)
    values, vectors = np.linalg.eigh(each)
    floor = np.maximum(values, 1e-9 * values[:, -1:])
    root = (vectors / np.sqrt(floor)[:, None]) @ vectors.transpose(0, 2, 1)
    target = root @ (unit_absorption(background.bands)[live] / ABSORPTION_UNIT_PPM_M)
    shares = window_shares(background.bands)[:, live]
    parts = (shares * target[:, None]) @ root / np.square(target).sum(axis=1)[:, None, None]
    weights = np.zeros((anchors, len(shares), live.size))
    weights[..., live] = parts
    return logs, weights


def function_noise(
    functions: Float64[np.ndarray, "function band"], law: Float64[np.ndarray, " band"]
) -> Float64[np.ndarray, " function"]:
    """Variance of functions of log-radiance whose bands have independent noise."""
    return np.asarray(np.square(functions) @ law)


def clutter_taps(settings: PlaneSettings) -> Float32[np.ndarray, " tap"]:
    """The Gaussian of the local clutter, cut off at four standard deviations, of sum 1."""
    reach = int(_CLUTTER_REACH * settings.clutter_px + 0.5)
    taps = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / settings.clutter_px))
    return np.asarray(taps / taps.sum(), dtype=np.float32)


def _windows(
    background: NoiseAwareBackground,
    view: SpectralView,
    sigma_ppm_m: Float32[np.ndarray, "row col"],
    anchors: int,
) -> Float32[np.ndarray, "window row col"]:
    """What each window adds to the estimate, interpolated between the anchors."""
    logs, weights = window_filters(background, anchors)
    matrix = weights.reshape(-1, weights.shape[2]).astype(np.float32)
    told = (matrix @ view.residual.reshape(len(view.residual), -1)).reshape(anchors, -1, *sigma_ppm_m.shape)
    place = np.interp(-np.log(view.inverse_brightness), logs, np.arange(anchors))
    hat = np.maximum(0, 1 - np.abs(place - np.arange(anchors)[:, None, None])).astype(np.float32)
    return np.asarray(np.einsum("anrc,arc->nrc", told, hat) / sigma_ppm_m)


def _fields(
    found: NoiseAwareResult, sigma_ppm_m: Float32[np.ndarray, "row col"], settings: PlaneSettings
) -> Float32[np.ndarray, "field row col"]:
    unit = np.float32(settings.reference_ppm_m)
    planes = np.empty((len(FIELD_NAMES), *sigma_ppm_m.shape), dtype=np.float32)
    z = found.enhancement_ppm_m / sigma_ppm_m
    planes[0] = np.arcsinh(z)
    planes[1] = np.log(sigma_ppm_m / unit)
    planes[2] = np.arcsinh(found.enhancement_ppm_m / unit)
    for number, width in enumerate(WIDTHS_PX):
        mean, spread = found.smoothed(width)
        planes[3 + 2 * number] = np.arcsinh(mean / spread)
        planes[4 + 2 * number] = np.arcsinh(mean / unit)
    last = 3 + 2 * len(WIDTHS_PX)
    planes[last] = np.log(np.where(found.usable, found.brightness, np.float32(1)))
    planes[last + 1] = np.float32(0.5) * np.log(found.anomaly + TINY)
    clip = np.float32(settings.clutter_clip)
    power = np.square(np.clip(z, -clip, clip)) * found.usable
    seen, around = (
        gaussian_filter(image, settings.clutter_px, truncate=_CLUTTER_REACH)
        for image in (found.usable.astype(np.float32), power)
    )
    around /= np.maximum(seen, TINY)
    planes[last + 2] = np.float32(0.5) * np.log(around + TINY)
    return planes


def prepare_planes(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: PlaneSettings | None = None,
) -> tuple[PlaneTile, SpectralView]:
    """A tile's planes, and the spectra that learned functions of wavelength are applied to.

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Defaults if None.

    Raises:
        FilterError: If there is nothing to learn a background from; the message says why.
    """
    settings = settings or PlaneSettings()
    background = estimate_background(radiance, bands, valid)
    found = apply(background, radiance, bands, valid)
    sigma_ppm_m = np.where(found.usable, np.minimum(found.sigma_ppm_m, MOST_SIGMA_PPM_M), MOST_SIGMA_PPM_M)
    view = view_spectra(background, radiance, found)
    windows = np.clip(_windows(background, view, sigma_ppm_m, settings.anchors), -MOST_SHARE, MOST_SHARE)
    fields = _fields(found, sigma_ppm_m, settings)
    return PlaneTile(fields, windows, found.enhancement_ppm_m, sigma_ppm_m, found.usable), view
