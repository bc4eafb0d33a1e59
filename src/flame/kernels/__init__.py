"""Compiled kernels in C: the arithmetic of the preparation and of the network; see `vectors.h`."""

from flame.kernels.images import Image, images, pack, struct_of
from flame.kernels.library import SWITCH, Kernels, KernelsError, load_kernels, why_no_kernels
from flame.kernels.limits import MOST_REACH, MOST_THREADS, TILE_STEP, block_sizes, takes, why_no_network

__all__ = [
    "MOST_REACH",
    "MOST_THREADS",
    "SWITCH",
    "TILE_STEP",
    "Image",
    "Kernels",
    "KernelsError",
    "block_sizes",
    "images",
    "load_kernels",
    "pack",
    "struct_of",
    "takes",
    "why_no_kernels",
    "why_no_network",
]
