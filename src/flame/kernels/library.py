"""The compiled kernels of this folder, loaded for this processor; they release the interpreter while they run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["MOST_BANDS", "SIDE", "Image", "Kernels", "block_sizes", "images", "load_kernels", "pack", "takes"]

SIDE = 32
"""Floats of border left and right of an image, as in `vectors.h`."""

_WHOLE_BLOCK = 32
"""Columns of a tile come in multiples of this, whatever the instruction set."""

MOST_BANDS = 320
"""Bands the kernels have room for, as in `vectors.h`."""

_SETS = ("baseline", "avx2", "avx512")


class _ImageStruct(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("plane", ctypes.c_ssize_t),
        ("stride", ctypes.c_ssize_t),
        ("channels", ctypes.c_int32),
        ("kernel", ctypes.c_int32),
    )


class Image:
    """Channels of (row, col) float32 with the border of zeros that the kernels expect.

    Args:
        channels: How many.
        rows: Rows of each.
        cols: Columns of each.
    """

    def __init__(self, channels: int, rows: int, cols: int) -> None:
        # Rows of all channels stand together, so that what one pixel needs lies on few pages of memory, and a row is an
        # odd number of cache lines, so that it does not fight for the same ones.
        stride = (cols + 2 * SIDE + 15) // 16 * 16
        stride += 16 if stride // 16 % 2 == 0 else 0
        self._memory = np.empty((rows + 2, channels, stride), dtype=np.float32)  # not zeros: large pages of memory
        self._memory[...] = 0.0
        self.pixels = self._memory[1:-1, :, SIDE : SIDE + cols].swapaxes(0, 1)
        self.channels, self.rows, self.cols = channels, rows, cols

    def struct(self, kernel: int = 1) -> _ImageStruct:
        """The image as the kernels take it, to be read with 1 x 1 or 3 x 3 taps."""
        stride, plane = (step // 4 for step in self._memory.strides[:2])
        return _ImageStruct(self.pixels.ctypes.data, plane, stride, self.channels, kernel)


def images(*structs: _ImageStruct) -> Any:
    """Several images as one argument."""
    return (_ImageStruct * len(structs))(*structs)


def block_sizes(channels: int) -> list[int]:
    """Fives and fours that make up a number of channels.

    Raises:
        ValueError: If they cannot: 1, 2, 3, 6, 7 and 11.
    """
    fours = -channels % 5
    if 4 * fours > channels:
        raise ValueError(f"the kernels cannot divide {channels} channels into blocks of five and four")
    return [5] * ((channels - 4 * fours) // 5) + [4] * fours


def takes(tile: int, bands: int) -> bool:
    """Whether the kernels can prepare tiles of that side and so many bands."""
    return tile % _WHOLE_BLOCK == 0 and bands <= MOST_BANDS and 4 * (-bands % 5) <= bands


def pack(weight: np.ndarray) -> np.ndarray:
    """Weights (channel, tap) in the order the kernels read them: block of channels, tap, channel."""
    edges = np.cumsum([0, *block_sizes(len(weight))])
    parts = [weight[low:high].T.ravel() for low, high in pairwise(edges)]
    return np.concatenate(parts).astype(np.float32, copy=False)


_LONG, _INT, _REAL, _ADDRESS = ctypes.c_int64, ctypes.c_int32, ctypes.c_float, ctypes.c_void_p
_IMAGE = ctypes.POINTER(_ImageStruct)
_ROWS = (_INT, _LONG, _LONG)
"""Threads, rows, columns: what every kernel takes first."""

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "convolve": (*(*_ROWS, _IMAGE, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _INT, _IMAGE, _ADDRESS),),
    "convolve_down": (*_ROWS, _IMAGE, _INT, _ADDRESS, _ADDRESS, _INT, _IMAGE),
    "convolve_up": (*_ROWS, _IMAGE, _INT, _INT, _ADDRESS, _ADDRESS, _INT, _IMAGE),
    "transform_rows": (*_ROWS, _IMAGE, _ADDRESS, _ADDRESS),
    "transform_parts": (),
    "lift": (*_ROWS, _ADDRESS, _INT, _LONG, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _IMAGE),
    "score": (*_ROWS, _IMAGE, _ADDRESS, _INT, _LONG, _ADDRESS, _ADDRESS, _ADDRESS, _REAL, _ADDRESS, _IMAGE),
    "segment": (
        *(*_ROWS, _IMAGE, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _REAL, _ADDRESS),
    ),
    "take_logarithm": (
        *(*_ROWS, _INT, _ADDRESS, _LONG, _LONG, _LONG, _REAL, _ADDRESS, _ADDRESS, _LONG, _LONG, _ADDRESS, _ADDRESS),
    ),
    "whiten": (*_ROWS, _ADDRESS, _INT, _LONG, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "project_spectra": (
        *(*_ROWS, _INT, _ADDRESS, _LONG, _LONG, _ADDRESS, _ADDRESS, _ADDRESS, _INT, _INT, _ADDRESS, _ADDRESS),
        *(_ADDRESS, _REAL, _REAL, _ADDRESS, _REAL, _ADDRESS),
    ),
    "finish_spectra": (*_ROWS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _INT, _REAL, _ADDRESS),
    "sample_spectra": (
        *(*_ROWS, _ADDRESS, _LONG, _LONG, _ADDRESS, _ADDRESS, _LONG, _ADDRESS, _INT),
        *(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    ),
    "noise_inputs": (*_ROWS, _ADDRESS, _ADDRESS, _INT, _REAL, _REAL, _REAL, _INT, _ADDRESS),
}


class Kernels:
    """Kernels for one instruction set, as attributes: `kernels.convolve(...)`. What they take stands in the C files."""

    def __init__(self, library: ctypes.CDLL, instructions: str) -> None:
        self.instructions = instructions
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, types in _SIGNATURES.items():
            function = getattr(library, f"{name}_{instructions}")
            function.argtypes = types
            function.restype = ctypes.c_int32 if name == "transform_parts" else None
            self._functions[name] = function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]


@cache
def load_kernels(instructions: str | None = None) -> Kernels | None:
    """The kernels for this processor, or None if the package was built without them.

    Args:
        instructions: "baseline", "avx2" or "avx512" instead of the best there is.
    """
    path = Path(__file__).with_name("kernels.so")
    if not path.is_file():
        return None
    try:
        library = ctypes.CDLL(str(path))
        return Kernels(library, instructions or _SETS[library.instruction_set()])
    except (OSError, AttributeError):  # compiled for another processor
        return None
