"""Golden copies of everything that must not change: two of each, with a checksum, so that one fault never decides."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flame.onboard.guard.memory import differs, overwrite

__all__ = ["Golden"]


@dataclass(eq=False)
class _Kept:
    live: np.ndarray
    first: np.ndarray
    second: np.ndarray
    check: int


def _bits(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(array.tobytes(order="A"), np.uint8).copy()


def _crc(array: np.ndarray) -> int:
    return zlib.crc32(array.reshape(-1, order="A").view(np.uint8).data)


class Golden:
    """Watches constant arrays.

    A live array is compared with its first copy, bit by bit, which costs less than a checksum and misses nothing. Only
    where they differ do the checksums of both copies, of the live array and the one that was noted decide which of them
    is right.

    Args:
        arrays: What must not change, by name.

    Attributes:
        stuck: Live arrays that stayed wrong when they were restored: their memory is broken.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._kept = {name: _Kept(array, _bits(array), _bits(array), _crc(array)) for name, array in arrays.items()}
        self._turn = 0
        self.stuck: list[np.ndarray] = []

    @property
    def names(self) -> tuple[str, ...]:
        """What is watched."""
        return tuple(self._kept)

    @property
    def nbytes(self) -> int:
        """Bytes that are watched; the copies are twice as many."""
        return sum(kept.first.nbytes for kept in self._kept.values())

    def forget(self, name: str) -> None:
        """Watches this one no more."""
        del self._kept[name]

    def scrub(self) -> tuple[str, ...]:
        """Compares everything, restores what has changed, and returns the names of live arrays that had."""
        wrong = []
        for name, kept in self._kept.items():
            if differs(kept.live, kept.first) and self._restore(kept):
                wrong.append(name)
                if differs(kept.live, kept.first):
                    self.stuck.append(kept.live)
        self._check_second()
        return tuple(wrong)

    def _check_second(self) -> None:
        """One second copy a time: it is needed only if the first fails, so there is no hurry."""
        if self._kept:
            kept = list(self._kept.values())[self._turn % len(self._kept)]
            self._turn += 1
            if differs(kept.first, kept.second):
                self._restore(kept)

    @staticmethod
    def _restore(kept: _Kept) -> bool:
        """Outvotes what is wrong; whether the live array was."""
        checks = {"live": _crc(kept.live), "first": _crc(kept.first), "second": _crc(kept.second), "noted": kept.check}
        right, votes = Counter(checks.values()).most_common(1)[0]
        if votes < 2:  # three faults at once: nothing is known any more but the copies' own opinion
            right = checks["second"]
        source = next(array for array, which in _sources(kept) if checks[which] == right)
        kept.check = right
        for array, which in _sources(kept):
            if checks[which] != right:
                overwrite(array, source)
        return checks["live"] != right


def _sources(kept: _Kept) -> tuple[tuple[np.ndarray, str], ...]:
    return (kept.second, "second"), (kept.first, "first"), (kept.live, "live")
