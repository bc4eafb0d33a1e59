"""Enhancement and its standard deviation for a scene that was looked at: what plumes are weighed with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from flame.filters import FILTERS, FilterError, filter_layers
from flame.onboard import FILTER_MODEL, Detection
from flame.scene import AnyScene

__all__ = ["Retrieval", "retrieve"]

_NORMAL_MAD = 1.4826


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


def retrieve(scene: AnyScene, detection: Detection) -> Retrieval:
    """The maps of a detection that has its own sigma; else those of the noise-aware filter, which is calibrated.

    A network's score tells plume from ground well and shrinks the amount; a mass needs an estimate that is right on
    average. Where the filter cannot learn the scene's ground, the score is taken with the scene's own spread.
    """
    usable = detection.usable
    title = FILTERS[FILTER_MODEL].title.lower()
    if detection.sigma_ppm_m is not None:
        return Retrieval(detection.score_ppm_m, detection.sigma_ppm_m, title)
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
