"""The filter's weights at each brightness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

__all__ = ["Levels", "places"]


def places(
    brightness: Float32[np.ndarray, ...], first_log: float, step_log: float, levels: int
) -> Float32[np.ndarray, ...]:
    """Where a brightness lies between levels evenly spaced in the logarithm: 0 at the first, held at both ends."""
    place = (np.log(brightness) - np.float32(first_log)) / np.float32(step_log)
    return np.asarray(np.clip(place, 0, levels - 1), dtype=np.float32)


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
        return places(brightness, self.first_log, self.step_log, len(self.offset))
