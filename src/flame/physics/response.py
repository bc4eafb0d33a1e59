"""Spectral response: how a band averages a fine spectrum."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from flame.physics.bands import BandError, BandSet

__all__ = ["FWHM_PER_SIGMA", "gaussian_response"]

FWHM_PER_SIGMA = 2.0 * np.sqrt(2.0 * np.log(2.0))


def gaussian_response(
    wavelength_nm: Float[np.ndarray, " wavelength"],
    bands: BandSet,
    sample_weight: Float[np.ndarray, " wavelength"] | None = None,
) -> Float[np.ndarray, "band wavelength"]:
    """Weights with which each band averages a finely sampled spectrum; every row sums to one.

    Args:
        wavelength_nm: Where the fine spectrum is sampled, in nm.
        bands: The bands that look at it.
        sample_weight: Spectral width (or sample count) behind each sample; equal when not given.

    Raises:
        BandError: If a band lies outside the sampled range, where its average would be made up.
    """
    low_nm, high_nm = float(wavelength_nm[0]), float(wavelength_nm[-1])
    outside = (bands.centres_nm < low_nm) | (bands.centres_nm > high_nm)
    if outside.any():
        raise BandError(
            f"band at {bands.centres_nm[outside][0]:.1f} nm lies outside the spectrum's {low_nm:.0f}-{high_nm:.0f} nm; "
            "select the bands inside it first, for example with BandSet.methane()"
        )
    sigma_nm = bands.fwhm_nm[:, None] / FWHM_PER_SIGMA
    weight = wavelength_nm[None, :].astype(np.float64) - bands.centres_nm[:, None]
    weight /= sigma_nm
    np.square(weight, out=weight)
    weight *= -0.5
    np.exp(weight, out=weight)
    if sample_weight is not None:
        weight *= sample_weight[None, :]
    weight /= weight.sum(axis=1, keepdims=True)
    return np.asarray(weight)
