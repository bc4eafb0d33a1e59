"""How well a plume can be seen in a tile, and plumes drawn until one is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import ndimage

from flame.physics import ABSORPTION_UNIT_PPM_M, MAX_ENHANCEMENT_PPM_M
from flame.simulate.labels import draw_label
from flame.simulate.mapping import Mapping
from flame.simulate.plumes import draw_plumes
from flame.simulate.settings import TileSettings
from flame.tile import PlumeSource

__all__ = ["LabelledPlume", "draw_labelled_plume", "matched_filter", "visible_noise"]

_WINDOW_PX = 6.0
_CLIP = 4.0
_RAISE = 1.3


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
    clutter and dark ground as the annotator's map shows them. Single bright false alarms (a roof, a tank) are clipped:
    they do not hide a plume beside them.
    """
    seen, _ = matched_filter(radiance, valid, unit_spectrum)
    typical = np.float32(1.4826 * np.median(np.abs(seen[valid])))
    power = np.where(valid, np.square(np.clip(seen, -_CLIP * typical, _CLIP * typical)), np.float32(0))
    weight = ndimage.gaussian_filter(valid.astype(np.float32), _WINDOW_PX)
    noise = np.sqrt(ndimage.gaussian_filter(power, _WINDOW_PX) / np.maximum(weight, 1e-3))
    return np.asarray(np.maximum(noise, 0.2 * typical))


@dataclass(frozen=True, eq=False)
class LabelledPlume:
    """The plumes of one tile and their label.

    Attributes:
        slant_ppm_m: Enhancement as a retrieval reports it, see `flame.physics.light_path`.
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
    mapping: Mapping | None = None,
) -> LabelledPlume:
    """Draws the plumes of a tile and lets those emit more that nobody could see.

    A data set made by annotators holds plumes because they were seen. So an invisible plume's emission rate is raised
    in steps until it is labelled. One that the limit would not make visible keeps its rate: some stay invisible, as
    leaks do under real tiles labelled clean.

    Args:
        rng: Source of randomness.
        settings: Plume and label settings, pixel size.
        path_factor: From vertical column to enhancement, see `flame.physics.light_path`.
        noise_ppm_m: What `visible_noise` returned, on the map if there is one.
        valid: Pixels that can be seen, on the map if there is one.
        mapping: From ground to map, if the annotator sees a map. The label is on it, the enhancement is not yet.
    """
    plume = draw_plumes(rng, valid.shape, settings.pixel_m, settings.plume)

    def raised(factor: float) -> LabelledPlume:
        column_ppm_m = np.float32(factor * path_factor) * plume.column_ppm_m
        slant_ppm_m = np.minimum(column_ppm_m, np.float32(MAX_ENHANCEMENT_PPM_M))
        sources = tuple(replace(source, emission_kg_h=factor * source.emission_kg_h) for source in plume.sources)
        seen_ppm_m = slant_ppm_m if mapping is None else mapping(slant_ppm_m)
        return LabelledPlume(slant_ppm_m, sources, draw_label(seen_ppm_m, noise_ppm_m, valid, settings.label))

    as_drawn = raised(1.0)
    if not plume.sources or as_drawn.label.any() or not raised(settings.raise_limit).label.any():
        return as_drawn
    factor = 1.0
    while factor * _RAISE < settings.raise_limit:
        factor *= _RAISE
        seen = raised(factor)
        if seen.label.any():
            return seen
    return raised(settings.raise_limit)
