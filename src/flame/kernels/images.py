"""Arrays as the kernels take them: images with a border, weights in blocks of channels."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np

from flame.kernels.limits import SIDE, block_sizes

__all__ = ["Image", "ImageStruct", "images", "pack", "struct_of"]


class ImageStruct(ctypes.Structure):
    """`image` of network.c."""

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

    def struct(self, kernel: int = 1) -> ImageStruct:
        """The image as the kernels take it, to be read with 1 x 1 or 3 x 3 taps."""
        stride, plane = (step // 4 for step in self._memory.strides[:2])
        return ImageStruct(self.pixels.ctypes.data, plane, stride, self.channels, kernel)


def struct_of(planes: np.ndarray) -> ImageStruct:
    """Planes (channel, row, col) float32 without a border, to be read with 1 x 1 taps; columns in whole steps."""
    plane, stride = (step // 4 for step in planes.strides[:2])
    return ImageStruct(planes.ctypes.data, plane, stride, len(planes), 1)


def images(*structs: ImageStruct) -> Any:
    """Several images as one argument."""
    return (ImageStruct * len(structs))(*structs)


def pack(weight: np.ndarray) -> np.ndarray:
    """Weights (channel, tap) in the order the kernels read them: block of channels, tap, channel."""
    edges = np.cumsum([0, *block_sizes(len(weight))])
    parts = [weight[low:high].T.ravel() for low, high in pairwise(edges)]
    return np.concatenate(parts).astype(np.float32, copy=False)
