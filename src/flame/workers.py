"""Worker processes that end with the process that started them, even if that is killed."""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """Makes this worker process end as soon as its parent has; call it first in every worker.

    A killed parent cannot tell its workers. Each holds one end of a pipe whose other end the parent has, and the
    system closes that when the parent dies, of whatever.
    """
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), name="end with parent", daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)  # There is nobody left to tell, and nothing half-written has a final name.
