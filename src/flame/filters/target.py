"""Which spectrum the linear filters CEM, MF and ACE look for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float64

from flame.filters.background import Background, BackgroundSettings
from flame.filters.errors import OTHER_BANDS, FilterError
from flame.physics import BandSet, unit_absorption

__all__ = ["LinearSettings", "TargetRule", "target_spectrum"]

TargetRule = Literal["multiplicative", "additive"]
"""`multiplicative`: mean spectrum times unit absorption, the change of radiance that methane makes (eq:mf_estimate of
the paper). A score of 1 is then 100,000 ppm m. `additive`: the unit absorption itself, as if it were a radiance, less
the mean in the filters that centre; what Herec et al. (2025) ran, and so the CEM, MF and ACE rows of the paper."""


@dataclass(frozen=True)
class LinearSettings:
    """Settings of CEM, MF and ACE.

    Attributes:
        target: Which spectrum to look for.
        background: How the background is estimated.
    """

    target: TargetRule = "multiplicative"
    background: BackgroundSettings = field(default_factory=BackgroundSettings)


def target_spectrum(
    rule: TargetRule, background: Background, bands: BandSet, *, centred: bool
) -> Float64[np.ndarray, " band"]:
    """The spectrum a filter looks for, in radiance.

    Raises:
        FilterError: If no band absorbs methane.
    """
    unit_spectrum = unit_absorption(bands)
    if not (np.abs(unit_spectrum) > 1e-6).any():
        raise FilterError(f"methane absorbs in none of {bands.describe()}; {OTHER_BANDS}")
    if rule == "multiplicative":
        return np.asarray(background.mean * unit_spectrum)
    return np.asarray(unit_spectrum - background.mean if centred else unit_spectrum)
