"""Planes of tiles of one size, for a network of any spectrometer."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32, Float64
from threadpoolctl import ThreadpoolController

from flame.filters import FilterError
from flame.filters.noise_aware.sample import row_ring
from flame.filters.pixels import threads as filter_threads
from flame.kernels import Kernels, load_kernels
from flame.physics import BandSet
from flame.prepare.level import PixelRange, find_floor
from flame.prepare.planes.compiled import CompiledPlanes, room_for_planes
from flame.prepare.planes.preparer import PlaneTile, SpectralView, function_noise, prepare_planes
from flame.prepare.planes.settings import PlaneSettings
from flame.prepare.planes.wavelengths import band_weights
from flame.prepare.quality import UNUSABLE, Quality, pixel_quality
from flame.prepare.settings import PixelSettings
from flame.prepare.tile import PreparedTile

__all__ = ["PLANE_INPUTS", "PlanePreparer", "apply_functions"]

PLANE_INPUTS = ("planes", "windows", "significance", "sigma")
"""What a network of planes takes: everything its lift sees, (1, plane, row, col), the filter's windows, its estimate in
standard deviations, and the standard deviation in units of the settings' reference."""


def apply_functions(
    functions: Float64[np.ndarray, "function band"], view: SpectralView
) -> Float32[np.ndarray, "function row col"]:
    """Functions of wavelength applied to spectra, each in units of its spread over training ground and this noise."""
    flat = view.residual.reshape(len(view.residual), -1)
    values = (functions.astype(np.float32) @ flat).reshape(len(functions), *view.inverse_brightness.shape)
    noise = (function_noise(functions, law).astype(np.float32) for law in (view.read_out, view.shot))
    read_out, shot = (each[:, None, None] for each in noise)
    inverse = view.inverse_brightness
    return np.asarray(values / np.sqrt(np.float32(1) + inverse * (shot + inverse * read_out)))


class PlanePreparer:
    """Prepares tiles of one size in the bands of one sensor. Not to be shared between threads.

    Args:
        settings: How planes are made.
        functions: Learned functions of wavelength on the grid.
        bands: Bands of the radiance.
        shape: Rows and columns of the tile.
        pixels: Which pixels are used.
        threads: Threads to share the work among; as many as filters take unless given.
        kernels: Compiled kernels, or None for NumPy; those of this processor unless given.
    """

    def __init__(
        self,
        settings: PlaneSettings,
        functions: Float32[np.ndarray, "function cell"],
        bands: BandSet,
        shape: tuple[int, int],
        pixels: PixelSettings | None = None,
        threads: int | None = None,
        kernels: Kernels | str | None = "auto",
    ) -> None:
        self.settings, self.bands, self.shape = settings, bands, shape
        self._functions = functions.astype(np.float64) @ band_weights(bands)
        self._pixels = pixels or PixelSettings()
        self._others: dict[tuple[int, int], PlanePreparer] = {}
        self._made_with = (settings, functions, bands)
        self._how = (pixels, threads, kernels)
        self._blas = ThreadpoolController()
        chosen = load_kernels() if isinstance(kernels, str) else kernels
        fast = chosen is not None and room_for_planes(settings, len(functions), len(bands), shape[1])
        workers = threads or filter_threads()
        self._compiled = (
            CompiledPlanes(chosen, settings, self._functions, bands, shape, workers)
            if chosen is not None and fast
            else None
        )

    def prepare(
        self,
        radiance: Float32[np.ndarray, "band ring col"],
        valid: Bool[np.ndarray, "row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None = None,
        first: int = 0,
    ) -> PreparedTile:
        """A tile at most as large as those it prepares; its inputs have its own size.

        Args:
            radiance: The tile's radiance; a ring of rows if `first` is not 0.
            valid: Pixels that may be used.
            rgb: Not used.
            first: Where in `radiance` the tile's first row stands; after the last row comes row 0.
        """
        rows, cols = valid.shape
        if (rows, cols) != self.shape:
            return self._smaller(rows, cols).prepare(radiance, valid, rgb, first)
        seen = self._range(radiance, rows, first)
        floor = seen.floor(len(radiance), valid, self._pixels)
        if floor is None:
            floor, _ = find_floor(radiance, valid, self._pixels, first)
        quality = pixel_quality(seen.lowest, seen.highest, valid, self._pixels.saturation_radiance, floor)
        usable = (quality & UNUSABLE) == 0
        try:
            # Threads of BLAS gain nothing on matrices this small, and on a busy computer they wait for each other.
            with self._blas.limit(limits=1, user_api="blas"):
                inputs, told = self._made(radiance, usable, first)
        except FilterError:
            return PreparedTile(self.bands, None, quality, usable)
        quality |= np.where(usable & ~told, np.uint8(Quality.DARK), np.uint8(0))
        return PreparedTile(self.bands, inputs, quality, usable)

    def _smaller(self, rows: int, cols: int) -> PlanePreparer:
        """The preparer of tiles of another size; one is kept: the end of a strip, or a scene smaller than a tile."""
        if (rows, cols) not in self._others:
            self._others = {(rows, cols): PlanePreparer(*self._made_with, (rows, cols), *self._how)}
        return self._others[rows, cols]

    def _range(self, radiance: Float32[np.ndarray, "band ring col"], rows: int, first: int) -> PixelRange:
        """Least and greatest radiance of each pixel."""
        if self._compiled is not None:
            return self._compiled.find_range(radiance, rows, first, self._pixels.level_step)
        tile = row_ring(radiance, rows, first)
        with np.errstate(invalid="ignore"):
            return PixelRange(tile.min(axis=0), tile.max(axis=0))

    def _made(
        self, radiance: Float32[np.ndarray, "band ring col"], usable: Bool[np.ndarray, "row col"], first: int
    ) -> tuple[dict[str, Float32[np.ndarray, ...]], Bool[np.ndarray, "row col"]]:
        """The network's inputs, and the pixels whose own spectrum tells something."""
        if self._compiled is not None:
            return self._compiled.inputs, self._compiled.make(radiance, usable, first)
        tile = row_ring(radiance, len(usable), first)
        planes, view = prepare_planes(tile, self.bands, usable, self.settings)
        return self._inputs(planes, apply_functions(self._functions, view)), planes.usable

    def _inputs(
        self, planes: PlaneTile, spectral: Float32[np.ndarray, "function row col"]
    ) -> dict[str, Float32[np.ndarray, ...]]:
        seen = np.concatenate([np.arcsinh(spectral), planes.fields, np.arcsinh(planes.windows)])
        unit = np.float32(self.settings.reference_ppm_m)
        return {
            "planes": seen[None],
            "windows": planes.windows[None],
            "significance": (planes.estimate_ppm_m / planes.sigma_ppm_m)[None],
            "sigma": (planes.sigma_ppm_m / unit)[None],
        }
