"""Whole rows of a tile, with the neighbours of every pixel, for its statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32

from flame.filters.background import usable_pixels
from flame.filters.errors import FilterError
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.pixels import Pixels, threads
from flame.kernels import Kernels, load_kernels
from flame.kernels.limits import MOST_BANDS, MOST_COLUMNS

__all__ = [
    *("FLOOR", "RowSample", "Scale", "cube_of", "draw_sample", "kernels_for", "neighbour_weight", "ring_kernel"),
    *("piece_of", "row_ring"),
]

FLOOR = 0.2
"""Least radiance whose logarithm is taken, as a share of what a pixel of that brightness has in the band on average: a
value below it is noise, and its logarithm would outweigh all others."""

_DEAD_BAND = 1e-6
_MOST_LIGHT = 2.0


@dataclass(frozen=True, eq=False)
class Scale:
    """What brightness means in a tile.

    Attributes:
        reference: Mean spectrum m; a pixel's brightness is the sum of its radiance over the sum of m.
        live: Bands that vary. The others are not looked at.
        darkest, brightest: Brightness between which a pixel is used.
    """

    reference: Float64[np.ndarray, " band"]
    live: Bool[np.ndarray, " band"]
    darkest: float
    brightest: float

    @property
    def light(self) -> Float32[np.ndarray, " band"]:
        """Weights whose sum with a spectrum is its brightness."""
        total = float(self.reference[self.live].sum())
        return np.where(self.live, 1.0 / total, 0.0).astype(np.float32)

    @property
    def factor(self) -> Float32[np.ndarray, " band"]:
        """What radiance is multiplied by before its logarithm: units cancel, and numbers near zero lose no digits."""
        least = 1e-3 * self.reference[self.live].max()
        return np.where(self.live, 1.0 / np.maximum(self.reference, least), 0.0).astype(np.float32)

    @property
    def limits(self) -> Float32[np.ndarray, 3]:
        """Least and greatest brightness and `FLOOR`, as the kernels take them."""
        return np.array([self.darkest, self.brightest, FLOOR], dtype=np.float32)

    def usable(self, brightness: Float32[np.ndarray, ...]) -> Bool[np.ndarray, ...]:
        """Which pixels are neither dark nor saturated."""
        return np.asarray((brightness >= self.darkest) & (brightness <= self.brightest))


@dataclass(frozen=True, eq=False)
class RowSample:
    """Every k-th row of a tile.

    Attributes:
        shape: Rows and columns of the sample.
        step: Rows of the tile from one to the next.
        usable: Pixels that count.
        brightness: Brightness of each pixel, (row, col) flattened.
        log_spectra: Log-radiance of each pixel over the reference.
        ring: Mean log-radiance of its neighbours, weighted by their light.
        ring_noise: Variance of noise in that mean, in units of the pixel's own.
        has_ring: Pixels that have neighbours.
    """

    shape: tuple[int, int]
    step: int
    usable: Bool[np.ndarray, " pixel"]
    brightness: Float32[np.ndarray, " pixel"]
    log_spectra: Float32[np.ndarray, "band pixel"]
    ring: Float32[np.ndarray, "band pixel"]
    ring_noise: Float32[np.ndarray, " pixel"]
    has_ring: Bool[np.ndarray, " pixel"]


def ring_kernel() -> Float32[np.ndarray, "3 3"]:
    """Weights of the eight neighbours: nearer ones twice those at the corners."""
    kernel = np.outer([1.0, 2.0, 1.0], [1.0, 2.0, 1.0]).astype(np.float32)
    kernel[1, 1] = 0.0
    return np.asarray(kernel / kernel.sum())


def neighbour_weight(brightness: Float32[np.ndarray, ...], usable: Bool[np.ndarray, ...]) -> Float32[np.ndarray, ...]:
    """How much a neighbour counts: by its light, as its shot noise has it; very bright ones not without limit."""
    return np.asarray(np.where(usable, np.minimum(brightness, np.float32(_MOST_LIGHT)), np.float32(0)))


def kernels_for(image: Float32[np.ndarray, "band row col"], wanted: Kernels | None = None) -> Kernels | None:
    """The kernels, those of this processor unless others are wanted, if they have room for an image."""
    bands, _, cols = image.shape
    return (wanted or load_kernels()) if bands <= MOST_BANDS and cols <= MOST_COLUMNS else None


def row_ring(
    radiance: Float32[np.ndarray, "band ring col"], rows: int, first: int
) -> Float32[np.ndarray, "band row col"]:
    """The first rows of a ring in their order; a view where they stand together."""
    return (
        radiance[:, first : first + rows]
        if first + rows <= radiance.shape[1]
        else np.roll(radiance, -first, 1)[:, :rows]
    )


def cube_of(
    radiance: Float32[np.ndarray, "band ring col"], first: int
) -> tuple[tuple[int, ...], Float32[np.ndarray, "band ring col"]]:
    """Address, strides, rows and first row, as the kernels take a cube, and the array to hold on to meanwhile."""
    if radiance.dtype != np.float32 or radiance.strides[2] != 4 or any(step % 4 for step in radiance.strides[:2]):
        radiance = np.ascontiguousarray(radiance, dtype=np.float32)
    band_stride, row_stride = (step // 4 for step in radiance.strides[:2])
    return (radiance.ctypes.data, band_stride, row_stride, radiance.shape[1], first), radiance


def piece_of(
    room: Float32[np.ndarray, " float"] | None, shape: tuple[int, ...], after: int = 0
) -> Float32[np.ndarray, ...]:
    """An array in memory that is at hand, behind so many floats of it; new memory if there is none or too little."""
    size = math.prod(shape)
    if room is None or room.size < after + size:
        return np.empty(shape, dtype=np.float32)
    return room[after : after + size].reshape(shape)


def draw_sample(
    radiance: Float32[np.ndarray, "band ring col"],
    valid: Bool[np.ndarray, "row col"],
    settings: NoiseAwareSettings,
    kernels: Kernels | None = None,
    *,
    first: int = 0,
    workers: int | None = None,
    room: Float32[np.ndarray, " float"] | None = None,
) -> tuple[Scale, RowSample]:
    """Looks at every k-th row and the rows beside it.

    Args:
        radiance: The cube; a ring of rows if `first` is not 0.
        valid: Which pixels to look at.
        settings: How many pixels to take, and which are too dark or too bright.
        kernels: The kernels to use; those of this processor if None.
        first: Where in `radiance` the first row stands; after the last comes row 0.
        workers: Threads; as many as filters take if None.
        room: Memory for the kernels to put the spectra in, if it is large enough.

    Raises:
        FilterError: If a pixel marked valid holds no radiance, nothing varies, or nothing is lit.
    """
    held = np.flatnonzero(valid.any(axis=1))
    step = max(1, int(np.count_nonzero(valid)) // settings.sample_pixels)
    middle = held[(step - 1) // 2 :: step] if held.size > step else held
    seen = valid[middle].reshape(-1)
    spectra = radiance[:, (middle + first) % radiance.shape[1]].reshape(len(radiance), -1)
    reference = usable_pixels(Pixels(spectra, seen, (1, seen.size)), settings.background).mean
    with np.errstate(over="ignore", invalid="ignore"):
        spread = (spectra if seen.all() else spectra[:, seen]).std(axis=1)
    live = (spread > _DEAD_BAND * np.maximum(reference, _DEAD_BAND * reference.max())) & (reference > 0)
    count = np.count_nonzero(seen)
    if count < 2 or not live.any():
        raise FilterError(f"no band varies over the {count} usable pixels: there is no background to tell a plume from")
    scale = Scale(reference, live, settings.background.min_albedo, settings.background.max_albedo)
    kernels = kernels_for(radiance, kernels)
    rows = middle.astype(np.int32)
    if kernels is None:
        spectra, images = _look_with_numpy(row_ring(radiance, len(valid), first), valid, rows, scale)
    else:
        spectra, images = _look(kernels, radiance, valid, rows, scale, first=first, workers=workers, room=room)
    brightness, noise, usable, has_ring = images.reshape(4, -1)
    if not usable.any():
        raise FilterError("no valid pixel is lit: there is no background to compare with")
    return scale, RowSample(
        shape=(len(middle), valid.shape[1]),
        step=step,
        usable=usable > 0,
        brightness=brightness,
        log_spectra=spectra[0],
        ring=spectra[1],
        ring_noise=noise,
        has_ring=has_ring > 0,
    )


def _look(
    kernels: Kernels,
    radiance: Float32[np.ndarray, "band ring col"],
    valid: Bool[np.ndarray, "row col"],
    middle: Int32[np.ndarray, " middle"],
    scale: Scale,
    *,
    first: int = 0,
    workers: int | None = None,
    room: Float32[np.ndarray, " float"] | None = None,
) -> tuple[Float32[np.ndarray, "2 live pixel"], Float32[np.ndarray, "4 pixel"]]:
    """Log-radiance of pixels and of their neighbours; brightness, noise of the neighbours, usable, has neighbours."""
    cube, held = cube_of(radiance, first)
    seen = np.ascontiguousarray(valid)
    bands = np.flatnonzero(scale.live).astype(np.int32)
    size = len(middle) * valid.shape[1]
    spectra = piece_of(room, (2, len(bands), size))
    images = np.empty((4, size), dtype=np.float32)
    light, factor, limits = scale.light, scale.factor, scale.limits
    kernels.sample_spectra(
        *(workers or threads(), *valid.shape, *cube, seen.ctypes.data),
        *(middle.ctypes.data, len(middle), bands.ctypes.data, len(bands), light.ctypes.data, factor.ctypes.data),
        *(limits.ctypes.data, spectra.ctypes.data, images.ctypes.data),
    )
    del held
    return spectra, images


def _look_with_numpy(
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
    middle: Int32[np.ndarray, " middle"],
    scale: Scale,
) -> tuple[Float32[np.ndarray, "2 live pixel"], Float32[np.ndarray, "4 pixel"]]:
    """The same in NumPy."""
    rows, cols = valid.shape
    around = np.clip(middle[:, None] + np.arange(-1, 2), 0, rows - 1)
    seen = valid[around]
    seen[:, 0][middle == 0] = False
    seen[:, 2][middle == rows - 1] = False
    spectra = radiance[scale.live][:, around]  # band, row, 3, col
    np.copyto(spectra, np.float32(0), where=~seen)
    with np.errstate(invalid="ignore", over="ignore"):
        brightness = np.tensordot(scale.light[scale.live], spectra, axes=1)
    usable = seen & scale.usable(brightness)
    safe = np.where(usable, brightness, np.float32(1))
    np.copyto(spectra, np.float32(0), where=~usable)
    spectra *= scale.factor[scale.live][:, None, None, None]
    np.maximum(spectra, np.float32(FLOOR) * safe, out=spectra)
    np.log(spectra, out=spectra)

    weight = np.pad(neighbour_weight(brightness, usable), ((0, 0), (0, 0), (1, 1)))
    wide = np.pad(spectra, ((0, 0), (0, 0), (0, 0), (1, 1)))
    light = np.pad(safe, ((0, 0), (0, 0), (1, 1)), constant_values=1.0)
    total, noise = np.zeros_like(safe[:, 1]), np.zeros_like(safe[:, 1])
    ring = np.zeros(spectra[:, :, 1].shape, dtype=np.float32)
    kernel = ring_kernel()
    for row, col in np.argwhere(kernel > 0):
        here = slice(col, col + cols)
        share = kernel[row, col] * weight[:, row, here]
        total += share
        noise += share * share / light[:, row, here]
        ring += share * wide[:, :, row, here]
    has_ring = usable[:, 1] & (total > 0)
    each = has_ring / np.where(has_ring, total, np.float32(1))
    images = np.stack([safe[:, 1], noise * safe[:, 1] * each * each, usable[:, 1], has_ring])
    both = np.stack([spectra[:, :, 1], ring * each])
    return both.reshape(2, len(ring), -1), images.reshape(4, -1).astype(np.float32)
