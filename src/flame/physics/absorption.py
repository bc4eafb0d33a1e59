"""Methane absorption seen through a sensor's bands: Beer-Lambert, linear and true.

The packaged table (`data/methane.npz`, made by `tools/make_methane_table.py`) holds MODTRAN at-sensor radiance without
enhancement and the absorbance of six enhancements in cells of 0.05 nm. Source and licence are in NOTICE.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from jaxtyping import Float

from flame.errors import FlameError
from flame.physics.bands import BandSet
from flame.physics.monotone import monotone_cubic
from flame.physics.response import gaussian_response

__all__ = [
    "ABSORPTION_UNIT_PPM_M",
    "MAX_ENHANCEMENT_PPM_M",
    "MethaneTable",
    "beer_lambert",
    "clear_sky_radiance",
    "methane_table",
    "transmittance",
    "unit_absorption",
]

ABSORPTION_UNIT_PPM_M = 1e5
"""`unit_absorption` is the change of log-radiance per this much methane, the scale of MAG1C (Foote et al. 2020)."""

MAX_ENHANCEMENT_PPM_M = 64_000.0
"""`transmittance` is defined up to here; beyond the table's 16,000 ppm m it extrapolates (see its docstring)."""

_NODES = 257
_NODES_AT_ONCE = 4


@dataclass(frozen=True)
class MethaneTable:
    """Fine spectra of the packaged look-up table.

    Attributes:
        wavelength_nm: Centre of each fine cell.
        samples: Number of the source's samples in each cell, the weight of the cell in a band average.
        clear_radiance: At-sensor radiance without enhancement, in µW cm-2 nm-1 sr-1, for a bright surface.
        absorbance: -ln of transmittance for each enhancement, zero enhancement first.
        enhancement_ppm_m: The enhancements, zero first.
    """

    wavelength_nm: Float[np.ndarray, " cell"]
    samples: Float[np.ndarray, " cell"]
    clear_radiance: Float[np.ndarray, " cell"]
    absorbance: Float[np.ndarray, "enhancement cell"]
    enhancement_ppm_m: Float[np.ndarray, " enhancement"]

    def absorbance_at(self, alpha_ppm_m: Float[np.ndarray, " node"]) -> Float[np.ndarray, "node cell"]:
        """Absorbance of each cell: monotone cubic inside the table, beyond it along the last interval's slope."""
        last = self.enhancement_ppm_m[-1]
        inside = monotone_cubic(self.enhancement_ppm_m, self.absorbance, np.minimum(alpha_ppm_m, last))
        slope = (self.absorbance[-1] - self.absorbance[-2]) / (last - self.enhancement_ppm_m[-2])
        excess = np.maximum(alpha_ppm_m - last, 0.0)
        return np.asarray(inside + excess[:, None] * slope)


@lru_cache(maxsize=1)
def methane_table() -> MethaneTable:
    """The packaged table, read once."""
    with (files("flame.physics") / "data" / "methane.npz").open("rb") as stream, np.load(stream) as stored:
        absorbance = stored["absorbance"].astype(np.float64)
        return MethaneTable(
            wavelength_nm=stored["wavelength_nm"].astype(np.float64),
            samples=stored["samples"].astype(np.float64),
            clear_radiance=stored["clear_radiance"].astype(np.float64),
            absorbance=np.concatenate([np.zeros((1, absorbance.shape[1])), absorbance]),
            enhancement_ppm_m=stored["enhancement_ppm_m"],
        )


def clear_sky_radiance(bands: BandSet) -> Float[np.ndarray, " band"]:
    """Band radiance of the table's own scene without methane enhancement, in µW cm-2 nm-1 sr-1."""
    table = methane_table()
    return np.asarray(gaussian_response(table.wavelength_nm, bands, table.samples) @ table.clear_radiance)


def _band_log_transmittance(bands: BandSet, alpha_ppm_m: Float[np.ndarray, " node"]) -> Float[np.ndarray, "node band"]:
    """Ln of band transmittance: exponentiate on the fine grid, then average over each band's response."""
    table = methane_table()
    response = gaussian_response(table.wavelength_nm, bands, table.samples)
    response *= table.clear_radiance
    seen = np.empty((len(alpha_ppm_m), len(bands)))
    for first in range(0, len(alpha_ppm_m), _NODES_AT_ONCE):  # all at once would be the most memory of a whole flight
        transmitted = table.absorbance_at(alpha_ppm_m[first : first + _NODES_AT_ONCE])
        np.negative(transmitted, out=transmitted)
        seen[first : first + _NODES_AT_ONCE] = np.exp(transmitted, out=transmitted) @ response.T
    return np.asarray(np.log(seen / response.sum(axis=1)))


@lru_cache(maxsize=32)
def unit_absorption(bands: BandSet) -> Float[np.ndarray, " band"]:
    """The paper's `s`: change of log-radiance per 100,000 ppm m, negative where methane absorbs.

    As in MAG1C it is the least-squares slope of band log-radiance over the table's seven enhancements.
    """
    alpha_ppm_m = methane_table().enhancement_ppm_m
    log_transmittance = _band_log_transmittance(bands, alpha_ppm_m)
    centred = alpha_ppm_m - alpha_ppm_m.mean()
    spectrum = ABSORPTION_UNIT_PPM_M * (centred @ log_transmittance) / (centred @ centred)
    spectrum.setflags(write=False)
    return np.asarray(spectrum)


@lru_cache(maxsize=32)
def _log_transmittance_nodes(
    bands: BandSet,
) -> tuple[Float[np.ndarray, " node"], Float[np.ndarray, "node band"]]:
    """Ln of band transmittance on nodes that are dense where the curve bends, at small enhancements."""
    alpha_ppm_m = MAX_ENHANCEMENT_PPM_M * np.linspace(0.0, 1.0, _NODES) ** 2
    log_transmittance = _band_log_transmittance(bands, alpha_ppm_m)
    log_transmittance[0] = 0.0
    # More methane never transmits more; the source wobbles in its last digits where water leaves almost no light.
    return alpha_ppm_m, np.minimum.accumulate(log_transmittance, axis=0)


def transmittance(alpha_ppm_m: Float[np.ndarray, "*pixels"], bands: BandSet) -> Float[np.ndarray, band * pixels]:
    """True band transmittance of a methane enhancement: it saturates, unlike `exp(alpha s)`.

    Each fine cell transmits by its own absorbance and the band then averages, weighted by the clear-sky radiance.
    Between the table's enhancements absorbance follows a monotone cubic; from 16,000 to 64,000 ppm m it continues in
    each cell with the slope between 8,000 and 16,000 ppm m.

    Args:
        alpha_ppm_m: Enhancement as the table tells it (see `flame.physics.light_path`), 0 to 64,000 ppm m.
        bands: The sensor's bands.

    Raises:
        FlameError: If an enhancement is negative, not finite, or above 64,000 ppm m.
    """
    alpha = np.asarray(alpha_ppm_m, dtype=np.float64)
    if not np.isfinite(alpha).all() or (alpha < 0).any() or (alpha > MAX_ENHANCEMENT_PPM_M).any():
        raise FlameError(
            f"enhancement must lie in 0 to {MAX_ENHANCEMENT_PPM_M:,.0f} ppm m, got "
            f"{np.min(alpha):g} to {np.max(alpha):g}"
        )
    nodes, log_transmittance = _log_transmittance_nodes(bands)
    place = np.sqrt(alpha / MAX_ENHANCEMENT_PPM_M) * (_NODES - 1)
    below = np.minimum(place.astype(np.intp), _NODES - 2)
    share = (alpha - nodes[below]) / (nodes[below + 1] - nodes[below])
    log_t = log_transmittance[below] * (1.0 - share)[..., None] + log_transmittance[below + 1] * share[..., None]
    return np.moveaxis(np.exp(log_t), -1, 0)


def beer_lambert(
    background_radiance: Float[np.ndarray, band * pixels],
    alpha_ppm_m: Float[np.ndarray, "*pixels"],
    unit_spectrum: Float[np.ndarray, " band"],
) -> Float[np.ndarray, band * pixels]:
    """Radiance behind a plume by eq:beer_lambert of the paper, `L = L_B exp(alpha s)`.

    Args:
        background_radiance: Methane-free radiance.
        alpha_ppm_m: Enhancement, in ppm m.
        unit_spectrum: `s` from `unit_absorption`, per 100,000 ppm m.
    """
    exponent = np.multiply.outer(unit_spectrum, alpha_ppm_m / ABSORPTION_UNIT_PPM_M)
    return np.asarray(background_radiance * np.exp(exponent))
