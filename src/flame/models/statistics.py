"""Mean and covariance of a training set's log-radiance: part of what a network has learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["SpectralStatistics"]


@dataclass(frozen=True, eq=False)
class SpectralStatistics:
    """Mean and covariance of log-radiance over the usable pixels of a training set."""

    mean: Float[np.ndarray, " band"]
    covariance: Float[np.ndarray, "band band"]

    @classmethod
    def standard(cls, bands: int) -> SpectralStatistics:
        """Zero mean and unit covariance: no conditioning."""
        return cls(np.zeros(bands), np.eye(bands))
