"""How well a plume can be seen in a tile, and plumes drawn until one is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import ndimage

from flame.physics import ABSORPTION_UNIT_PPM_M, MAX_ENHANCEMENT_PPM_M
from flame.simulate.labels import draw_label
from flame.simulate.plumes import draw_plumes
from flame.simulate.settings import TileSettings
from flame.tile import PlumeSource

__all__ = ["LabelledPlume", "draw_labelled_plume", "matched_filter", "visible_noise"]

_WINDOW_PX = 6.0


def matched_filter(
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
    unit_spectrum: Float[np.ndarray, " band"],
) -> tuple[Float32[np.ndarray, "row col"], float]:
    """Albedo-corrected matched filter with the tile's own mean and covariance, and its theoretical noise.

    The map is what an annotator looks at; the noise is `1 / sqrt(t' C^-1 t)` with target `t = s * mean`. Both in ppm m.
    """
    pixels = radiance[:, valid].astype(np.float64)
    mean = pixels.mean(axis=1)
    albedo = np.maximum(pixels.T @ mean / (mean @ mean), 0.02)
    centred = pixels - mean[:, None]
    covariance = centred @ centred.T / centred.shape[1]
    covariance += 1e-9 * np.trace(covariance) / len(mean) * np.eye(len(mean))
    target = unit_spectrum * mean / ABSORPTION_UNIT_PPM_M
    weight = np.linalg.solve(covariance, target)
    gain = float(weight @ target)
    result = np.zeros(valid.shape, np.float32)
    result[valid] = (weight @ centred / (gain * albedo)).astype(np.float32)
    return result, float(1.0 / np.sqrt(gain))


def visible_noise(
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
    unit_spectrum: Float[np.ndarray, " band"],
) -> Float32[np.ndarray, "row col"]:
    """Noise-equivalent enhancement of each pixel, in ppm m.

    It is the local root mean square of the matched-filter map of the same tile without its plume: sensor noise,
    clutter and dark ground as the annotator's map shows them.
    """
    seen, _ = matched_filter(radiance, valid, unit_spectrum)
    weight = ndimage.gaussian_filter(valid.astype(np.float32), _WINDOW_PX)
    power = ndimage.gaussian_filter(np.square(seen), _WINDOW_PX)
    noise = np.sqrt(power / np.maximum(weight, 1e-3))
    typical = float(np.sqrt(np.mean(np.square(seen[valid]))))
    return np.maximum(noise, np.float32(0.1 * typical)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class LabelledPlume:
    """The plumes of one tile and their label.

    Attributes:
        slant_ppm_m: Enhancement along the light's path.
        sources: The sources behind it.
        label: What an annotator would outline.
    """

    slant_ppm_m: Float32[np.ndarray, "row col"]
    sources: tuple[PlumeSource, ...]
    label: Bool[np.ndarray, "row col"]


def draw_labelled_plume(
    rng: np.random.Generator,
    settings: TileSettings,
    path_factor: float,
    noise_ppm_m: Float32[np.ndarray, "row col"],
    valid: Bool[np.ndarray, "row col"],
) -> LabelledPlume:
    """Draws the plumes of a tile; those that nobody could see are drawn again a few times.

    A data set made by annotators holds plumes because they were seen. Some stay invisible here all the same, as leaks
    below the limit do under real tiles labelled clean.

    Args:
        rng: Source of randomness.
        settings: Plume and label settings, pixel size.
        path_factor: From vertical column to enhancement along the light's path.
        noise_ppm_m: What `visible_noise` returned.
        valid: Pixels that can be seen.
    """
    plume_settings = settings.plume
    for _ in range(1 + settings.redraws):
        plume = draw_plumes(rng, valid.shape, settings.pixel_m, plume_settings)
        slant = np.minimum(np.float32(path_factor) * plume.column_ppm_m, np.float32(MAX_ENHANCEMENT_PPM_M))
        label = draw_label(slant, noise_ppm_m, valid, settings.label)
        if not plume.sources or label.any():
            break
        present = np.array(plume_settings.source_shares[1:])
        plume_settings = replace(plume_settings, source_shares=(0.0, *(present / present.sum()).tolist()))
    return LabelledPlume(slant, plume.sources, label)
