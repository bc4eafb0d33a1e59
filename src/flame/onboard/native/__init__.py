"""The model's arithmetic in compiled kernels of its own; see `kernels.c`."""

from flame.onboard.native.library import WHOLE_BLOCK, Kernels, load_kernels, pack
from flame.onboard.native.network import NativeNetwork

__all__ = ["WHOLE_BLOCK", "Kernels", "NativeNetwork", "load_kernels", "pack"]
