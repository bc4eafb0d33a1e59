"""Damaged files of every format that FLAME reads: each must be read, or refused by a FlameError, and nothing else.

    python tools/fuzz.py --mutations 20000            # all formats, in turn
    python tools/fuzz.py --format ENVI --mutations 500
    python tools/fuzz.py --format ENVI --case 117     # one case again, with its traceback

Every case has a seed of its own (seed, format, number), so one found bad can be had again. Cases run in child
processes with bounded memory and time; one that hangs or dies costs itself only. The exit code is 0 if every case
ended in "read" or "refused".
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from flame.errors import FlameError
from fuzz_formats import FORMATS, Format
from fuzz_mutations import mutate_for

__all__ = ["OUTCOMES", "Tally", "campaign"]

OUTCOMES = ("read", "refused", "raw", "hang", "crash")
"""Read all the same; refused by a FlameError; another exception; beyond its time; the process died."""

EXTRA_BYTES = 2 << 30
"""Memory a case may take beyond what the process has."""

SECONDS = 20.0
"""Processor time that a case may take, far beyond any honest one. By the clock it may be ten times as long."""

_FORK = get_context("fork")


@dataclass
class Tally:
    """What became of one format's cases.

    Attributes:
        outcomes: How many ended how.
        kinds: What was raw, hung or crashed, by kind, and the first case of it.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def bad(self) -> int:
        """Cases that ended as none may."""
        return sum(self.outcomes[name] for name in OUTCOMES[2:])


def damage(chosen: Format, sample: Path, path: Path, work: Path, rng: np.random.Generator) -> Path:
    """Lays the sample into `work` with one file damaged; returns the path to read there."""
    shutil.rmtree(work, ignore_errors=True)
    files = sorted(file for file in sample.rglob("*") if file.is_file())
    victims = [file for file in files if file.name not in chosen.leave]
    # Files that are alike (a tile's 72 bands) are one choice.
    suffixes = sorted({file.suffix for file in victims})
    suffix = suffixes[int(rng.integers(len(suffixes)))]
    alike = [file for file in victims if file.suffix == suffix]
    victim = alike[int(rng.integers(len(alike)))]
    for file in files:
        target = work / file.relative_to(sample)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file != victim:
            os.link(file, target)
    target = work / victim.relative_to(sample)
    if chosen.is_file and rng.random() < 0.02:
        _replace(target, rng)
    else:
        content = mutate_for(victim.suffix, rng, victim.read_bytes())
        if chosen.resign is not None and rng.random() < 0.5:
            content = chosen.resign(content)
        target.write_bytes(content)
    return work / path.relative_to(sample)


def _replace(target: Path, rng: np.random.Generator) -> None:
    """Something else than a file where a file should be, or nothing."""
    kind = int(rng.integers(5))
    if kind == 0:
        target.mkdir()
    elif kind == 1:
        target.symlink_to(target.name)
    elif kind == 2:
        target.write_bytes(b"")
    elif kind == 3:
        os.mkfifo(target)


def _generator(seed: int, chosen: Format, case: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(chosen.name.encode()), case])


def _kind_of(error: BaseException) -> str:
    """Type and place, so that one mistake is one line however often it is met."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}flame{os.sep}" in f.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {place}"


def attempt(chosen: Format, path: Path) -> tuple[str, str]:
    """Reads a damaged sample; the outcome, and what it was if it is a bad one."""
    try:
        chosen.read(path)
    except FlameError:
        return "refused", ""
    except BaseException as error:
        return "raw", _kind_of(error)
    return "read", ""


def _work(
    chosen: Format, sample: Path, path: Path, work: Path, seed: int, cases: Sequence[int], told: Connection
) -> None:
    """A child process: cases one after the other, each told before and after."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    _bound_memory(chosen, path)
    for case in cases:
        told.send((case, "begins", ""))
        broken = damage(chosen, sample, path, work, _generator(seed, chosen, case))
        told.send((case, *attempt(chosen, broken)))


def _bound_memory(chosen: Format, path: Path) -> None:
    """A limit on memory, after what is whole was read once: libraries are large, cases must be small."""
    chosen.read(path)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + EXTRA_BYTES, has + EXTRA_BYTES))


def _answers(told: Connection, process: int | None, seconds: float) -> bool:
    """Whether a child says something before it has worked so long, or ten times as long has passed."""
    began, before = time.monotonic(), _worked_s(process)
    while not told.poll(1.0):
        if _worked_s(process) - before > seconds or time.monotonic() - began > 10 * seconds:
            return False
    return True


def _worked_s(process: int | None) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cases(
    chosen: Format, sample: Path, path: Path, work: Path, seed: int, count: int
) -> Iterator[tuple[int, str, str]]:
    """Outcomes of all cases of a format; a child that hangs or dies is replaced by another."""
    first = 0
    while first < count:
        ours, theirs = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_work, args=(chosen, sample, path, work, seed, range(first, count), theirs))
        child.start()
        theirs.close()
        case, state = first, "started"
        try:
            while first < count:
                # Before the first case there are imports and a whole sample to read.
                if not _answers(ours, child.pid, SECONDS if state == "begins" else 10 * SECONDS):
                    yield case, "hang", f"no answer within {SECONDS:.0f} s"
                    first = case + 1
                    break
                case, state, words = ours.recv()
                if state != "begins":
                    yield case, state, words
                    first = case + 1
        except EOFError:
            child.join()
            if state == "started":
                raise RuntimeError(f"the whole sample of '{chosen.name}' cannot be read") from None
            code = child.exitcode or 0
            yield case, "crash", signal.Signals(-code).name if code < 0 else f"exit code {code}"
            first = case + 1
        finally:
            child.kill()
            child.join()
            ours.close()


def _sample(chosen: Format, folder: Path) -> Path:
    """Makes a whole sample, in a process of its own: this one must stay fit to be forked."""
    folder.mkdir(parents=True)
    ours, theirs = _FORK.Pipe(duplex=False)
    maker = _FORK.Process(target=lambda: theirs.send(chosen.make(folder)))
    maker.start()
    theirs.close()
    try:
        path: Path = ours.recv()
    except EOFError:
        raise RuntimeError(f"no sample of '{chosen.name}' could be made") from None
    maker.join()
    return path


def campaign(formats: Sequence[Format], mutations: int, seed: int, say: object = None) -> dict[str, Tally]:
    """Runs that many cases, shared evenly by the formats.

    Args:
        formats: Which.
        mutations: Cases in all.
        seed: The same seed gives the same cases.
        say: Called with a line after each format, if given.
    """
    tallies: dict[str, Tally] = {}
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="flame-fuzz-", dir=fast) as root:
        for number, chosen in enumerate(formats):
            tally = tallies[chosen.name] = Tally()
            count = (mutations * (number + 1)) // len(formats) - (mutations * number) // len(formats)
            sample = Path(root) / f"sample-{number}"
            path = _sample(chosen, sample)
            for case, outcome, kind in _cases(chosen, sample, path, Path(root) / "work", seed, count):
                tally.outcomes[outcome] += 1
                if kind:
                    tally.kinds[f"{outcome}: {kind}"].append(case)
            if callable(say):
                say(row(chosen.name, tally))
    return tallies


def row(name: str, tally: Tally) -> str:
    """A line of the table."""
    return f"{name:26}" + "".join(f"{tally.outcomes[outcome]:9}" for outcome in OUTCOMES)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=20_000, help="cases in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", help="only formats whose name holds this")
    parser.add_argument("--case", type=int, help="this case alone, in this process, with its traceback")
    parser.add_argument("--json", type=Path, help="write the counts there")
    given = parser.parse_args()
    formats = [chosen for chosen in FORMATS if given.format is None or given.format in chosen.name]
    if given.case is not None:
        return _again(formats[0], given.seed, given.case)
    print(f"{'format':26}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES), flush=True)
    tallies = campaign(formats, given.mutations, given.seed, lambda line: print(line, flush=True))
    total = Tally()
    for tally in tallies.values():
        total.outcomes.update(tally.outcomes)
    print(row("all", total))
    for name, tally in tallies.items():
        for kind, cases in tally.kinds.items():
            print(f"{name}: {len(cases)} x {kind} (first: case {cases[0]})")
    if given.json is not None:
        counts = {name: {outcome: tally.outcomes[outcome] for outcome in OUTCOMES} for name, tally in tallies.items()}
        given.json.write_text(json.dumps({"seed": given.seed, "formats": counts}, indent=1) + "\n")
    return 1 if total.bad else 0


def _again(chosen: Format, seed: int, case: int) -> int:
    with tempfile.TemporaryDirectory(prefix="flame-fuzz-") as root:
        sample = Path(root) / "sample"
        sample.mkdir()
        path = chosen.make(sample)
        broken = damage(chosen, sample, path, Path(root) / "work", _generator(seed, chosen, case))
        print(chosen.read(broken))
    return 0


if __name__ == "__main__":
    sys.exit(main())
