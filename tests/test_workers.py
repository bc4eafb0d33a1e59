"""Worker processes: every task once, whoever dies."""

import os
import signal
import time
from pathlib import Path

import pytest

from flame.files import whole_file
from flame.workers import WorkerLost, run_in_processes


def _double(number):
    return 2 * number


def _die_once(path):
    """Kills its own process the first time it sees a task, as the system does when memory ends."""
    mark = Path(path)
    if "mortal" in mark.name and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return mark.name


def _die_always(name):
    if name == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def _fail(_):
    raise ValueError("a mistake of the program")


def test_every_task_has_its_result():
    assert sorted(run_in_processes(_double, range(7), 2)) == [(n, 2 * n) for n in range(7)]


def test_what_a_killed_worker_was_at_is_done_by_another(tmp_path):
    tasks = [str(tmp_path / name) for name in ("a", "mortal", "b", "c")]
    found = list(run_in_processes(_die_once, tasks, 2))
    assert sorted(result for _, result in found) == ["a", "b", "c", "mortal"]


def test_a_task_that_kills_every_worker_is_lost_alone():
    found = dict(run_in_processes(_die_always, ["a", "deadly", "b", "c"], 2))
    assert isinstance(found.pop("deadly"), WorkerLost)
    assert found == {"a": "a", "b": "b", "c": "c"}


def test_tasks_are_taken_only_when_there_is_a_worker_for_them():
    taken = []

    def tasks():
        for number in range(6):
            taken.append(number)
            yield number

    results = run_in_processes(_double, tasks(), 2)
    next(results)
    assert len(taken) <= 3
    results.close()


def _write_slowly(path):
    with whole_file(Path(path)) as partial:
        partial.write_text("half")
        Path(f"{path}.begun").touch()
        time.sleep(60)


def test_a_worker_that_is_told_to_end_leaves_no_half_file(tmp_path):
    """As on Ctrl-C: what a stopped batch left would stay there for ever."""
    begun = tmp_path / "map.tif.begun"

    def tasks():
        yield str(tmp_path / "map.tif")
        while not begun.exists():
            time.sleep(0.05)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_in_processes(_write_slowly, tasks(), 2))
    assert list(tmp_path.iterdir()) == [begun]


def test_a_mistake_of_the_program_is_not_hidden():
    with pytest.raises(ValueError, match="a mistake of the program"):
        list(run_in_processes(_fail, [1], 1))
