"""How well a plume could be seen in a tile: local noise of its matched-filter map."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import ndimage

from flame.physics import ABSORPTION_UNIT_PPM_M

__all__ = ["matched_filter", "visible_noise"]

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
