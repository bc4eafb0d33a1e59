"""Whether probabilities are what they say: of all pixels given 30 %, 30 % should be plume."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Float64

__all__ = ["Reliability"]

_BINS = 20


@dataclass(eq=False)
class Reliability:
    """Accumulates probabilities and labels, tile by tile.

    Attributes:
        count: Pixels in each bin of probability.
        said: Sum of their probabilities.
        true: How many of them are plume.
        least: Pixels of a lower probability are left out: nearly all of a scene is surely no plume and would hide
            every error.
    """

    count: Float64[np.ndarray, " bin"] = field(default_factory=lambda: np.zeros(_BINS))
    said: Float64[np.ndarray, " bin"] = field(default_factory=lambda: np.zeros(_BINS))
    true: Float64[np.ndarray, " bin"] = field(default_factory=lambda: np.zeros(_BINS))
    least: float = 0.05

    def add(
        self,
        probability: Float[np.ndarray, "row col"],
        label: Bool[np.ndarray, "row col"],
        valid: Bool[np.ndarray, "row col"],
    ) -> None:
        """Adds one tile."""
        chosen = valid & (probability >= self.least)
        values = probability[chosen].astype(np.float64)
        bins = np.minimum((values * _BINS).astype(np.intp), _BINS - 1)
        self.count += np.bincount(bins, minlength=_BINS)
        self.said += np.bincount(bins, values, minlength=_BINS)
        self.true += np.bincount(bins, label[chosen].astype(np.float64), minlength=_BINS)

    @property
    def error(self) -> float:
        """Expected calibration error: distance between said and true, over all pixels; NaN without any."""
        total = float(self.count.sum())
        return float(np.abs(self.said - self.true).sum() / total) if total else float("nan")

    def curve(self) -> tuple[Float64[np.ndarray, " point"], Float64[np.ndarray, " point"]]:
        """Mean probability said, and share that was true, of each bin that holds pixels."""
        held = self.count > 0
        return self.said[held] / self.count[held], self.true[held] / self.count[held]
