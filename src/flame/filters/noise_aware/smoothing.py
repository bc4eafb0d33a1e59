"""Smoothing with inverse-variance weights, and what is left after a prior of no methane."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32
from scipy.ndimage import correlate1d

__all__ = ["gaussian_taps", "learn_prior", "smooth"]

_REACH = 3.0


def gaussian_taps(sigma_px: float) -> Float32[np.ndarray, " tap"]:
    """A Gaussian cut off at three standard deviations, of sum 1."""
    reach = int(np.ceil(_REACH * sigma_px)) if sigma_px > 0.2 else 0
    place = np.arange(-reach, reach + 1)
    taps = np.exp(-0.5 * np.square(place / max(sigma_px, 1e-3)))
    return np.asarray(taps / taps.sum(), dtype=np.float32)


def smooth(
    estimate: Float32[np.ndarray, "row col"],
    sigma: Float32[np.ndarray, "row col"],
    width_px: tuple[float, float],
) -> tuple[Float32[np.ndarray, "row col"], Float32[np.ndarray, "row col"]]:
    """Gaussian average, each pixel weighted by its inverse variance, and the standard deviation of that average.

    Args:
        estimate: Values; those of infinite sigma do not count.
        sigma: Their standard deviations, noise independent from pixel to pixel.
        width_px: Standard deviation of the Gaussian along rows and columns.

    Returns:
        Mean (0 where nothing is near) and sigma (infinite there).
    """
    weight = np.where(np.isfinite(sigma), np.float32(1) / np.square(sigma), np.float32(0))
    taps = [gaussian_taps(width) for width in width_px]

    def blur(layer: Float32[np.ndarray, "row col"], power: int) -> Float32[np.ndarray, "row col"]:
        for axis, each in enumerate(taps):
            layer = correlate1d(layer, each**power, axis=axis, mode="constant")
        return layer

    total = blur(weight, 1)
    near = total > 0
    safe = np.where(near, total, np.float32(1))
    mean = np.where(near, blur(weight * estimate, 1) / safe, np.float32(0))
    spread = np.where(near, np.sqrt(blur(weight, 2)) / safe, np.float32(np.inf))
    return mean, spread


def learn_prior(mean: Float32[np.ndarray, " pixel"], sigma: Float32[np.ndarray, " pixel"]) -> float:
    """Width of the enhancements in a tile by empirical Bayes, in the unit of the mean.

    Ground without methane and plumes of a common width are a mixture of two normal distributions about zero, the first
    as wide as the noise; expectation and maximisation find how many pixels belong to the second and how wide it is.
    Noise is known, so only its own excess counts. In a tile without plumes the width comes out near the noise.

    Args:
        mean: Smoothed estimates of usable pixels.
        sigma: Their standard deviations.
    """
    known = np.isfinite(sigma) & (sigma > 0)
    m, s = mean[known].astype(np.float64), sigma[known].astype(np.float64)
    if m.size == 0:
        return 1.0
    step = max(1, m.size // 16_384)
    square, variance = np.square(np.maximum(m[::step], 0.0)), np.square(s[::step])
    least = float(np.median(variance))
    width, share = 25.0 * least, 0.02
    for _ in range(30):
        wide = variance + width
        ratio = np.sqrt(variance / wide) * np.exp(np.minimum(0.5 * square * (1 / variance - 1 / wide), 50.0))
        belongs = share * ratio / (1 - share + share * ratio)
        share = float(np.clip(belongs.mean(), 1e-4, 0.5))
        pull = belongs * np.square(width / wide)
        # The expected square of the true enhancement of those that belong: shrunk estimate and what stays unknown.
        width = float((pull @ square + belongs @ (width * variance / wide)) / belongs.sum())
        width = max(width, least)
    return float(np.sqrt(width))
