"""Planes: what a pixel says in numbers that mean the same for every spectrometer, so that one network serves them all.

Everything that depends on a sensor's bands happens here, against the noise-aware filter's background of the tile:
spectral functions integrated over the bands, the filter's estimate and sigma, and what each part of the spectrum
contributes to the estimate.
"""

from flame.prepare.planes.preparer import MOST_SIGMA_PPM_M, PlaneTile, SpectralView, prepare_planes, view_spectra
from flame.prepare.planes.settings import (
    FIELD_NAMES,
    LEAST_SIGMA_SHARE,
    LEAST_SPREAD,
    LOG_SPREADS,
    MEANS,
    MOST_LEAD,
    NORMAL_TO_LOGIT,
    WIDTHS_PX,
    WITNESS,
    PlaneSettings,
)
from flame.prepare.planes.tile_preparer import PLANE_INPUTS, PlanePreparer, apply_functions
from flame.prepare.planes.wavelengths import GRID_NM, band_weights, window_shares

__all__ = [
    "FIELD_NAMES",
    "GRID_NM",
    "LEAST_SIGMA_SHARE",
    "LEAST_SPREAD",
    "LOG_SPREADS",
    "MEANS",
    "MOST_LEAD",
    "MOST_SIGMA_PPM_M",
    "NORMAL_TO_LOGIT",
    "PLANE_INPUTS",
    "WIDTHS_PX",
    "WITNESS",
    "PlanePreparer",
    "PlaneSettings",
    "PlaneTile",
    "SpectralView",
    "apply_functions",
    "band_weights",
    "prepare_planes",
    "view_spectra",
    "window_shares",
]
