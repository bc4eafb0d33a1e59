"""Worker processes: they end with the process that started them, and one that dies loses nobody else's work."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from flame.errors import FlameError

__all__ = ["WorkerLost", "end_with_parent", "run_in_processes", "threads_each"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ATTEMPTS = 2
_LAST_WORD_S = 5.0


class WorkerLost(FlameError):
    """A worker process that died over a task, again and again."""


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


@contextmanager
def threads_each(count: int) -> Iterator[None]:
    """Workers started inside use so many BLAS threads each."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(eq=False)
class _Worker(Generic[Task]):
    """One process and what it is at."""

    process: Any
    line: Connection
    task: Task | None = None
    attempt: int = 0


def _serve(line: Connection, work: Callable[[Any], Any]) -> None:
    """What a worker process does: tasks in, results out, until the line is closed."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent decides
    signal.signal(signal.SIGTERM, _leave)
    with suppress(EOFError, OSError):
        while True:
            task = line.recv()
            try:
                line.send((True, work(task)))
            except Exception as failure:
                line.send((False, failure))


def _leave(*_: object) -> None:
    """Ends this worker as an exception does, so that half-written and unpacked files are removed on the way."""
    sys.exit(1)


def run_in_processes(
    work: Callable[[Task], Result], tasks: Iterable[Task], count: int
) -> Generator[tuple[Task, Result | WorkerLost], None, None]:
    """Applies a function to tasks in worker processes; results come as they are ready.

    Tasks are taken from the iterable only when a worker is free. One whose worker died (killed, out of memory) is given
    to a new worker once more, and counts as lost if that dies too; the others go on.

    Args:
        work: A function that can be pickled.
        tasks: What to apply it to; they can be pickled.
        count: Number of processes.

    Raises:
        Exception: What `work` raised; all workers are ended.
    """
    context = get_context("spawn")
    coming = iter(tasks)
    again: deque[tuple[Task, int]] = deque()
    workers: list[_Worker[Task]] = []

    def hire() -> _Worker[Task]:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def next_task() -> tuple[Task, int] | None:
        return again.popleft() if again else next(((task, 1) for task in coming), None)

    try:
        while True:
            while len(workers) < count or any(worker.task is None for worker in workers):
                chosen = next_task()
                if chosen is None:
                    break
                idle = next((worker for worker in workers if worker.task is None), None)
                if idle is None:
                    idle = hire()
                    workers.append(idle)
                idle.task, idle.attempt = chosen
                with suppress(OSError):  # a worker that has just died is noticed below
                    idle.line.send(idle.task)
            busy = [worker for worker in workers if worker.task is not None]
            if not busy:
                return
            ready = set(wait([worker.line for worker in busy] + [worker.process.sentinel for worker in busy]))
            for worker in busy:
                if worker.line not in ready and worker.process.sentinel not in ready:
                    continue
                task, worker.task = worker.task, None
                assert task is not None
                try:
                    good, result = worker.line.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    worker.process.join(_LAST_WORD_S)
                    if worker.attempt < _ATTEMPTS:
                        again.append((task, worker.attempt + 1))
                    else:
                        yield task, WorkerLost(_how(worker.process.exitcode))
                    continue
                if not good:
                    raise result
                yield task, result
    finally:
        for worker in workers:
            worker.line.close()
            worker.process.terminate()
        for worker in workers:
            worker.process.join(_LAST_WORD_S)
            if worker.process.is_alive():
                worker.process.kill()


def _how(exit_code: int | None) -> str:
    killed = "; perhaps out of memory: use fewer workers" if exit_code == -signal.SIGKILL else ""
    return f"its worker process ended {_ATTEMPTS} times (exit code {exit_code}){killed}"
