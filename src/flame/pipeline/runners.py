"""Where the scenes of a batch are worked on: in this process, in several of this machine, or on a Dask cluster.

All three take the same tasks and the same function, and give the same results: a batch may be stopped on one and
resumed on another.
"""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from typing import Any, Protocol, TypeVar, runtime_checkable

from flame.errors import FlameError
from flame.workers import WorkerLost, run_in_processes, threads_each

__all__ = ["Runner", "here", "on_cluster", "on_processes"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 2
_PATIENCE_S = 10
_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})|inproc://\S+")


@runtime_checkable
class Runner(Protocol):
    """Applies a function to tasks, in any order; a task is taken from the iterable only when there is room for it.

    Closing what it returns ends the work.
    """

    def __call__(
        self, work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Generator[tuple[Task, Result | WorkerLost], None, None]:
        """Yields each task with its result."""
        ...


def here(
    work: Callable[[Task], Result], tasks: Iterable[Task]
) -> Generator[tuple[Task, Result | WorkerLost], None, None]:
    """One task after another in this process."""
    for task in tasks:
        yield task, work(task)


def on_processes(count: int, threads: int = 1) -> Runner:
    """Worker processes of this machine.

    Args:
        count: How many.
        threads: BLAS threads of each.
    """

    def run(
        work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Generator[tuple[Task, Result | WorkerLost], None, None]:
        with threads_each(threads):
            yield from run_in_processes(work, tasks, count)

    return run


def on_cluster(address: str) -> Runner:
    """The workers of a Dask cluster, which see the same files under the same paths.

    What a worker that dies was at is given to another by the scheduler. What the cluster cannot run at all, since its
    workers lack flame or take no more tasks, fails alone.

    Args:
        address: Of the scheduler, such as "tcp://10.0.0.1:8786".

    Raises:
        FlameError: If Dask is not installed, this is no address, or no scheduler answers there.
    """
    form = _ADDRESS.fullmatch(address)
    if form is None or int(form["port"] or 0) > 65_535:
        # Dask itself would say so too, but its client then ends with a traceback.
        raise FlameError(f"'{address}' is no address of a Dask scheduler; give one such as tcp://10.0.0.1:8786")
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise FlameError("--scheduler needs Dask: pip install 'flame-methane[cluster]'") from None

    def run(
        work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Generator[tuple[Task, Result | WorkerLost], None, None]:
        try:
            client = _client_class(distributed)(address, timeout=_PATIENCE_S, set_as_default=False)
        except Exception as reason:  # what a scheme lacks (certificates, a library) is of many kinds
            raise FlameError(f"no Dask scheduler answers at {address} ({reason})") from None
        with client:
            yield from _run_with(client, distributed, work, tasks)

    return run


def _client_class(distributed: Any) -> Any:
    """Dask's client, but one that never got through goes without a word: it would wait and print a traceback.

    Ours is closed by `with`, so that nothing is left to do for its end.
    """
    return type("Client", (distributed.Client,), {"__del__": lambda _: None})


def _run_with(
    client: Any, distributed: Any, work: Callable[[Task], Result], tasks: Iterable[Task]
) -> Generator[tuple[Task, Result | WorkerLost], None, None]:
    coming = iter(tasks)
    pending: dict[Any, Task] = {}
    queue = distributed.as_completed([], loop=client.loop)

    def fill() -> None:
        room = _AHEAD * max(1, sum(client.nthreads().values()))
        while len(pending) < room:
            task = next(coming, None)
            if task is None:
                return
            # Not pure: the same scene may be asked for again with another content.
            future = client.submit(work, task, pure=False)
            pending[future] = task
            queue.add(future)

    try:
        fill()
        while pending:
            future = next(queue)
            yield pending.pop(future), _result_of(future, distributed)
            fill()
    finally:
        client.cancel(list(pending))


def _result_of(future: Any, distributed: Any) -> Any:
    """What a task gave; `work` itself raises nothing, so that whatever is raised is the cluster's."""
    try:
        return future.result()
    except distributed.scheduler.KilledWorker as lost:
        return WorkerLost(f"the cluster's workers died over it ({lost})")
    except (Exception, CancelledError) as failure:
        return WorkerLost(f"the cluster could not run it ({type(failure).__name__}: {failure})")
