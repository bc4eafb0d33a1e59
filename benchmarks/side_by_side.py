"""Shared by the benchmarks: contenders timed in turns within one run, the memory of each in a process of its own."""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Timing:
    """Wall times of one contender, in seconds, and processor times of all its threads."""

    seconds: tuple[float, ...]
    processor_seconds: tuple[float, ...] = ()

    @property
    def best(self) -> float:
        """The least disturbed run."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def percentile(self, percent: float) -> float:
        """The least time that so many percent of the runs did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def take_turns(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    warm_up: bool = True,
    repeats: Mapping[str, int] | None = None,
) -> dict[str, Timing]:
    """Times all contenders round after round, so that whatever else the machine does meets them alike.

    Args:
        contenders: What to run, by name.
        rounds: How often each gets its turn.
        warm_up: Whether each first runs once untimed.
        repeats: Runs a turn, all timed, where it is not one.
    """
    repeats = repeats or {}
    if warm_up:
        for run in contenders.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    processor: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            for _ in range(repeats.get(name, 1)):
                start, busy = time.perf_counter(), time.process_time()
                run()
                processor[name].append(time.process_time() - busy)
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing(tuple(times), tuple(processor[name])) for name, times in seconds.items()}


def _status_kb(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise KeyError(field)


def resident_mb() -> float:
    """Resident memory of this process now (Linux)."""
    return _status_kb("VmRSS") / 1024


def peak_mb() -> float:
    """Peak resident set of this process since it was started, in MB."""
    try:
        return _status_kb("VmHWM") / 1024
    except OSError:  # not Linux, where the figure of getrusage may be the parent's
        per_mb = 1024**2 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mb


def extra_peak_mb(run: Callable[[], object]) -> float:
    """Memory a call takes beyond what the process holds before it: peak resident set less resident set, in MB.

    Call it once, in a fresh process: what an earlier call freed may be used again without being seen.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to the present value
        before_kb = _status_kb("VmRSS")
        run()
        return (_status_kb("VmHWM") - before_kb) / 1024
    except OSError:  # not Linux: the peak cannot be set back, so the growth of the peak has to do
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run()
        per_mb = 1024**2 if sys.platform == "darwin" else 1024
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / per_mb


def in_own_process(script: Path, arguments: Sequence[str]) -> float:
    """Runs `python script arguments`, which must print one number last, and returns it."""
    done = subprocess.run(
        [sys.executable, str(script), *arguments], check=True, capture_output=True, text=True, env=dict(os.environ)
    )
    return float(done.stdout.split()[-1])


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table: the first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    print(f"\n{title}")
    for line in (header, ["-" * width for width in widths], *rows):
        first, *others = line
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        print("  ".join(cells))


def write_json(path: Path | None, figures: Mapping[str, object]) -> None:
    """Writes the figures, if a file was asked for."""
    if path is not None:
        partial = path.with_suffix(path.suffix + ".part")
        partial.write_text(json.dumps(figures, indent=2) + "\n")
        partial.replace(path)
