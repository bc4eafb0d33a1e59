"""Settings of the noise-aware matched filter."""

from __future__ import annotations

from dataclasses import dataclass, field

from flame.errors import FlameError
from flame.filters.background import BackgroundSettings
from flame.filters.errors import FilterError
from flame.physics import sensor

__all__ = ["NoiseAwareSettings"]


@dataclass(frozen=True)
class NoiseAwareSettings:
    """How the noise-aware matched filter learns a tile.

    Attributes:
        sample_pixels: About how many pixels the statistics come from, in whole rows spread over the tile.
        bins: Brightness bins in which the noise of a tile is measured.
        levels: Brightness levels for which the covariance is solved; between them weights are interpolated.
        passes: How often the statistics are estimated; each after the first without the plumes found before.
        plume_significance: Smoothed estimates of more standard deviations are taken for plume and subtracted.
        smoothing_px: Standard deviation of the Gaussian for that.
        neighbours: Let the spectra of the eight neighbours tell what the ground is, without their methane.
        max_log_noise: Pixels in which half of the bands have more noise than this share of their radiance are too dark
            to tell: enhancement 0, infinite sigma.
        sensor: Whose noise law to use where a tile has too few pixels to show its own; radiance must then be in
            µW cm-2 nm-1 sr-1. None: noise then counts as background, the same for all pixels.
        background: Which pixels are too dark or too bright, and how a covariance of few pixels is shrunk.
    """

    sample_pixels: int = 8192
    bins: int = 8
    levels: int = 12
    passes: int = 3
    plume_significance: float = 2.5
    smoothing_px: float = 1.5
    neighbours: bool = True
    max_log_noise: float = 0.3
    sensor: str | None = None
    background: BackgroundSettings = field(default_factory=BackgroundSettings)

    def __post_init__(self) -> None:
        if self.levels < 2 or self.bins < 4 or self.passes < 1 or self.sample_pixels < 1:
            raise FilterError(f"expected at least 2 levels, 4 bins, 1 pass and 1 pixel, got {self}")
        if not self.smoothing_px > 0 or not self.max_log_noise > 0 or not self.plume_significance > 0:
            raise FilterError(f"smoothing, noise limit and plume significance must be above zero, got {self}")
        if self.sensor is not None:
            try:
                sensor(self.sensor)
            except FlameError as reason:
                raise FilterError(str(reason)) from None
