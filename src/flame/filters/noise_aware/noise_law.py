"""How the noise of each band depends on the brightness of a pixel, learned from a tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64
from scipy.optimize import nnls

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

_LEAST_SHARE = 0.2
"""No band is believed to have less than this share of the noise that the middle band has; a band interpolated from its
neighbours would seem to have none."""


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """Variance of log-radiance by noise: `read_out / r^2 + shot / r` at brightness r, the paper's heteroscedastic C_i.

    With radiance `L = r m` and reference spectrum m that is `(a + b L) / L^2`.

    Attributes:
        read_out: `a / m^2`, each band.
        shot: `b / m`, each band.
    """

    read_out: Float64[np.ndarray, " band"]
    shot: Float64[np.ndarray, " band"]

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


def measure_noise(
    log_spectra: Float[np.ndarray, "band pixel"], brightness: Float[np.ndarray, " pixel"], bins: int
) -> MeasuredNoise:
    """Conditional variances `1 / diag(C^-1)` in bins of equally many pixels; each needs more pixels than bands."""
    bands = len(log_spectra)
    variances, places = [], []
    for chosen in np.array_split(np.argsort(brightness, kind="stable"), bins):
        part = log_spectra[:, chosen].astype(np.float64)
        part -= part.mean(axis=1, keepdims=True)
        covariance = part @ part.T
        covariance[np.diag_indices(bands)] *= 1.0 + 1e-9
        # The residuals of a regression on all other bands, with the degrees of freedom it leaves.
        variances.append(1.0 / np.diagonal(np.linalg.inv(covariance)) / (chosen.size - bands))
        places.append(1.0 / np.mean(1.0 / brightness[chosen]))
    return MeasuredNoise(np.maximum(np.array(variances), 0.0), np.array(places))


def fit_law(seen: MeasuredNoise) -> NoiseLaw:
    """Non-negative fit of `read_out / r^2 + shot / r + constant`, relative errors alike; the constant is ground."""
    r = seen.brightness
    terms = np.stack([r**-2, 1.0 / r, np.ones_like(r)], axis=1)
    scale = terms.max(axis=0)
    found = np.zeros((2, seen.variance.shape[1]))
    for band, variance in enumerate(seen.variance.T):
        if (variance > 0).all():
            found[:, band] = (nnls(terms / scale / variance[:, None], np.ones_like(r))[0] / scale)[:2]
    return NoiseLaw(*found)


def implied_noise(seen: MeasuredNoise, law: NoiseLaw, clutter: Float64[np.ndarray, "band band"]) -> MeasuredNoise:
    """The noise behind conditional variances: what other bands cannot explain is not all a band's own noise.

    Their own noise and the ground they cannot see add to it. How much follows from the clutter and a first law.
    """
    noise = law.variance(seen.brightness).T
    expected = [1.0 / np.diagonal(np.linalg.inv(clutter + np.diag(row))) for row in noise]
    left = seen.variance - np.array(expected) + noise
    return MeasuredNoise(np.maximum(left, 0.05 * seen.variance), seen.brightness)


def law_of_sensor(name: str, bands: BandSet, reference: Float64[np.ndarray, " band"]) -> NoiseLaw:
    """The law of a known sensor at a reference spectrum in µW cm-2 nm-1 sr-1."""
    model = noise_model(name)
    square = model.sigma(np.zeros_like(reference), bands) ** 2
    return NoiseLaw(square / reference**2, (model.sigma(reference, bands) ** 2 - square) / reference**2)


def with_least_noise(law: NoiseLaw) -> NoiseLaw:
    """The law with a floor under each band's noise at the reference brightness."""
    total = law.read_out + law.shot
    missing = np.maximum(_LEAST_SHARE * np.median(total) - total, 0.0)
    return NoiseLaw(law.read_out, law.shot + missing)
