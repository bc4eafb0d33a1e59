"""Functions of wavelength on one fine grid, and how the bands of a sensor see them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from flame.physics import BandSet

__all__ = ["GRID_NM", "WINDOWS_NM", "band_weights", "window_shares"]

GRID_NM = np.arange(2100.0, 2501.0, 4.0)
"""Where functions of wavelength have their values."""

WINDOWS_NM = np.arange(2140.0, 2461.0, 40.0)
"""Centres of the parts of the spectrum whose contributions to the estimate are told apart."""

_FWHM_PER_SIGMA = 2.0 * np.sqrt(2.0 * np.log(2.0))
_UNIT_NM = 5.0
"""Spacing of bands that counts as 1: a sum over the bands of a coarser sensor then is as large as one of a finer."""


def _spacing_nm(bands: BandSet) -> Float64[np.ndarray, " band"]:
    return np.asarray(np.abs(np.gradient(bands.centres_nm)), dtype=np.float64)


def band_weights(bands: BandSet) -> Float64[np.ndarray, "cell band"]:
    """The matrix that makes a function on the grid a weight for each band.

    Each band takes the function's mean over its response, times the stretch of spectrum that it stands for.
    """
    apart = (GRID_NM[:, None] - bands.centres_nm) * _FWHM_PER_SIGMA / np.maximum(bands.fwhm_nm, 1.0)
    response = np.exp(-0.5 * np.square(apart))
    response /= np.maximum(response.sum(axis=0), 1e-12)
    return np.asarray(response * (_spacing_nm(bands) / _UNIT_NM))


def window_shares(bands: BandSet) -> Float64[np.ndarray, "window band"]:
    """How much of each band belongs to each window; the shares of a band sum to one."""
    step = float(WINDOWS_NM[1] - WINDOWS_NM[0])
    place = np.clip(bands.centres_nm, WINDOWS_NM[0], WINDOWS_NM[-1])
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(WINDOWS_NM[:, None] - place) / step))
