"""The planes of a tile on the compiled kernels: one pass over the cube, then images that fit a cache.

`prepare_planes` and `apply_functions` are the reference.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32

from flame.filters.noise_aware import NoiseAwareBackground, estimate_background
from flame.filters.noise_aware.fields import finish
from flame.filters.noise_aware.project import SpectralRows, project
from flame.filters.noise_aware.sample import cube_of
from flame.filters.noise_aware.smoothing import gaussian_taps
from flame.kernels import Kernels, KernelsError
from flame.kernels.limits import MOST_BANDS, MOST_BLUR, MOST_COLUMNS, MOST_RESPONSES, TILE_STEP, packed_rows
from flame.physics import BandSet
from flame.prepare.level import PixelRange
from flame.prepare.planes.preparer import (
    MOST_SHARE,
    MOST_SIGMA_PPM_M,
    TINY,
    clutter_taps,
    function_noise,
    window_filters,
)
from flame.prepare.planes.settings import FIELD_NAMES, WIDTHS_PX, PlaneSettings
from flame.prepare.planes.wavelengths import WINDOWS_NM

__all__ = ["CompiledPlanes", "all_taps", "room_for_planes"]


def room_for_planes(settings: PlaneSettings, functions: int, bands: int, cols: int) -> bool:
    """Whether the kernels can make these planes."""
    responses = max(packed_rows(functions), packed_rows(len(WINDOWS_NM)))
    reach = len(clutter_taps(settings)) // 2
    return bands <= MOST_BANDS and cols <= MOST_COLUMNS and responses <= MOST_RESPONSES and reach <= MOST_BLUR


class CompiledPlanes:
    """Makes the planes of tiles of one size in memory of its own, which the next tile overwrites.

    Args:
        kernels: The compiled kernels.
        settings: How planes are made.
        functions: Functions of wavelength as weights of the bands.
        bands: Bands of the radiance.
        shape: Rows and columns of the tile.
        workers: Threads to share rows among.
    """

    def __init__(
        self,
        kernels: Kernels,
        settings: PlaneSettings,
        functions: Float64[np.ndarray, "function band"],
        bands: BandSet,
        shape: tuple[int, int],
        workers: int,
    ) -> None:
        self._kernels, self._settings, self._functions = kernels, settings, functions
        self._bands, self._workers = bands, workers
        rows, cols = shape
        # Images that are needed one after the other take turns in the same memory.
        self._work = np.empty(rows * max(8 * cols, 4 * _line(cols)), dtype=np.float32)
        self._found = np.empty((4, rows, cols), dtype=np.float32)
        planes = len(functions) + len(FIELD_NAMES) + len(WINDOWS_NM)
        self.inputs: dict[str, Float32[np.ndarray, ...]] = {
            "planes": np.zeros((1, planes, rows, cols), dtype=np.float32),
            "windows": np.zeros((1, len(WINDOWS_NM), rows, cols), dtype=np.float32),
            "significance": np.zeros((1, rows, cols), dtype=np.float32),
            "sigma": np.zeros((1, rows, cols), dtype=np.float32),
        }
        self._reach, self._taps = all_taps(settings)
        self._constants = np.array(
            [settings.reference_ppm_m, TINY, MOST_SIGMA_PPM_M, MOST_SHARE, settings.clutter_clip], dtype=np.float32
        )

    def find_range(
        self, radiance: Float32[np.ndarray, "band ring col"], rows: int, first: int, every: int
    ) -> PixelRange:
        """Least and greatest radiance of each pixel, and the sums of every so many rows; good until the next call."""
        bands, _, cols = radiance.shape
        cube, held = cube_of(radiance, first)
        low, high, sums = self._work[: 3 * rows * cols].reshape(3, rows, cols)
        addresses = (image.ctypes.data for image in (low, high, sums))
        self._kernels.pixel_range(self._workers, rows, cols, bands, *cube, *addresses, every)
        del held
        return PixelRange(low, high, sums[: -(-rows // every)])

    def make(
        self, radiance: Float32[np.ndarray, "band ring col"], valid: Bool[np.ndarray, "row col"], first: int
    ) -> Bool[np.ndarray, "row col"]:
        """Fills `inputs` and says which pixels' own spectra tell something.

        Args:
            radiance: The tile; a ring of rows if `first` is not 0.
            valid: Which pixels to use.
            first: Where in `radiance` the tile's first row stands.

        Raises:
            FilterError: If there is nothing to learn a background from; the message says why.
        """
        rows, cols = valid.shape
        kernels, workers = self._kernels, self._workers
        room = self.inputs["planes"].reshape(-1)  # nobody needs them before the pass over the cube
        background = estimate_background(
            radiance, self._bands, valid, None, kernels, first=first, workers=workers, room=room
        )
        also = self._spectral_rows(background)
        layers = self._work[: 8 * rows * cols].reshape(8, rows, cols)
        seen = project(background, radiance, valid, kernels, first=first, workers=workers, also=also, out=layers)
        found = finish(background, seen, kernels, workers=workers, out=self._found)
        self._make_fields()
        return found.usable

    def _spectral_rows(self, background: NoiseAwareBackground) -> SpectralRows:
        live = background.scale.live
        functions = np.where(live, self._functions, 0.0)
        _, windows = window_filters(background, self._settings.anchors)
        return SpectralRows(
            functions=functions,
            shot=function_noise(functions[:, live], background.law.shot),
            read_out=function_noise(functions[:, live], background.law.read_out),
            windows=windows,
            functions_out=self.inputs["planes"][0, : len(functions)],
            windows_out=self.inputs["windows"][0],
        )

    def _make_fields(self) -> None:
        """From the filter's results to planes."""
        rows, cols = self._found.shape[1:]
        planes, windows = self.inputs["planes"][0], self.inputs["windows"][0]
        fields, seen = planes[len(self._functions) :], planes[len(self._functions) + len(FIELD_NAMES) :]
        plane, stride = (step // 4 for step in planes.strides[:2])
        factors = np.empty(len(WIDTHS_PX), dtype=np.float32)
        images = (self.inputs[name].ctypes.data for name in ("significance", "sigma"))
        refused = self._kernels.filter_planes(
            *(self._workers, rows, cols, self._found.ctypes.data, self._constants.ctypes.data, len(WIDTHS_PX)),
            *(self._reach.ctypes.data, self._taps.ctypes.data, len(self._taps), fields.ctypes.data, seen.ctypes.data),
            *(windows.ctypes.data, len(windows), stride, plane, *images),
            *(self._work.ctypes.data, _line(cols), factors.ctypes.data),
        )
        if refused:
            raise KernelsError("the widths of the planes' averages are damaged in memory; open the model again")


def _line(cols: int) -> int:
    """Floats of a row of scratch images: an odd number of steps, so that rows do not fight for the same cache lines."""
    steps = -(-cols // TILE_STEP)
    return (steps + 1 - steps % 2) * TILE_STEP


def all_taps(settings: PlaneSettings) -> tuple[Int32[np.ndarray, " gaussian"], Float32[np.ndarray, " tap"]]:
    """Reach and taps of every Gaussian, that of the clutter last."""
    every = [*(gaussian_taps(width) for width in WIDTHS_PX), clutter_taps(settings)]
    return np.array([len(taps) // 2 for taps in every], dtype=np.int32), np.concatenate(every)
