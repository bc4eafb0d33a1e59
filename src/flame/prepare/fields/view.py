"""What pixel fields are found from: a prepared tile, seen by those who describe its pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet
from flame.records import check_numbers, number

__all__ = ["LAYERS", "Field", "FieldSettings", "PixelLayers", "TileView"]

Result = TypeVar("Result")

LAYERS = ("response", "power", "brightness", "steps")
"""Planes of the array that whitening leaves behind, in order; see `PixelLayers`."""


@dataclass(frozen=True)
class FieldSettings:
    """Constants of the pixel fields.

    Attributes:
        faint_ppm_m: Enhancement that counts as 1 in fields that are in ppm m.
        clutter_clip: Matched-filter response, in standard deviations, beyond which the clutter is clipped.
        clutter_window: Side of the window of the clutter, in pixels; odd.
        tiny: What is added before logarithms.
    """

    faint_ppm_m: float = number(float, 1e-3, 1e6, 500.0)
    clutter_clip: float = number(float, 0.1, 1e3, 4.0)
    clutter_window: int = number(int, 1, 999, 15)
    tiny: float = number(float, 1e-12, 1e-2, 1e-6)

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True, eq=False)
class PixelLayers:
    """What the pass that whitens the spectra learns of each pixel on the way.

    Attributes:
        response: Matched-filter response in standard deviations of the tile's background.
        power: Mean square over the whitened bands.
        brightness: Mean log-radiance relative to the tile's median.
        steps: Mean square, over every fourth whitened band, of the difference between neighbouring columns. Every
            fourth is enough: with the nine pixels of `noise` they are 162 differences.
    """

    response: Float32[np.ndarray, "row col"]
    power: Float32[np.ndarray, "row col"]
    brightness: Float32[np.ndarray, "row col"]
    steps: Float32[np.ndarray, "row step"]

    @classmethod
    def of(cls, planes: Float32[np.ndarray, "4 row col"]) -> PixelLayers:
        """The layers in the planes that whitening wrote."""
        response, power, brightness, steps = planes
        return cls(response, power, brightness, steps[:, :-1])


@dataclass(frozen=True, eq=False)
class TileView:
    """A tile, whole: what is missing below and right of a smaller scene is there as unusable pixels.

    Attributes:
        bands: Bands of its spectra.
        absorption: Unit absorption spectrum of these bands.
        usable: Pixels that take part.
        planes: The array of `LAYERS`.
        target: The unit absorption spectrum, whitened by the tile's background.
        settings: Constants of the fields.
        given_radiance: Makes the tile's radiance, for fields that need it; what stands under unusable pixels has no
            meaning.
    """

    bands: BandSet
    absorption: Float[np.ndarray, " band"]
    usable: Bool[np.ndarray, "row col"]
    planes: Float32[np.ndarray, "4 row col"]
    target: Float[np.ndarray, " band"]
    settings: FieldSettings
    given_radiance: Callable[[], Float32[np.ndarray, "band row col"]]
    _known: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def layers(self) -> PixelLayers:
        """What whitening learned of each pixel."""
        return PixelLayers.of(self.planes)

    @cached_property
    def radiance(self) -> Float32[np.ndarray, "band row col"]:
        """Radiance of the whole tile."""
        return self.given_radiance()

    @cached_property
    def noise_ppm_m(self) -> float:
        """Enhancement that one standard deviation of the response stands for: the tile's noise."""
        return ABSORPTION_UNIT_PPM_M / max(float(np.linalg.norm(self.target)), self.settings.tiny)

    def shared(self, make: Callable[[TileView], Result]) -> Result:
        """What `make` gives for this tile, made once: fields of one family share their work through it."""
        if make not in self._known:
            self._known[make] = make(self)
        found: Result = self._known[make]
        return found


@dataclass(frozen=True)
class Field:
    """A pixel field: one number for each pixel of a tile, found without any learned weight.

    Attributes:
        name: Its name in settings.
        find: Finds it, in NumPy; the reference. It must give every pixel a finite value, unusable ones too.
        kernel: Its number in `prepare.c`, if the compiled kernels have it.
    """

    name: str
    find: Callable[[TileView], Float32[np.ndarray, "row col"]]
    kernel: int | None = None
