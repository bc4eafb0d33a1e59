"""The filter's weights at each brightness, and what tells a pixel that the tile's covariance does not describe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

__all__ = ["Anomaly", "Levels"]


@dataclass(frozen=True, eq=False)
class Levels:
    """The filter at brightness levels that are evenly spaced in the logarithm.

    Attributes:
        first_log, step_log: Log-brightness of the first level, and from one to the next.
        weight: Weights of log-radiance, each level: `C^-1 s / (s^T C^-1 s)`, in ppm m.
        offset: What to subtract, in ppm m: the response of the mean spectrum and the level's own median.
        neighbour_gain: Factor on what the neighbours say, in ppm m.
        sigma_ppm_m: Standard deviation of the estimate over plume-free ground.
        log_noise: Noise of log-radiance in the middle band.
    """

    first_log: float
    step_log: float
    weight: Float64[np.ndarray, "level band"]
    offset: Float64[np.ndarray, " level"]
    neighbour_gain: Float64[np.ndarray, " level"]
    sigma_ppm_m: Float64[np.ndarray, " level"]
    log_noise: Float64[np.ndarray, " level"]

    def place(self, brightness: Float32[np.ndarray, ...]) -> Float32[np.ndarray, ...]:
        """Where a brightness lies between the levels: 0 at the first, held at both ends."""
        place = (np.log(brightness) - np.float32(self.first_log)) / np.float32(self.step_log)
        return np.asarray(np.clip(place, 0, len(self.offset) - 1), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Anomaly:
    """How unlike the tile's ground a pixel is, along the directions in which the ground varies most.

    Where it is large the clutter is not what the covariance says, and the estimate's sigma grows, as it does under an
    elliptically contoured distribution: Theiler and Foy, "EC-GLRT: detecting weak plumes in non-Gaussian hyperspectral
    clutter using an elliptically-contoured generalized likelihood ratio test", IGARSS (2008).

    Attributes:
        direction: Weights of log-radiance.
        mean: What the mean spectrum has along them.
        methane: What 1 ppm m of methane changes along them.
        clutter, read_out, shot: Variance along them by ground and, at brightness r, by noise: `/ r^2` and `/ r`.
        typical: Median of the mean square over its expectation.
        widening: (c0, c1): variance of the estimate is multiplied by `c0 + c1 max(anomaly - 1, 0)`.
    """

    direction: Float64[np.ndarray, "direction band"]
    mean: Float64[np.ndarray, " direction"]
    methane: Float64[np.ndarray, " direction"]
    clutter: Float64[np.ndarray, " direction"]
    read_out: Float64[np.ndarray, " direction"]
    shot: Float64[np.ndarray, " direction"]
    typical: float
    widening: tuple[float, float]
