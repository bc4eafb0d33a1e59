"""A watchdog for time: what has not ended when it must have is ended, with the process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["EXIT_HUNG", "Watchdog"]

EXIT_HUNG = 75
"""Exit code of a process that its watchdog ended; as `EX_TEMPFAIL`: start it again."""

_LOG = logging.getLogger(__name__)


def _end_process() -> None:
    _LOG.critical("the watchdog's time is up; the process ends, to be started again")
    os._exit(EXIT_HUNG)  # a thread that hangs in C can be ended in no other way


class Watchdog:
    """Watches pieces of work from a thread of its own.

    Args:
        limit_s: Seconds that a piece of work may take.
        on_hang: What to do with one that takes longer; ends the process unless given.
    """

    def __init__(self, limit_s: float, on_hang: Callable[[], None] = _end_process) -> None:
        self._limit_s, self._on_hang = limit_s, on_hang
        self._changed = threading.Condition()
        self._deadline_s: float | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The work inside must end in time."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._watch, name="flame-watchdog", daemon=True)
            self._thread.start()
        self._set(time.monotonic() + self._limit_s)
        try:
            yield
        finally:
            self._set(None)

    def _set(self, deadline_s: float | None) -> None:
        with self._changed:
            self._deadline_s = deadline_s
            self._changed.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                deadline_s = self._deadline_s
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
                if left_s is None or left_s > 0:
                    self._changed.wait(left_s)
                    continue
                self._deadline_s = None
            self._on_hang()
