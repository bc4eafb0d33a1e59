"""MAG1C: the matched filter with albedo correction and reweighted l1 sparsity."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters.background import BackgroundSettings, usable_background
from flame.filters.errors import FilterError
from flame.filters.mag1c_fit import fit
from flame.filters.pixels import pixels_of
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption

__all__ = ["Mag1cSettings", "score"]


@dataclass(frozen=True)
class Mag1cSettings:
    """Settings of MAG1C; the defaults are the published ones.

    Attributes:
        iterations: How many times the background is estimated again.
        column_group: Columns that share a background, as detector columns of a push-broom sensor do; None: all.
        background: How the background is estimated.
    """

    iterations: int = 30
    column_group: int | None = None
    background: BackgroundSettings = field(default_factory=BackgroundSettings)

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise FilterError(f"iterations must not be negative, got {self.iterations}")
        if self.column_group is not None and self.column_group < 1:
            raise FilterError(f"a column group needs at least 1 column, got {self.column_group}")


def _enhancement(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: Mag1cSettings,
) -> Float32[np.ndarray, "row col"]:
    usable, background = usable_background(pixels_of(radiance, bands, valid), settings.background)
    signal = fit(usable.pixels, background, unit_absorption(bands), settings.iterations).signal
    out = np.zeros_like(signal)
    lit = usable.albedo >= settings.background.min_albedo
    np.divide(signal * np.float32(ABSORPTION_UNIT_PPM_M), usable.albedo, out=out, where=lit)
    return usable.pixels.as_image(out)


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: Mag1cSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """Methane enhancement by MAG1C, eq:mag1c_iter of the paper.

    Foote et al., "Fast and accurate retrieval of methane concentration from imaging spectrometer data using sparsity
    prior", IEEE Transactions on Geoscience and Remote Sensing 58 (2020).

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Iterations, column groups and background; defaults if None.

    Returns:
        Enhancement in ppm m, not negative; 0 where invalid, saturated, or too dark to tell.

    Raises:
        FilterError: If an image or a column group holds nothing that varies.
    """
    settings = settings or Mag1cSettings()
    if settings.column_group is None:
        return _enhancement(radiance, bands, valid, settings)
    out = np.zeros(valid.shape, dtype=np.float32)
    columns = valid.shape[1]
    group = min(settings.column_group, columns)
    for start in range(0, columns, group):
        # The last group borrows columns from the one before, so that all have the same number, as in mag1c.
        part = slice(min(start, columns - group), min(start, columns - group) + group)
        if not valid[:, part].any():
            continue
        try:
            out[:, part] = _enhancement(np.ascontiguousarray(radiance[:, :, part]), bands, valid[:, part], settings)
        except FilterError as reason:
            raise FilterError(
                f"columns {part.start} to {part.stop - 1}: {reason}; use more columns per group"
            ) from None
    return out
