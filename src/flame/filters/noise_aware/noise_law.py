"""How the noise of each band depends on the brightness of a pixel, learned from a tile."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Float64

from flame.filters.noise_aware.moments import Moments
from flame.physics import BandSet, noise_model

__all__ = [
    "MeasuredNoise",
    "NoiseLaw",
    "fit_law",
    "implied_noise",
    "law_of_sensor",
    "measure_noise",
    "with_least_noise",
]

_LEAST_DETERMINANT = 1e-14
"""Of a matrix whose diagonal is 1: below it lies only the rounding of numbers that are equal."""
_LEAST_SHARE = 0.2
"""No band is believed to have less than this share of the noise that the middle band has."""


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """Variance of log-radiance by noise: `read_out / r^2 + shot / r` at brightness r, the paper's heteroscedastic C_i.

    With radiance `L = r m` and reference spectrum m that is `(a + b L) / L^2`.

    Attributes:
        read_out: `a / m^2`, each band.
        shot: `b / m`, each band.
        doubtful: Bands whose noise is not their own but was borrowed; None if none was.
    """

    read_out: Float64[np.ndarray, " band"]
    shot: Float64[np.ndarray, " band"]
    doubtful: Bool[np.ndarray, " band"] | None = None

    def mean(self, moments: Moments, weight: Float64[np.ndarray, " bin"]) -> Float64[np.ndarray, " band"]:
        """Mean variance of each band over a sample with a weight for the pixels of each bin."""
        share = weight * moments.count / float(weight @ moments.count)
        return np.asarray(self.read_out * (share @ moments.inverse_square) + self.shot * (share @ moments.inverse))

    def variance(self, brightness: Float[np.ndarray, " pixel"]) -> Float64[np.ndarray, "band pixel"]:
        """Variance of each band at each brightness."""
        inverse = 1.0 / brightness
        return np.asarray(np.outer(self.read_out, inverse * inverse) + np.outer(self.shot, inverse))


@dataclass(frozen=True, eq=False)
class MeasuredNoise:
    """What a tile shows of its noise.

    Attributes:
        variance: Variance of each band that the other bands do not explain, in each bin of brightness.
        brightness: Brightness of each bin.
    """

    variance: Float64[np.ndarray, "bin band"]
    brightness: Float64[np.ndarray, " bin"]


def measure_noise(moments: Moments, bands: int) -> MeasuredNoise:
    """Conditional variances `1 / diag(C^-1)` of the first bands in each bin, which needs more pixels than bands."""
    covariance = np.stack([moments.covariance_in(number, bands) for number in range(len(moments.count))])
    scale = np.sqrt(np.einsum("nbb->nb", covariance))
    covariance /= scale[:, :, None] * scale[:, None, :]
    covariance[:, np.arange(bands), np.arange(bands)] = 1.0 + 1e-9
    # The residuals of a regression on all other bands, with the degrees of freedom it leaves.
    left = moments.count / (moments.count - bands)
    variance = np.square(scale) / np.einsum("nbb->nb", np.linalg.inv(covariance)) * left[:, None]
    return MeasuredNoise(np.maximum(variance, 0.0), 1.0 / moments.inverse)


def fit_law(seen: MeasuredNoise) -> NoiseLaw:
    """Non-negative fit of `read_out / r^2 + shot / r + constant`, relative errors alike; the constant is ground."""
    r = seen.brightness
    terms = np.stack([r**-2, 1.0 / r, np.ones_like(r)], axis=1)
    scale = terms.max(axis=0)
    seen_at_all = (seen.variance > 0).all(axis=0)
    relative = (terms / scale)[None] / np.where(seen_at_all, seen.variance, 1.0).T[:, :, None]
    found = _non_negative(relative) / scale
    return NoiseLaw(*np.where(seen_at_all, found[:, :2].T, 0.0))


def _non_negative(terms: Float64[np.ndarray, "band bin term"]) -> Float64[np.ndarray, "band term"]:
    """Least squares of `terms @ x = 1` for all bands at once, x not negative.

    The solution is the plain one of the terms it uses, so of all choices of terms whose plain solution is not negative
    it is the one that fits best. Where all bins are of one brightness, as in a saturated image, terms cannot be told
    apart: choices of several are left out.
    """
    count = terms.shape[2]
    square, right = terms.transpose(0, 2, 1) @ terms, terms.sum(axis=1)
    best, most = np.zeros((len(terms), count)), np.zeros(len(terms))
    for size in range(1, count + 1):
        for chosen in map(list, combinations(range(count), size)):
            matrix = square[:, chosen][:, :, chosen]
            told_apart = np.linalg.det(matrix) > _LEAST_DETERMINANT * np.einsum("bii->bi", matrix).prod(axis=1)
            matrix[~told_apart] = np.eye(size)
            solution = np.linalg.solve(matrix, right[:, chosen, None])[..., 0]
            explained = (solution * right[:, chosen]).sum(axis=1)
            better = told_apart & (solution >= 0).all(axis=1) & (explained > most)
            most = np.where(better, explained, most)
            filled = np.zeros_like(best)
            filled[:, chosen] = solution
            best = np.where(better[:, None], filled, best)
    return best


def implied_noise(
    seen: MeasuredNoise, noise: Float64[np.ndarray, "bin band"], covariance: Float64[np.ndarray, "bin band band"]
) -> MeasuredNoise:
    """The noise behind conditional variances: what other bands cannot explain is not all a band's own noise.

    Their own noise and the ground they cannot see add to it. How much follows from a first law.

    Args:
        seen: The conditional variances.
        noise: Noise in each bin by the first law.
        covariance: Covariance in each bin by the first law.
    """
    expected = 1.0 / np.einsum("nbb->nb", np.linalg.inv(covariance))
    left = seen.variance - expected + noise
    return MeasuredNoise(np.maximum(left, 0.05 * seen.variance), seen.brightness)


def law_of_sensor(name: str, bands: BandSet, reference: Float64[np.ndarray, " band"]) -> NoiseLaw:
    """The law of a known sensor at a reference spectrum in µW cm-2 nm-1 sr-1."""
    model = noise_model(name)
    square = model.sigma(np.zeros_like(reference), bands) ** 2
    return NoiseLaw(square / reference**2, (model.sigma(reference, bands) ** 2 - square) / reference**2)


def with_least_noise(law: NoiseLaw) -> NoiseLaw:
    """The law with that of the middle band where a band seems to have hardly any noise.

    That is a band interpolated from others, or one that another was interpolated from. Taken at its word, methane would
    have boundless contrast there.
    """
    total = law.read_out + law.shot
    middle = np.argsort(total)[total.size // 2]
    doubtful = total < _LEAST_SHARE * total[middle]
    return NoiseLaw(
        np.where(doubtful, law.read_out[middle], law.read_out), np.where(doubtful, law.shot[middle], law.shot), doubtful
    )
