"""A prepared tile: every field that is computed from radiance without a learned weight, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from flame.physics import BandSet
from flame.prepare.quality import Quality

__all__ = ["INPUTS", "OF_BACKGROUND", "SPECTRA", "PreparedTile"]

SPECTRA = ("log_radiance", "whitened")
"""Inputs with all bands of every pixel; a model takes one of them."""

OF_BACKGROUND = ("whitened", "target", "unwhitening", "background_mean", "whitening", "pixel_fields")
"""Inputs that the tile's own background is estimated for."""

INPUTS = (*SPECTRA, "target", "unwhitening", "background_mean", "whitening", "pixel_fields", "rgb")
"""What can be prepared; a model names what it takes. See docs/onboard.md for shapes."""


@dataclass(frozen=True, eq=False)
class PreparedTile:
    """A tile ready for a network.

    Attributes:
        bands: Bands of its spectra.
        inputs: Arrays by name, among `INPUTS`; None if the tile has too few usable pixels. Unless they were made in
            memory of the caller's, the next tile overwrites them.
        quality: Quality bits of each pixel.
        usable: Pixels that take part.
    """

    bands: BandSet
    inputs: Mapping[str, Float32[np.ndarray, ...]] | None
    quality: UInt8[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]

    @property
    def flags(self) -> Quality:
        """All bits that occur in the tile."""
        return Quality(int(np.bitwise_or.reduce(self.quality, axis=None)))
