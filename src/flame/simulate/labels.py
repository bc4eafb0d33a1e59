"""Labels as annotators draw them: the part of a plume that can be seen, as one smooth outline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import ndimage

__all__ = ["Averaged", "LabelSettings", "average", "draw_label", "visible_level"]


@dataclass(frozen=True)
class LabelSettings:
    """How well an annotator sees and how finely they draw.

    Attributes:
        eye_sigma_px: Gaussian over which the eye averages the enhancement map.
        edge_snr: Signal to noise, after that averaging, at which the outline is drawn.
        faintest_ppm_m: However quiet the scene, the colour scale shows nothing below this averaged enhancement.
        core_snr: A plume is noticed only if somewhere inside its outline this is reached.
        gap_px: Pieces nearer than about twice this are joined into one outline.
        outline_sigma_px: Roundness of the drawn outline.
        least_pixels: Smaller pieces are taken for noise.
    """

    eye_sigma_px: float = 1.2
    edge_snr: float = 4.5
    faintest_ppm_m: float = 300.0
    core_snr: float = 6.0
    gap_px: int = 2
    outline_sigma_px: float = 1.0
    least_pixels: int = 10


@dataclass(frozen=True, eq=False)
class Averaged:
    """An enhancement map as the eye averages it.

    Attributes:
        mean_ppm_m: Average of the enhancement.
        noise_ppm_m: Standard deviation of that average; infinite where nothing is seen.
    """

    mean_ppm_m: Float32[np.ndarray, "row col"]
    noise_ppm_m: Float32[np.ndarray, "row col"]

    @property
    def snr(self) -> Float32[np.ndarray, "row col"]:
        """Signal to noise."""
        return np.asarray(self.mean_ppm_m / self.noise_ppm_m)


def average(
    enhancement_ppm_m: Float[np.ndarray, "row col"],
    noise_ppm_m: Float[np.ndarray, "row col"],
    valid: Bool[np.ndarray, "row col"],
    sigma_px: float,
) -> Averaged:
    """Gaussian average of an enhancement map, each pixel weighted by 1/noise².

    Dark pixels, whose noise is large, count for little and are bridged by their neighbours; pixels outside `valid`
    count for nothing. The noise of the average is that of pixels whose noises are independent.

    Args:
        enhancement_ppm_m: Enhancement of each pixel.
        noise_ppm_m: Standard deviation of the noise on it.
        valid: Pixels that can be seen.
        sigma_px: Standard deviation of the Gaussian, above zero.
    """
    weight = np.where(valid, 1.0 / np.square(np.maximum(noise_ppm_m.astype(np.float64), 1e-3)), 0.0)
    weight += np.finfo(np.float32).tiny
    signal = ndimage.gaussian_filter(np.where(valid, enhancement_ppm_m, 0.0) * weight, sigma_px, mode="constant")
    total = ndimage.gaussian_filter(weight, sigma_px, mode="constant")
    # The kernel's square is a Gaussian of sigma/sqrt(2) whose sum is 1/(4 pi sigma²).
    squared = ndimage.gaussian_filter(weight, sigma_px / np.sqrt(2.0), mode="constant") / (4 * np.pi * sigma_px**2)
    return Averaged((signal / total).astype(np.float32), (np.sqrt(squared) / total).astype(np.float32))


def visible_level(seen: Averaged, settings: LabelSettings) -> Float32[np.ndarray, "row col"]:
    """The averaged enhancement at which an outline is drawn, in ppm m."""
    return np.asarray(np.maximum(np.float32(settings.edge_snr) * seen.noise_ppm_m, np.float32(settings.faintest_ppm_m)))


def draw_label(
    enhancement_ppm_m: Float[np.ndarray, "row col"],
    noise_ppm_m: Float[np.ndarray, "row col"],
    valid: Bool[np.ndarray, "row col"],
    settings: LabelSettings | None = None,
) -> Bool[np.ndarray, "row col"]:
    """The outline of the visible plume, filled; empty if nothing can be seen.

    Args:
        enhancement_ppm_m: True enhancement.
        noise_ppm_m: Noise-equivalent enhancement of each pixel.
        valid: Pixels that can be seen; the label never leaves them.
        settings: Defaults when not given.
    """
    settings = settings or LabelSettings()
    seen = average(enhancement_ppm_m, noise_ppm_m, valid, settings.eye_sigma_px)
    snr = seen.snr
    if not (snr >= settings.core_snr).any():
        return np.zeros(snr.shape, np.bool_)
    outline = seen.mean_ppm_m >= visible_level(seen, settings)
    if settings.gap_px > 0:
        # Closing on a padded grid: at the border scipy would otherwise erode what the dilation could not see.
        disk = np.hypot(*np.mgrid[-settings.gap_px : settings.gap_px + 1, -settings.gap_px : settings.gap_px + 1])
        padded = np.pad(outline, settings.gap_px, mode="edge")
        padded = ndimage.binary_closing(padded, disk <= settings.gap_px)
        inner = slice(settings.gap_px, -settings.gap_px)
        outline = outline | padded[inner, inner]
    outline = ndimage.binary_fill_holes(outline)
    if settings.outline_sigma_px > 0:
        outline = ndimage.gaussian_filter(outline.astype(np.float32), settings.outline_sigma_px, mode="nearest") >= 0.5
    outline &= valid
    pieces, count = ndimage.label(outline, structure=np.ones((3, 3)))
    if count == 0:
        return np.zeros(snr.shape, np.bool_)
    index = np.arange(1, count + 1)
    large = ndimage.sum_labels(outline, pieces, index) >= settings.least_pixels
    noticed = np.asarray(ndimage.maximum(snr, pieces, index)) >= settings.core_snr
    keep = np.concatenate([[False], large & noticed])
    return np.asarray(keep[pieces])
