"""The usable pixels of an image, handed out in blocks of (band, pixel) that fit a core's cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from flame.filters.errors import FilterError
from flame.physics import BandSet

__all__ = ["BLOCK_PIXELS", "Block", "Pixels", "pixels_of"]

BLOCK_PIXELS = 4096
"""72 bands of these are 1.2 MB, inside a level-2 cache, and few enough for BLAS to stay on one thread: waking a second
for each block costs more than it gains, and ruins the time on a busy machine."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some pixels and where they stand in the flattened image."""

    where: slice | Int[np.ndarray, " pixel"]
    spectra: Float32[np.ndarray, "band pixel"]


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image flattened to (band, pixel) without a copy, and which of its pixels may be looked at.

    Attributes:
        spectra: The image; values at unusable pixels are never read into any result.
        usable: Which pixels count.
        shape: Rows and columns of the image.
    """

    spectra: Float32[np.ndarray, "band pixel"]
    usable: Bool[np.ndarray, " pixel"]
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """How many pixels are usable."""
        return int(np.count_nonzero(self.usable))

    def blocks(self) -> Iterator[Block]:
        """The usable pixels in order; a view where a whole block is usable, else a copy of those that are."""
        for start in range(0, self.usable.size, BLOCK_PIXELS):
            here = slice(start, min(start + BLOCK_PIXELS, self.usable.size))
            chosen = np.flatnonzero(self.usable[here])
            if chosen.size == here.stop - here.start:
                yield Block(here, self.spectra[:, here])
            elif chosen.size:
                yield Block(start + chosen, np.take(self.spectra[:, here], chosen, axis=1))

    def restricted(self, usable: Bool[np.ndarray, " pixel"]) -> Pixels:
        """The same image with only these pixels usable."""
        return Pixels(self.spectra, usable, self.shape)

    def mean(self) -> Float64[np.ndarray, " band"]:
        """Mean spectrum of the usable pixels, to float32 precision; not finite if any of them is not."""
        total = np.zeros(self.spectra.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            for block in self.blocks():
                total += block.spectra @ np.ones(block.spectra.shape[1], dtype=np.float32)
        return total / self.count

    def project(self, weight: Float[np.ndarray, " band"], offset: float = 0.0) -> Float32[np.ndarray, " pixel"]:
        """`weight . x - offset` for every usable pixel, 0 elsewhere."""
        out = np.zeros(self.usable.size, dtype=np.float32)
        weight32 = weight.astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for block in self.blocks():
                out[block.where] = weight32 @ block.spectra - np.float32(offset)
        return out

    def as_image(self, values: Float32[np.ndarray, " pixel"]) -> Float32[np.ndarray, "row col"]:
        """Scores back in image form.

        Raises:
            FilterError: If a score is not finite, which only radiance that is not finite or absurdly large can cause.
        """
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise FilterError(
                f"the score at row {bad // self.shape[1]}, column {bad % self.shape[1]} is not finite; "
                "mark pixels without a proper radiance invalid"
            )
        return values.reshape(self.shape)


def pixels_of(
    radiance: Float32[np.ndarray, "band row col"], bands: BandSet, valid: Bool[np.ndarray, "row col"]
) -> Pixels:
    """The valid pixels of an image.

    Raises:
        FilterError: If bands and image differ in number or nothing is valid.
    """
    band_count, rows, cols = radiance.shape
    if band_count != len(bands):
        raise FilterError(f"the image has {band_count} bands, the band list {bands.describe()}; expected as many")
    if not valid.any():
        raise FilterError(f"no valid pixel among {valid.size}; there is no background to compare with")
    return Pixels(radiance.reshape(band_count, -1), valid.reshape(-1), (rows, cols))
