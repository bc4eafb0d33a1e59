"""Labels as annotators draw them: the part of a plume that can be seen, as one smooth outline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import ndimage

from flame.errors import FlameError

__all__ = ["Averaged", "LabelSettings", "average", "draw_label", "labels_at_level", "visible_level"]

_NEIGHBOURS = np.ones((3, 3), np.bool_)


@dataclass(frozen=True)
class LabelSettings:
    """How well an annotator sees and how finely they draw.

    Every level follows the noise of the scene itself: in a scene a quarter as noisy, plumes a quarter as strong get the
    same outline.

    Attributes:
        eye_sigma_px: Gaussian over which the eye averages the enhancement map.
        edge_snr: Signal to noise, after that averaging, up to which a plume is followed.
        faintest_ppm_m: However quiet the scene, nothing below this averaged enhancement is followed; 0 for no such end.
        core_snr: A plume is noticed only if somewhere in it this signal to noise is reached.
        hint: Parts of a plume belong together if they are connected above this share of the outline's level.
        gap_px: Pieces nearer than about twice this are joined into one outline.
        outline_sigma_px: Roundness of the drawn outline.
        least_pixels: Smaller pieces are taken for noise.
        margin_px: How far outside of what can be followed the outline is drawn.
        margin_share: The same as a share of the plume's size (radius of a disk of its area): who outlines a large plume
            draws with a coarser pen.
    """

    eye_sigma_px: float = 1.2
    edge_snr: float = 6.5
    faintest_ppm_m: float = 0.0
    core_snr: float = 17.0
    hint: float = 0.5
    gap_px: int = 5
    outline_sigma_px: float = 1.5
    least_pixels: int = 10
    margin_px: float = 0.3
    margin_share: float = 0.08


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
    level = visible_level(seen, settings)
    noticed = _connected(seen.mean_ppm_m >= settings.hint * level, seen.snr >= settings.core_snr)
    if not noticed.any():
        return noticed
    outline = _smooth(noticed & (seen.mean_ppm_m >= level), settings) & valid
    pieces, count = ndimage.label(outline, structure=_NEIGHBOURS)
    large = np.bincount(pieces.ravel(), minlength=count + 1) >= settings.least_pixels
    large[0] = False
    return np.asarray(_with_margin(np.asarray(large[pieces]), settings) & valid)


def labels_at_level(
    enhancement_ppm_m: Float[np.ndarray, "row col"],
    level_ppm_m: float,
    valid: Bool[np.ndarray, "row col"] | None = None,
    sigma_px: float = 0.5,
) -> Bool[np.ndarray, "row col"]:
    """Labels that depend on the truth alone: where the enhancement, smoothed a little, exceeds a level.

    They compare detectors across scenes of different noise, where an annotator's labels would differ.

    Args:
        enhancement_ppm_m: True enhancement, as stored beside every simulated tile.
        level_ppm_m: The level, above 0.
        valid: Pixels that can be seen; all when not given. The label never leaves them.
        sigma_px: Gaussian smoothing before the comparison; 0 for none.

    Raises:
        FlameError: If the level is not above 0.
    """
    if not level_ppm_m > 0:
        raise FlameError(f"a label's level must be above 0 ppm m, got {level_ppm_m:g}")
    smooth = ndimage.gaussian_filter(enhancement_ppm_m.astype(np.float32), sigma_px, mode="nearest")
    above = smooth > np.float32(level_ppm_m)
    return np.asarray(above if valid is None else above & valid)


def _connected(region: Bool[np.ndarray, "row col"], seed: Bool[np.ndarray, "row col"]) -> Bool[np.ndarray, "row col"]:
    """The pieces of a region that hold a seed."""
    pieces, count = ndimage.label(region, structure=_NEIGHBOURS)
    keep = np.zeros(count + 1, np.bool_)
    keep[pieces[seed & region]] = True
    return np.asarray(keep[pieces])


def _with_margin(outline: Bool[np.ndarray, "row col"], settings: LabelSettings) -> Bool[np.ndarray, "row col"]:
    """The outline drawn outside of what it encloses, the farther the larger the plume."""
    area = int(outline.sum())
    reach_px = settings.margin_px + settings.margin_share * float(np.sqrt(area / np.pi))
    if area == 0 or reach_px <= 0:
        return outline
    return np.asarray(ndimage.binary_fill_holes(ndimage.distance_transform_edt(~outline) <= reach_px))


def _smooth(outline: Bool[np.ndarray, "row col"], settings: LabelSettings) -> Bool[np.ndarray, "row col"]:
    """Near pieces joined, holes filled, corners rounded."""
    reach = settings.gap_px
    if reach > 0:
        # Padded, because at the border an erosion takes away what the dilation could not add outside.
        disk = np.hypot(*np.mgrid[-reach : reach + 1, -reach : reach + 1]) <= reach
        closed = ndimage.binary_closing(np.pad(outline, reach, mode="edge"), disk)
        outline = outline | closed[reach:-reach, reach:-reach]
    outline = np.asarray(ndimage.binary_fill_holes(outline))
    if settings.outline_sigma_px > 0:
        share = ndimage.gaussian_filter(outline.astype(np.float32), settings.outline_sigma_px, mode="nearest")
        outline = share >= 0.5
    return outline
