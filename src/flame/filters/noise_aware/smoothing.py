"""Smoothing with inverse-variance weights, and what is left after a prior of no methane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32
from scipy.ndimage import correlate1d

from flame.filters.errors import FilterError

__all__ = ["Prior", "gaussian_taps", "honest_factor", "learn_prior", "smooth"]

_REACH = 3.0
_SAMPLE = 8192
_ROUNDS = 30
_LEAST_SHARE = 1e-4


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


def honest_factor(z: Float32[np.ndarray, " pixel"]) -> np.float32:
    """By how much sigma must grow to be the robust spread of estimate / sigma; at least 1.

    A smoothed map needs it: noise is independent from pixel to pixel, ground is not.
    """
    return np.float32(max(1.0, 1.4826 * float(np.median(np.abs(z - np.median(z)))))) if z.size else np.float32(1)


@dataclass(frozen=True)
class Prior:
    """What to expect of a pixel before looking: most have no methane, some have, of a common width.

    Attributes:
        width_ppm_m: Standard deviation of the enhancement of those that have some, normal about zero.
        share: How many they are.
    """

    width_ppm_m: float
    share: float

    def __post_init__(self) -> None:
        if not (self.width_ppm_m > 0 and 0 < self.share < 1):
            raise FilterError(f"a prior needs a width above zero and a share between 0 and 1, got {self}")

    def belongs(
        self, mean: Float[np.ndarray, "*pixels"], variance: Float[np.ndarray, "*pixels"]
    ) -> Float[np.ndarray, "*pixels"]:
        """Probability that a pixel has methane, given an estimate and its variance; a negative one counts as zero."""
        wide = variance + mean.dtype.type(self.width_ppm_m**2)
        evidence = np.square(np.maximum(mean, 0)) * (1 / variance - 1 / wide)
        odds = self.share / (1 - self.share) * np.sqrt(variance / wide) * np.exp(np.minimum(0.5 * evidence, 50))
        return np.asarray(odds / (1 + odds), dtype=mean.dtype)


def learn_prior(mean: Float32[np.ndarray, " pixel"], sigma: Float32[np.ndarray, " pixel"]) -> Prior:
    """The prior under which a tile is likeliest, by expectation and maximisation (empirical Bayes).

    Noise is known, so only what exceeds it counts. In a tile without plumes the share falls to its least, 1e-4, and the
    width comes out near that of a few outliers.

    Args:
        mean: Smoothed estimates of usable pixels.
        sigma: Their standard deviations.
    """
    known = np.isfinite(sigma) & (sigma > 0)
    m, s = mean[known].astype(np.float64), sigma[known].astype(np.float64)
    if m.size == 0:
        return Prior(1.0, _LEAST_SHARE)
    step = max(1, m.size // _SAMPLE)
    m, variance = np.maximum(m[::step], 0.0), np.square(s[::step])
    least = float(np.median(variance))
    prior = Prior(5.0 * least**0.5, 0.02)
    for _ in range(_ROUNDS):
        belongs = prior.belongs(m, variance)
        width = prior.width_ppm_m**2
        wide = variance + width
        # The expected square of the true enhancement of those that belong: shrunk estimate and what stays unknown.
        square = belongs @ (np.square(m * width / wide) + width * variance / wide) / belongs.sum()
        share = float(np.clip(belongs.mean(), _LEAST_SHARE, 0.5))
        prior = Prior(float(np.sqrt(max(square, least))), share)
    return prior
