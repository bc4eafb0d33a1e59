"""The network on the compiled kernels of `flame.kernels`."""

from flame.onboard.native.network import NativeNetwork

__all__ = ["NativeNetwork"]
