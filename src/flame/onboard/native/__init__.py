"""The network on the compiled kernels of `flame.kernels`."""

from flame.onboard.native.network import NativeNetwork
from flame.onboard.native.planes import NativePlanes

__all__ = ["NativeNetwork", "NativePlanes"]
