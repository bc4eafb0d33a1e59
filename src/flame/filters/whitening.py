"""The inverse of a covariance, regularised only where it must be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64

from flame.filters.errors import FilterError

__all__ = ["Whitening", "leave_one_out_shrinkage", "whitening"]

_DEAD_BAND = 1e-7
_SURELY_REGULAR = 1e-7
_ROUNDING = 1e-11
_NOISELESS = 1e-3
"""Eigenvalues below `_ROUNDING` of the largest are float32's. Those below `_NOISELESS` of the lower quartile lie where
the sensor's noise is missing, as behind interpolated bands; in a healthy image that quartile is noise of one size."""
_LEAST_RANK = 0.25
"""Share of the bands that must vary independently; images resampled to twice their bands have a half."""
_CANDIDATES = np.geomspace(1e-8, 1.0, 25)


@dataclass(frozen=True, eq=False)
class Whitening:
    """A square root of the inverse covariance.

    Attributes:
        matrix: W with `W^T W = C^-1`: whitened spectra are `W x`. It is blind to directions in which nothing varies.
        visible: Projector on the directions that vary, None if all do.
    """

    matrix: Float64[np.ndarray, "rank band"]
    visible: Float64[np.ndarray, "band band"] | None

    def solve(self, spectra: Float[np.ndarray, "band ..."]) -> Float64[np.ndarray, "band ..."]:
        """`C^-1 spectra`."""
        return np.asarray(self.matrix.T @ (self.matrix @ spectra))

    def seen(self, spectrum: Float64[np.ndarray, " band"]) -> Float64[np.ndarray, " band"]:
        """The part of a spectrum that lies in directions that vary."""
        return spectrum if self.visible is None else np.asarray(self.visible @ spectrum)


def _live_bands(variance: Float64[np.ndarray, " band"]) -> Bool[np.ndarray, " band"]:
    deviation = np.sqrt(np.maximum(variance, 0.0))
    live = deviation > _DEAD_BAND * deviation.max()
    if not live.any():
        raise FilterError("no band varies: there is no background to tell a plume from")
    return np.asarray(live)


def whitening(covariance: Float64[np.ndarray, "band band"], shrinkage: float = 0.0) -> Whitening:
    """Invert `(1 - shrinkage) C + shrinkage diag(C)`.

    A regular covariance is inverted as it is. In a singular one (a dead band, bands interpolated from others) the
    directions without noise are left out: there even the faintest target would have boundless contrast.

    Raises:
        FilterError: If no band varies, or most directions do not.
    """
    from scipy.linalg import LinAlgError, cho_factor, eigh  # 11 MB, which tiles with enough pixels do without
    from scipy.linalg.lapack import dpocon, dtrtri

    variance = np.diagonal(covariance)
    live = _live_bands(variance)
    scale = np.sqrt(variance[live])
    correlation = (1.0 - shrinkage) * covariance[np.ix_(live, live)] / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1.0)
    try:
        factor, _ = cho_factor(correlation, lower=True, check_finite=False)
        reciprocal_condition, _ = dpocon(factor, np.abs(correlation).sum(axis=0).max(), uplo="L")
    except LinAlgError:
        reciprocal_condition = 0.0
    if live.all() and reciprocal_condition > _SURELY_REGULAR:
        inverse, _ = dtrtri(factor, lower=1)
        return Whitening(np.tril(inverse) / scale, None)
    values, vectors = eigh(correlation)
    varies = values > max(_ROUNDING * values[-1], _NOISELESS * values[values.size // 4])
    rank = int(np.count_nonzero(varies))
    if rank < _LEAST_RANK * values.size:
        raise FilterError(
            f"{values.size} bands vary in only {rank} independent ways, so many surfaces would look like methane; was "
            "noise removed from the image? If it must be used, set BackgroundSettings(shrinkage=1e-4)"
        )
    values, vectors = values[varies], vectors[:, varies]
    matrix = np.zeros((values.size, live.size))
    matrix[:, live] = (vectors / np.sqrt(values)).T / scale
    if rank == live.size:
        return Whitening(matrix, None)
    visible = np.zeros_like(covariance)
    visible[np.ix_(live, live)] = scale[:, None] * (vectors @ vectors.T) / scale
    return Whitening(matrix, visible)


def leave_one_out_shrinkage(spectra: Float[np.ndarray, "band pixel"]) -> float:
    """Shrinkage to the diagonal under which each spectrum is likeliest given all the others.

    Theiler, "The incredible shrinking covariance estimator", Proc. SPIE 8391 (2012): with G = (1 - a) S + a diag(S),
    b = (1 - a) / (n - 1) and r = x^T G^-1 x, the mean of `ln(1 - b r) + r / (1 - b r) + ln |G|` is least.
    """
    count = spectra.shape[1]
    centred = spectra.astype(np.float64)
    centred -= centred.mean(axis=1, keepdims=True)
    variance = np.square(centred).mean(axis=1)
    live = _live_bands(variance)
    centred = centred[live] / np.sqrt(variance[live, None])
    sample = centred @ centred.T / (count - 1)
    best, least = 1.0, np.inf
    for shrinkage in _CANDIDATES:
        shrunk = (1.0 - shrinkage) * sample
        np.fill_diagonal(shrunk, np.diagonal(sample))
        try:
            factor = np.linalg.cholesky(shrunk)
        except np.linalg.LinAlgError:
            continue
        distance = np.square(np.linalg.solve(factor, centred)).sum(axis=0)
        others = 1.0 - (1.0 - shrinkage) / (count - 1) * distance
        if (others <= 0).any():
            continue
        cost = float(np.mean(np.log(others) + distance / others)) + 2.0 * float(np.log(np.diagonal(factor)).sum())
        if cost < least:
            best, least = float(shrinkage), cost
    return best
