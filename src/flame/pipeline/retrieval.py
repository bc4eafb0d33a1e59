"""Enhancement and its standard deviation for a scene that was looked at: what plumes are weighed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32
from scipy import ndimage

from flame.filters import FILTERS, FilterError, filter_layers
from flame.filters.noise_aware import apply, estimate_background
from flame.onboard import FILTER_MODEL, Detection
from flame.physics import METHANE_WINDOW_NM, BandSet
from flame.scene import AnyScene

__all__ = ["Retrieval", "Surroundings", "Window", "read_surroundings", "retrieve", "retrieve_again"]

Window: TypeAlias = tuple[slice, slice]

_NORMAL_MAD = 1.4826
_APART_PX = 6
"""Pixels this near to a plume may still hold some of its gas: the ground is not learned from them."""

_LEAST_GROUND = 0.3
_NINE = np.ones((3, 3), np.bool_)


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Maps that a mass can be summed from.

    Attributes:
        enhancement_ppm_m: Enhancement, 0 where not usable.
        sigma_ppm_m: Its standard deviation, infinite where not usable.
        source: What made them, for people.
        note: What a reader should know, or nothing.
    """

    enhancement_ppm_m: Float32[np.ndarray, "row col"]
    sigma_ppm_m: Float32[np.ndarray, "row col"]
    source: str
    note: str = ""

    def window(self, where: Window) -> Retrieval:
        """The maps of a part of the scene."""
        return Retrieval(self.enhancement_ppm_m[where], self.sigma_ppm_m[where], self.source, self.note)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Radiance around a plume.

    Attributes:
        radiance: In the bands of the methane window.
        bands: Those bands; where they differ from column to column, their means over these columns.
    """

    radiance: Float32[np.ndarray, "band row col"]
    bands: BandSet


def read_surroundings(scene: AnyScene, where: Window) -> Surroundings:
    """Reads a part of a scene."""
    inside = scene.bands.within(*METHANE_WINDOW_NM)
    rows, cols = where
    radiance = scene.rows(rows.start, rows.stop).radiance[inside][:, :, cols]
    bands = scene.bands.select(inside)
    if scene.smile is not None:
        local = scene.smile.window(cols)
        bands = BandSet(local.centres_nm[inside].mean(axis=1), local.fwhm_nm[inside].mean(axis=1))
    return Surroundings(np.ascontiguousarray(radiance), bands)


def retrieve(scene: AnyScene, detection: Detection) -> Retrieval:
    """The noise-aware filter's maps, which are calibrated: the detection's own if it stands on them.

    A network's score tells plume from ground well and shrinks the amount; a mass needs an estimate that is right on
    average. Where the filter cannot learn the scene's ground, the score is taken with the scene's own spread.
    """
    usable = detection.usable
    title = FILTERS[FILTER_MODEL].title.lower()
    if detection.estimate_ppm_m is not None and detection.estimate_sigma_ppm_m is not None:
        return Retrieval(detection.estimate_ppm_m, detection.estimate_sigma_ppm_m, title)
    try:
        layers = filter_layers(FILTERS[FILTER_MODEL], scene)
    except FilterError as reason:
        quiet = detection.score_ppm_m[usable & ~detection.mask].astype(np.float64)
        level = float(np.median(quiet)) if quiet.size else 0.0
        spread = _NORMAL_MAD * float(np.median(np.abs(quiet - level))) if quiet.size else 0.0
        sigma = np.where(usable, np.float32(max(spread, 1e-3)), np.float32(np.inf))
        note = f"weighed with the model's score, since the noise-aware filter cannot be used here ({reason})"
        return Retrieval(detection.score_ppm_m, sigma, "score of the model", note)
    known = usable & np.isfinite(layers["sigma"])
    return Retrieval(
        np.where(known, layers["enhancement"], np.float32(0)),
        np.where(known, layers["sigma"], np.float32(np.inf)),
        title,
    )


def retrieve_again(
    around: Surroundings,
    usable: Bool[np.ndarray, "row col"],
    plumes: Bool[np.ndarray, "row col"],
    before: Retrieval,
) -> Retrieval:
    """Enhancement and sigma around a plume against ground that no plume covers.

    A strong plume is part of the statistics that the first filter learns the ground from, and takes some of itself
    away. Now that plumes are known, the ground is learned without them.

    Args:
        around: Radiance.
        usable: Pixels that can be judged.
        plumes: All plumes here.
        before: What to return where too little ground is left to learn from.
    """
    ground = usable & ~ndimage.binary_dilation(plumes, _NINE, iterations=_APART_PX)
    if before.note or np.count_nonzero(ground) < _LEAST_GROUND * np.count_nonzero(usable):
        return before
    try:
        found = apply(estimate_background(around.radiance, around.bands, ground), around.radiance, around.bands, usable)
    except FilterError:
        return before
    return Retrieval(
        np.where(found.usable, found.enhancement_ppm_m, before.enhancement_ppm_m),
        np.where(found.usable, found.sigma_ppm_m, before.sigma_ppm_m),
        before.source,
    )
