"""Compiled kernels in C: the arithmetic of the preparation and of the network; see `vectors.h`."""

from flame.kernels.library import SIDE, Image, Kernels, block_sizes, images, load_kernels, pack, takes

__all__ = ["SIDE", "Image", "Kernels", "block_sizes", "images", "load_kernels", "pack", "takes"]
