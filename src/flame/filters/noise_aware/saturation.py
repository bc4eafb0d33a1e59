"""From the linear estimate to the true enhancement: absorption lines saturate, weights do not know it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float32, Float64

from flame.physics import MAX_ENHANCEMENT_PPM_M, BandSet, transmittance

__all__ = ["Saturation", "log_transmittance", "saturation_of"]

_NODES = 129


@dataclass(frozen=True, eq=False)
class Saturation:
    """True enhancement against what a linear filter reads, both in ppm m.

    Attributes:
        step: From one node of the reading to the next; the first is 0.
        enhancement: True enhancement at each node.
        slope: Its slope at each node.
    """

    step: float
    enhancement: Float32[np.ndarray, " node"]
    slope: Float32[np.ndarray, " node"]

    @property
    def table(self) -> Float32[np.ndarray, "2 node"]:
        """Enhancement and slope, as the kernels take them."""
        return np.stack([self.enhancement, self.slope])

    def invert(
        self, reading: Float32[np.ndarray, "*pixels"]
    ) -> tuple[Float32[np.ndarray, "*pixels"], Float32[np.ndarray, "*pixels"]]:
        """True enhancement and the factor on its sigma; below zero and beyond the table along the end's slope."""
        last = len(self.enhancement) - 1
        place = reading / np.float32(self.step)
        below = np.clip(place, 0, last - 1).astype(np.int32)
        share = place - below.astype(np.float32)
        base = self.enhancement[below]
        rise = self.enhancement[below + 1] - base
        inside = np.clip(share, 0, 1)
        slope = self.slope[below] * (1 - inside) + self.slope[below + 1] * inside
        beyond = np.where(place < 0, place, np.maximum(place - last, 0)) * np.float32(self.step)
        return base + rise * inside + beyond * slope, slope


@lru_cache(maxsize=4)
def log_transmittance(bands: BandSet) -> tuple[Float64[np.ndarray, " node"], Float64[np.ndarray, "band node"]]:
    """Enhancements, and the logarithm of their transmittance: the same for every tile of a sensor."""
    enhancement = MAX_ENHANCEMENT_PPM_M * np.linspace(0.0, 1.0, 4 * _NODES) ** 2
    return enhancement, np.log(transmittance(enhancement, bands))


def saturation_of(bands: BandSet, weight: Float64[np.ndarray, " band"]) -> Saturation:
    """The curve for one set of weights: its reading of the true transmittance of each enhancement, inverted."""
    enhancement, logs = log_transmittance(bands)
    reading = weight @ logs
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(reading)) > 0])
    top = reading[rising][-1]
    even = np.linspace(0.0, top, _NODES)
    curve = np.interp(even, reading[rising], enhancement[rising])
    slope = np.gradient(curve, even)
    return Saturation(float(even[1]), curve.astype(np.float32), slope.astype(np.float32))
