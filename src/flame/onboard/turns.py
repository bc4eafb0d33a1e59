"""Turns at something that only one thread may use at a time."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from weakref import WeakSet

__all__ = ["Turn"]


class Turn:
    """A lock that a forked process gets anew: who held it at the fork is not there to give it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _TURNS.add(self)

    def renew(self) -> None:
        """Forgets who holds it."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_TURNS: WeakSet[Turn] = WeakSet()


def _renew_all() -> None:
    for turn in _TURNS:
        turn.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
