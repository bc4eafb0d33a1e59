"""How tiles are prepared: every setting of this room, stated once. Models and manifests carry them inside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from flame.kernels import MOST_REACH
from flame.prepare.fields import FIELDS, FieldSettings
from flame.records import SettingsError, check_numbers, names, number

__all__ = ["BackgroundSettings", "PixelSettings", "PrepareSettings", "RgbKind"]

RgbKind = Literal["fixed", "tile", "none"]


@dataclass(frozen=True)
class PixelSettings:
    """Which pixels are used, and what stands in for the others.

    Attributes:
        floor_share: Radiance below this share of the tile's level is taken as this before the logarithm: about the
            read-out noise. The level is the tile's own, so that an instrument's gain has no influence.
        level_step: The level is found on every so many-th pixel of every so many-th row.
        saturation_radiance: Radiance from which on a pixel counts as saturated.
        fill_block: Side of the blocks from whose usable pixels the others are filled.
        least_pixels_per_band: A tile with fewer usable pixels for each band has no background to tell a plume from.
    """

    floor_share: float = number(float, 1e-9, 0.5, 0.005)
    level_step: int = number(int, 1, 256, 8)
    saturation_radiance: float = number(float, 1e-3, 1e12, 1e4)
    fill_block: int = number(int, 1, 256, 16)
    least_pixels_per_band: int = number(int, 1, 1000, 2)

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True)
class BackgroundSettings:
    """How a tile's background is estimated.

    Attributes:
        samples: About how many pixels of a regular grid are looked at.
        passes: Estimates made; each after the first leaves out pixels that look like plume and weighs down pixels that
            are far from the background, such as dark ones, whose noise is many times larger.
        plume_sigma: Matched-filter response, in standard deviations, from which on a pixel is left out.
        floor: Least variance of log-radiance in any direction; (0.03 %)^2 keeps a constant tile finite.
    """

    samples: int = number(int, 16, 10_000_000, 4096)
    passes: int = number(int, 1, 20, 1)
    plume_sigma: float = number(float, 0.1, 1e3, 3.0)
    floor: float = number(float, 1e-12, 1.0, 1e-7)

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True)
class PrepareSettings:
    """How tiles are prepared.

    Attributes:
        pixels: Which pixels are used.
        background: How the tile's own statistics are estimated.
        pixel_fields: Which fields are found for each pixel, names in `flame.prepare.FIELDS`, in order.
        fields: Constants of these fields.
        rgb: RGB divided by `rgb_scale` ("fixed"), as log-ratio to the tile's mean ("tile"), or not used ("none").
        rgb_scale: Divisor of RGB, in µW cm-2 nm-1 sr-1.
    """

    pixels: PixelSettings = field(default_factory=PixelSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    pixel_fields: tuple[str, ...] = names(())
    fields: FieldSettings = field(default_factory=FieldSettings)
    rgb: RgbKind = "fixed"
    rgb_scale: float = number(float, 1e-6, 1e6, 60.0)

    def __post_init__(self) -> None:
        check_numbers(self)
        if unknown := [name for name in self.pixel_fields if name not in FIELDS]:
            raise SettingsError(f"no pixel field '{unknown[0]}'; known are {', '.join(FIELDS)}")
        if self.fields.clutter_window > 2 * MOST_REACH + 1:
            raise SettingsError(
                f"clutter_window must be at most {2 * MOST_REACH + 1} pixels, got {self.fields.clutter_window}"
            )
