"""Is it methane? The spectrum of a plume over that of like ground beside it, fitted with methane and without.

The brightest pixels of a plume are each paired with a plume-free pixel near by whose spectrum is alike outside
methane's bands, and the mean log-ratio of the pairs is fitted by a smooth curve, the confusers and methane. The same
is done with the same pixels moved to plume-free ground, many times: what methane they seem to hold there says how often
such a fit comes by chance. The idea is that of the vetting of EMIT's plumes (emit-sds/plume-vetting).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy.spatial import cKDTree

from flame.errors import FlameError
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, clear_sky_radiance, unit_absorption

__all__ = ["CheckSettings", "SpectralCheck", "check_spectrum"]

_SHARP_NM = (("carbonate", 2335.0, 32.0), ("hydrocarbon", 2310.0, 18.0), ("hydrocarbon 2", 2348.0, 18.0))
"""Centres and widths (FWHM) of ground features that lie among methane's."""

_TINY = 1e-12


@dataclass(frozen=True)
class CheckSettings:
    """How a plume's spectrum is checked.

    Attributes:
        pixels: Pixels of the plume that are looked at, those of highest enhancement.
        reach_px: How far away a like background pixel may lie.
        quiet_sigma: A background pixel's enhancement is at most this many of its standard deviations.
        quiet_bands: Share of the bands, those in which methane absorbs least, that decide what is alike.
        degree: Of the smooth curve.
        moves: How often the pixels are moved to plume-free ground.
    """

    pixels: int = 40
    reach_px: int = 120
    quiet_sigma: float = 1.0
    quiet_bands: float = 0.5
    degree: int = 3
    moves: int = 300


@dataclass(frozen=True, eq=False)
class SpectralCheck:
    """The answer, and what a plot of it needs.

    Attributes:
        p_value: How often plume-free ground gives as much methane as the plume; small for a real plume.
        alpha_ppm_m: Methane fitted to the ratio.
        sigma_ppm_m: Its standard deviation over plume-free ground.
        explained: Share of the ratio's variance about the smooth curve that methane explains.
        pairs: Pixels that had a partner.
        moves: Places that the p-value rests on; with few of them it cannot be small.
        centres_nm: Bands.
        inside: Mean radiance of the plume's pixels that had a partner.
        outside: Mean radiance of their partners.
        log_ratio: Mean log-ratio of plume to background.
        without_methane: The fitted curve and confusers, without methane.
        fitted: The whole fit.
        amplitudes: What was fitted, by name: methane in ppm m, the others as absorbance (negative: it absorbs).
    """

    p_value: float
    alpha_ppm_m: float
    sigma_ppm_m: float
    explained: float
    pairs: int
    moves: int
    centres_nm: Float[np.ndarray, " band"]
    inside: Float[np.ndarray, " band"]
    outside: Float[np.ndarray, " band"]
    log_ratio: Float[np.ndarray, " band"]
    without_methane: Float[np.ndarray, " band"]
    fitted: Float[np.ndarray, " band"]
    amplitudes: Mapping[str, float]


@lru_cache(maxsize=16)
def _basis(bands: BandSet, degree: int) -> Float[np.ndarray, "band term"]:
    """Columns of the fit: methane first, then the curve, the air and the sharp features of ground."""
    nm = bands.centres_nm
    place = 2.0 * (nm - nm[0]) / (nm[-1] - nm[0]) - 1.0
    curve = np.polynomial.legendre.legvander(place, degree).T
    air = np.log(np.maximum(clear_sky_radiance(bands), _TINY))
    sharp = [np.exp(-4.0 * np.log(2.0) * ((nm - centre) / width) ** 2) for _, centre, width in _SHARP_NM]
    return np.stack([unit_absorption(bands) / ABSORPTION_UNIT_PPM_M, *curve, air - air.mean(), *sharp], axis=1)


def _names(degree: int) -> tuple[str, ...]:
    """Names of the columns of `_basis`."""
    return ("methane", *(f"curve {order}" for order in range(degree + 1)), "air", *(name for name, *_ in _SHARP_NM))


def check_spectrum(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    mask: Bool[np.ndarray, "row col"],
    enhancement_ppm_m: Float[np.ndarray, "row col"],
    sigma_ppm_m: Float[np.ndarray, "row col"],
    free: Bool[np.ndarray, "row col"],
    rng: np.random.Generator,
    settings: CheckSettings | None = None,
) -> SpectralCheck:
    """Checks one plume.

    Args:
        radiance: Radiance of the scene or of a window around the plume.
        bands: Its bands.
        mask: The plume.
        enhancement_ppm_m: Retrieved enhancement.
        sigma_ppm_m: Its standard deviation.
        free: Usable pixels that belong to no plume.
        rng: Where the pixels are moved to.
        settings: Defaults unless given.

    Raises:
        FlameError: If there is no plume, no quiet ground to compare with, or too few bands for the fit.
    """
    settings = settings or CheckSettings()
    if len(bands) <= len(_names(settings.degree)):
        raise FlameError(f"{len(bands)} bands are too few to tell methane from what looks like it")
    if not mask.any():
        raise FlameError("a plume without pixels has no spectrum")
    quiet = free & (np.abs(enhancement_ppm_m) <= settings.quiet_sigma * sigma_ppm_m)
    if int(quiet.sum()) < 2 * settings.pixels:
        raise FlameError(f"only {int(quiet.sum())} quiet pixels around the plume; its spectrum cannot be compared")
    log = np.log(np.maximum(radiance, np.float32(_TINY)))
    ground = _Ground(log, bands, quiet, free, settings)
    rows, cols = np.nonzero(mask)
    chosen = np.argsort(enhancement_ppm_m[rows, cols])[::-1][: settings.pixels]
    rows, cols = rows[chosen], cols[chosen]
    rows, cols, partner_rows, partner_cols = ground.paired(rows, cols)
    ratio = ground.log_ratio(rows, cols)
    fit = _Fit(_basis(bands, settings.degree), ground.band_weight)
    terms = fit.terms(ratio)
    null = _null(ground, fit, rows, cols, free, rng, settings)
    without = fit.basis[:, 1:] @ terms[1:]
    spread = float(np.std(null)) if null.size > 1 else float("nan")
    return SpectralCheck(
        p_value=float((1 + np.sum(null >= terms[0])) / (1 + null.size)),
        alpha_ppm_m=float(terms[0]),
        sigma_ppm_m=spread,
        explained=fit.explained(ratio),
        pairs=rows.size,
        moves=int(null.size),
        centres_nm=bands.centres_nm,
        inside=radiance[:, rows, cols].astype(np.float64).mean(axis=1),
        outside=radiance[:, partner_rows, partner_cols].astype(np.float64).mean(axis=1),
        log_ratio=ratio,
        without_methane=without,
        fitted=fit.basis @ terms,
        amplitudes=dict(zip(_names(settings.degree), terms.tolist(), strict=True)),
    )


class _Ground:
    """Quiet pixels, found by how alike they are outside methane's bands."""

    def __init__(
        self,
        log: Float32[np.ndarray, "band row col"],
        bands: BandSet,
        quiet: Bool[np.ndarray, "row col"],
        free: Bool[np.ndarray, "row col"],
        settings: CheckSettings,
    ) -> None:
        strength = np.abs(unit_absorption(bands))
        weak = np.argsort(strength)[: max(4, int(settings.quiet_bands * len(strength)))]
        rows, cols = np.nonzero(quiet)
        sample = log[:, rows, cols]
        spread = np.maximum(sample.std(axis=1), 1e-4)
        # What differs between neighbours along a row is mostly noise: bands are weighed by it in the fit.
        beside = free[:, 1:] & free[:, :-1]
        steps = np.abs(log[:, :, 1:][:, beside] - log[:, :, :-1][:, beside])
        noise = np.median(steps, axis=1) if beside.any() else np.ones(len(log))
        self.band_weight = 1.0 / np.maximum(noise, 1e-4)
        self._scale = (1.0 / spread[weak])[:, None].astype(np.float32)
        self._weak, self._log, self._settings = weak, log, settings
        self._rows, self._cols = rows, cols
        # Nearness on the ground counts a little, so that of like pixels a near one is taken.
        self._px = np.float32(1.0 / settings.reach_px)
        self._tree = cKDTree(self._features(rows, cols))

    def _features(self, rows: Int[np.ndarray, " n"], cols: Int[np.ndarray, " n"]) -> Float32[np.ndarray, "n feature"]:
        spectra = self._log[self._weak[:, None], rows, cols]
        place = np.stack([rows, cols]).astype(np.float32) * self._px
        return np.concatenate([spectra * self._scale / np.float32(np.sqrt(len(self._weak))), place]).T

    def paired(
        self, rows: Int[np.ndarray, " n"], cols: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"], Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
        """Rows and columns of the pixels that have a partner, and those of their partners, quiet and not themselves."""
        _, nearest = (np.asarray(a) for a in self._tree.query(self._features(rows, cols), k=2))
        itself = (self._rows[nearest[:, 0]] == rows) & (self._cols[nearest[:, 0]] == cols)
        partner = np.where(itself, nearest[:, 1], nearest[:, 0])
        keep = np.hypot(self._rows[partner] - rows, self._cols[partner] - cols) <= self._settings.reach_px
        if not keep.any():
            keep = np.ones_like(keep)
        partner = partner[keep]
        return rows[keep], cols[keep], self._rows[partner], self._cols[partner]

    def log_ratio(self, rows: Int[np.ndarray, " n"], cols: Int[np.ndarray, " n"]) -> Float[np.ndarray, " band"]:
        """Mean log-ratio of pixels to their partners."""
        rows, cols, partner_rows, partner_cols = self.paired(rows, cols)
        difference = self._log[:, rows, cols] - self._log[:, partner_rows, partner_cols]
        return np.asarray(difference.astype(np.float64).mean(axis=1))


class _Fit:
    """Weighted least squares of a log-ratio; methane may be negative, as noise is."""

    def __init__(self, basis: Float[np.ndarray, "band term"], weight: Float[np.ndarray, " band"]) -> None:
        self.basis = basis
        self._weight = weight
        # Columns of like size, or a term of 1e-6 a ppm m would be lost in the solution's rounding.
        self._size = np.maximum(np.abs(basis).max(axis=0), _TINY)
        self._solve = np.linalg.pinv(basis / self._size * weight[:, None])

    def terms(self, ratio: Float[np.ndarray, " band"]) -> Float[np.ndarray, " term"]:
        return np.asarray(self._solve @ (ratio * self._weight) / self._size)

    def explained(self, ratio: Float[np.ndarray, " band"]) -> float:
        """Share of what the other terms leave that methane takes away."""
        others = self.basis[:, 1:] / self._size[1:] * self._weight[:, None]
        given = ratio * self._weight
        left = given - others @ (np.linalg.pinv(others) @ given)
        after = given - self._weight * (self.basis @ self.terms(ratio))
        return float(1.0 - (after @ after) / max(float(left @ left), _TINY))


def _null(
    ground: _Ground,
    fit: _Fit,
    rows: Int[np.ndarray, " n"],
    cols: Int[np.ndarray, " n"],
    free: Bool[np.ndarray, "row col"],
    rng: np.random.Generator,
    settings: CheckSettings,
) -> Float[np.ndarray, " move"]:
    """Methane that the same pixels seem to hold where there is no plume."""
    height, width = free.shape
    found: list[float] = []
    for _ in range(4 * settings.moves):
        if len(found) >= settings.moves:
            break
        down = int(rng.integers(-rows.min(), height - rows.max()))
        across = int(rng.integers(-cols.min(), width - cols.max()))
        if free[rows + down, cols + across].mean() > 0.95:
            here = free[rows + down, cols + across]
            found.append(float(fit.terms(ground.log_ratio((rows + down)[here], (cols + across)[here]))[0]))
    return np.array(found)
