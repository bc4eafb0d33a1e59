"""The model's arithmetic in compiled kernels of its own; see `kernels.c`."""

from flame.onboard.native.library import Kernels, load_kernels, pack, takes
from flame.onboard.native.network import NativeNetwork

__all__ = ["Kernels", "NativeNetwork", "load_kernels", "pack", "takes"]
