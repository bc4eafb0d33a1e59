"""Every filter by name, with its unit and the canonical threshold: the one place where these are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters import ace, cem, log_mf, mag1c, mag1c_sas, mf, noise_aware
from flame.filters.errors import FilterError
from flame.filters.target import LinearSettings
from flame.physics import BandSet

__all__ = ["FILTERS", "LINEAR", "Filter", "filter_named"]


@dataclass(frozen=True)
class Filter:
    """A classical filter.

    Attributes:
        name: The name used on the command line.
        title: The name people write.
        score: `score(radiance, bands, valid, settings=None)`, scores as float32 (row, col).
        unit: `ppm m` if the score is an enhancement, else `statistic`.
        threshold: Canonical threshold of Herec et al. (2025), which the paper takes over; None if there is none.
        layers: Same arguments; the score and all else the filter says, by name, the score first. None: the score alone.
    """

    name: str
    title: str
    score: Callable[..., Float32[np.ndarray, "row col"]]
    unit: Literal["ppm m", "statistic"]
    threshold: float | None
    layers: Callable[..., dict[str, Float32[np.ndarray, "row col"]]] | None = None


def _additive(score: Callable[..., Float32[np.ndarray, "row col"]]) -> Callable[..., Float32[np.ndarray, "row col"]]:
    """The same linear filter with the additive target, whatever other settings are given."""

    def additive(
        radiance: Float32[np.ndarray, "band row col"],
        bands: BandSet,
        valid: Bool[np.ndarray, "row col"],
        settings: LinearSettings | None = None,
    ) -> Float32[np.ndarray, "row col"]:
        return score(radiance, bands, valid, replace(settings or LinearSettings(), target="additive"))

    return additive


LINEAR = ("cem", "mf", "ace")
"""The filters that look for one spectrum; each is offered with both targets, the additive one as in `mf-additive`."""

FILTERS: dict[str, Filter] = {
    entry.name: entry
    for entry in (
        Filter("cem", "CEM", cem.score, "statistic", 0.004),
        Filter("mf", "Matched filter", mf.score, "statistic", 0.004),
        Filter("ace", "ACE", ace.score, "statistic", 0.03),
        Filter("cem-additive", "CEM, additive target", _additive(cem.score), "statistic", 0.004),
        Filter("mf-additive", "Matched filter, additive target", _additive(mf.score), "statistic", 0.004),
        Filter("ace-additive", "ACE, additive target", _additive(ace.score), "statistic", 0.03),
        Filter("mag1c", "MAG1C", mag1c.score, "ppm m", 300.0),
        Filter("mag1c-sas", "MAG1C-SAS", mag1c_sas.score, "ppm m", 300.0),
        Filter("log-mf", "Log-domain matched filter", log_mf.score, "ppm m", None),
        Filter(
            *("noise-aware-mf", "Noise-aware matched filter", noise_aware.score, "ppm m", None),
            layers=noise_aware.layers,
        ),
    )
}


def filter_named(name: str) -> Filter:
    """The filter of that name.

    Raises:
        FilterError: If the name is not known; the message lists those that are.
    """
    try:
        return FILTERS[name.lower()]
    except KeyError:
        raise FilterError(f"no filter '{name}'; known are {', '.join(FILTERS)}") from None
