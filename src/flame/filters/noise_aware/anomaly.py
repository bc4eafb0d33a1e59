"""Pixels that the tile's covariance does not describe."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Float64

from flame.filters.noise_aware.fit import Fit
from flame.filters.noise_aware.moments import BinnedSample

__all__ = ["DIRECTIONS", "Anomaly", "find_anomalies"]

DIRECTIONS = 8
"""Along which the ground varies most."""

_MOST_Z = 10.0
_PARTS = 24
_ROUNDS = 12


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


def _leading(
    matrix: Float64[np.ndarray, "n n"], count: int
) -> tuple[Float64[np.ndarray, " count"], Float64[np.ndarray, "n count"]]:
    """The largest eigenvalues and their vectors, by subspace iteration: few are wanted, and they stand well apart."""
    count = min(count, len(matrix))
    vectors = np.linalg.qr(matrix[:, :: max(1, len(matrix) // (2 * count))])[0]
    for _ in range(_ROUNDS):
        vectors = np.linalg.qr(matrix @ vectors)[0]
    values, turned = np.linalg.eigh(vectors.T @ matrix @ vectors)
    return values[::-1][:count], (vectors @ turned[:, ::-1])[:, :count]


def find_anomalies(
    binned: BinnedSample,
    fit: Fit,
    spectrum: Float64[np.ndarray, " band"],
    plume_ppm_m: Float32[np.ndarray, " pixel"],
) -> Anomaly:
    """Directions of most clutter over noise, and how the spread of the estimate grows with the distance along them."""
    scale = np.sqrt(np.maximum(fit.mean_noise, 1e-6 * np.diagonal(fit.covariance)))
    values, vectors = _leading(fit.covariance / np.outer(scale, scale), DIRECTIONS)
    direction = (vectors / scale[:, None]).T
    anomaly = Anomaly(
        direction=direction,
        mean=direction @ fit.mean,
        methane=direction @ spectrum,
        clutter=np.maximum(values - 1.0, 1e-3 * values) if fit.mean_noise.any() else values,
        read_out=np.square(direction) @ fit.law.read_out,
        shot=np.square(direction) @ fit.law.shot,
        typical=1.0,
        widening=(1.0, 0.0),
    )
    if binned.order.size < _PARTS * 4:
        return anomaly
    inverse = 1.0 / binned.brightness.astype(np.float64)
    along = binned.respond(direction) - anomaly.mean[:, None] - np.outer(anomaly.methane, fit.estimate_ppm_m)
    expected = anomaly.clutter[:, None] + np.outer(anomaly.read_out, inverse**2) + np.outer(anomaly.shot, inverse)
    distance = np.mean(np.square(along) / expected, axis=0)
    typical = float(np.median(distance))
    excess = np.maximum(distance / typical - 1.0, 0.0)
    z = (fit.estimate_ppm_m - plume_ppm_m) / fit.sigma_ppm_m
    squares = np.minimum(np.square(z), _MOST_Z**2)
    order = np.argsort(excess, kind="stable")
    size, more = divmod(order.size, _PARTS)
    ends = np.arange(_PARTS + 1) * size + np.minimum(np.arange(_PARTS + 1), more)
    sums = (np.add.reduceat(values[order], ends[:-1], dtype=np.float64) for values in (excess, squares))
    x, y = (total / np.diff(ends) for total in sums)
    # Relative errors alike, so that the few outlying pixels count as much as the many others.
    flat, rising = _nonnegative_line(x, y)
    return replace(anomaly, typical=typical, widening=(max(flat, 0.5), rising))


def _nonnegative_line(x: Float64[np.ndarray, " part"], y: Float64[np.ndarray, " part"]) -> tuple[float, float]:
    """a and b, neither below zero, with which (a + b x) / y is nearest to 1.

    Of the four possible sets of coefficients that are not zero the best allowed one is it; SciPy's solver would bring
    16 MB of other optimisers into flight.
    """
    one, by_x = 1.0 / y, x / y
    products = np.array([[one @ one, one @ by_x], [one @ by_x, by_x @ by_x]])
    sums = np.array([one.sum(), by_x.sum()])
    tried = [np.zeros(2), np.array([sums[0] / products[0, 0], 0.0])]
    if products[1, 1] > 0:
        tried.append(np.array([0.0, sums[1] / products[1, 1]]))
    if np.linalg.det(products) > 1e-12 * products[0, 0] * products[1, 1]:
        tried.append(np.linalg.solve(products, sums))
    allowed = [pair for pair in tried if (pair >= 0).all()]
    best = min(allowed, key=lambda pair: float(pair @ products @ pair - 2.0 * pair @ sums))
    return float(best[0]), float(best[1])
