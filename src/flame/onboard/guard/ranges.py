"""How large activations may be: what a known tile made of them, times a margin, and what was proven since."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flame.kernels import load_kernels

__all__ = ["Ranges"]

_PIECE = 1 << 16


class Ranges:
    """Bounds of the buffers of a runtime.

    Args:
        buffers: Arrays of real or complex numbers, by name.
        margin: How many times the largest value that was seen is still believed.
    """

    def __init__(self, buffers: Mapping[str, np.ndarray], margin: float) -> None:
        self._flat = {name: _reals(array) for name, array in buffers.items()}
        self._margin = margin
        self._largest = dict.fromkeys(self._flat, 0.0)

    def of(self, buffers: Mapping[str, np.ndarray]) -> Ranges:
        """What is believed of these buffers, for others of the same names."""
        others = Ranges(buffers, self._margin)
        others._largest |= {name: self._largest[name] for name in others._largest if name in self._largest}
        return others

    @property
    def nbytes(self) -> int:
        """Bytes that are looked through."""
        return sum(flat.nbytes for flat in self._flat.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What is looked through."""
        return tuple(self._flat)

    def clear(self) -> None:
        """Zeros in all buffers, as when they were made."""
        for flat in self._flat.values():
            flat[:] = 0

    def learn(self) -> None:
        """What the buffers hold now is good."""
        for name, flat in self._flat.items():
            self._largest[name] = max(self._largest[name], _largest(flat))

    def odd(self) -> tuple[str, ...]:
        """Buffers with a value beyond what is believed, or that is no number."""
        return tuple(
            name
            for name, flat in self._flat.items()
            if not _largest(flat) <= self._margin * self._largest[name]  # so written that NaN is odd
        )


def _reals(array: np.ndarray) -> np.ndarray:
    """The same memory as a row of real numbers."""
    flat = array.reshape(-1, order="A")
    return flat.view(flat.real.dtype)


def _largest(flat: np.ndarray) -> float:
    """The largest magnitude; NaN if there is one."""
    if flat.size == 0:
        return 0.0
    kernels = load_kernels()
    if kernels is not None and flat.dtype == np.float32 and flat.flags.c_contiguous:
        return float(kernels.largest_magnitude(flat.ctypes.data, flat.size))
    # In pieces, so that the second look at a piece finds it in the cache.
    pieces = (flat[at : at + _PIECE] for at in range(0, flat.size, _PIECE))
    found = np.array([(-piece.min(), piece.max()) for piece in pieces])
    return float(found.max())
