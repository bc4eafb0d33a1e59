"""Bits flipped in the memory of the runtime, one by one, and what became of the mask, with and without the guard.

Every flip is drawn from the seed and its own number, so that a run can stop and go on anywhere. Memory is divided into
strata (arrays of one layer, or one buffer), which are struck in turn; rates over all memory weigh each stratum by its
bytes.
"""

from __future__ import annotations

import ctypes
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from flame.detection import plume_mask
from flame.errors import FlameError
from flame.files import write_whole
from flame.kernels import Kernels, load_kernels
from flame.onboard import Detector
from flame.onboard.guard import GuardSettings, Judged, Runtime
from flame.onboard.guard.memory import find_arrays
from flame.onboard.strip import infer_tile, judge_tile
from flame.prepare import Quality
from flame.scene import Scene

__all__ = ["JOBS", "FaultBench", "FaultPlan", "Flip", "layer_of", "run_faults"]

JOBS = ("proofs", "weights", "weights_unguarded", "buffers")
_CHEAP = ("proofs", "weights")
_WRONG_SHARE = 0.05
"""A mask that has lost or gained more than this share of its plume pixels is wrong."""
_BURST = 4
_BURST_SHARE = 0.3


@dataclass(frozen=True)
class FaultPlan:
    """How many flips.

    Attributes:
        weights: In weights and constant tables, against the guard.
        weights_unguarded: Of the same flips, how many are also run without the guard.
        buffers: In buffers and inputs; each is run once, which tells both.
        proofs: Of the flips in weights, how many are run through the whole guard, tile and all.
        seed: Draws them.
    """

    weights: int = 10_000
    weights_unguarded: int = 10_000
    buffers: int = 5_000
    proofs: int = 24
    seed: int = 0


@dataclass(frozen=True)
class Flip:
    """One fault.

    Attributes:
        number: Of the flip in its job.
        stratum: Layer or buffer.
        array: Name of the array.
        bit: First bit in the array's memory.
        bits: Bits that are flipped, one beside the other.
        call: Number of the kernel call before which it strikes; -1: before the tile.
    """

    number: int
    stratum: str
    array: str
    bit: int
    bits: int
    call: int = -1

    @property
    def place(self) -> int:
        """Bit in its 32-bit word; 31 is the sign of a float."""
        return self.bit % 32


def layer_of(name: str) -> str:
    """The layer that an array belongs to: its path without numbers, and without `weight` and `bias`."""
    left_out = ("backend", "network", "weight", "bias", "memory")
    parts = [part for part in name.split(".") if not part.isdecimal() and part not in left_out]
    return ".".join(parts)


class FaultBench:
    """A tile, a runtime and its memory, ready to be struck.

    Args:
        detector: With the native runtime.
        scene: One tile with plumes.
        seed: Draws the flips.

    Raises:
        FlameError: If the runtime is not native, or finds nothing in the tile.
    """

    def __init__(self, detector: Detector, scene: Scene, seed: int = 0) -> None:
        kernels = load_kernels()
        if kernels is None or not detector.runtime.startswith("native"):
            raise FlameError(f"faults are injected into the native runtime, this is {detector.runtime}")
        self._kernels, self._scene, self._seed = kernels, scene, seed
        self._rule = detector.rule.of_pixels  # a flip counts by the pixels that it changes, core or not
        stream = detector.stream(detector.manifest.tile, guard=GuardSettings(self_test_tiles=None))
        assert stream.guard is not None
        self.guard = stream.guard
        self.runtime = self.guard.runtime
        self.guard.judge(self._whole)  # learns the ranges of this tile
        with self._watching(None) as calls:
            clean = self._whole(self.runtime)
            prepared = calls[0]
        if clean.tile is None or clean.maps is None:
            raise FlameError("the tile could not be judged; faults need one with plumes")
        self._tile = clean.tile
        with self._watching(None) as calls:
            infer_tile(self.runtime.backend, self._tile)
            self._inference_calls = calls[0]
        self._prepare_calls = prepared - self._inference_calls
        self.mask = self._mask(clean)
        if not self.mask.any():
            raise FlameError("no plume was found in the tile; faults need one with plumes")
        arrays = find_arrays(backend=self.runtime.backend, preparer=self.runtime.preparer)
        constant = set(self.guard.golden.names)
        self.constants = {name: array for name, array in arrays.items() if name in constant}
        inputs = find_arrays(radiance=scene.radiance, **({} if scene.rgb is None else {"rgb": scene.rgb}))
        self.buffers = {name: a for name, a in arrays.items() if name not in constant and a.dtype.kind in "fc"} | inputs
        self._inputs = frozenset(inputs)
        self.weight_strata = _strata({name: layer_of(name) for name in self.constants})
        self.buffer_strata = _strata({name: layer_of(name) for name in self.buffers})

    def sizes(self, strata: dict[str, list[str]], arrays: dict[str, np.ndarray]) -> dict[str, int]:
        """Bytes of each stratum."""
        return {stratum: sum(arrays[name].nbytes for name in names) for stratum, names in strata.items()}

    def weight_flip(self, number: int) -> Flip:
        """A flip in weights or constant tables."""
        return self._drawn(number, 1, self.weight_strata, self.constants)

    def buffer_flip(self, number: int) -> Flip:
        """A flip in a buffer or an input, at some moment of the tile."""
        flip = self._drawn(number, 2, self.buffer_strata, self.buffers)
        rng = np.random.default_rng([self._seed, 3, number])
        total = self._prepare_calls + self._inference_calls
        first = 0 if flip.array.startswith("preparer") else self._prepare_calls
        call = -1 if flip.array in self._inputs else int(rng.integers(first, total))
        return Flip(**(asdict(flip) | {"call": call}))

    def _drawn(self, number: int, job: int, strata: dict[str, list[str]], arrays: dict[str, np.ndarray]) -> Flip:
        rng = np.random.default_rng([self._seed, job, number])
        stratum = list(strata)[number % len(strata)]
        names = strata[stratum]
        sizes = np.array([arrays[name].nbytes for name in names], dtype=np.float64)
        name = names[int(rng.choice(len(names), p=sizes / sizes.sum()))]
        bits = _BURST if rng.random() < _BURST_SHARE else 1
        return Flip(number, stratum, name, int(rng.integers(0, 8 * arrays[name].nbytes - bits + 1)), bits)

    def guarded_weight(self, flip: Flip) -> dict[str, Any]:
        """What the guard makes of a flip in a constant.

        The guard gives a tile out only if, after it, no constant differs from its golden copy. So it is enough to see
        that the flip is found and that every bit is as before; `proven` runs the tile as well.
        """
        array = self.constants[flip.array]
        before = array.tobytes(order="A")
        with _struck(array, flip, heal=False):
            found = self.guard.golden.scrub()
        whole = array.tobytes(order="A") == before
        return {"outcome": "corrected" if found == (flip.array,) and whole else "silent"}

    def proven(self, flip: Flip) -> dict[str, Any]:
        """A flip in a constant through the whole guard, striking before or in the middle of the tile."""
        array, redone = self.constants[flip.array], self.guard.counts.redone
        calls = self._prepare_calls + self._inference_calls
        when = int(np.random.default_rng([self._seed, 4, flip.number]).integers(0, calls))
        with self._watching(Flip(**(asdict(flip) | {"call": when})), array):
            judged = self.guard.judge(self._whole)
        same = judged.maps is not None and bool((self._mask(judged) == self.mask).all())
        return {"outcome": "corrected" if same and self.guard.counts.redone > redone else "silent", "call": when}

    def unguarded_weight(self, flip: Flip) -> dict[str, Any]:
        """What a flip in a constant does to the tile if nobody looks."""
        with _struck(self.constants[flip.array], flip):
            judged = self._whole(self.runtime) if flip.array.startswith("preparer") else self._inferred()
        if flip.array.startswith("preparer"):
            self._tile_again()
        return self._judged(judged)

    def buffer(self, flip: Flip) -> dict[str, Any]:
        """What a flip in a buffer does to the tile, and whether the guard would have had it done again."""
        array = self.buffers[flip.array]
        whole = flip.call < self._prepare_calls
        struck = Flip(**(asdict(flip) | {"call": flip.call if whole else flip.call - self._prepare_calls}))
        with _healed(array, flip):
            if flip.call < 0:
                with _struck(array, flip):
                    judged = self._whole(self.runtime)
            else:
                with self._watching(struck, array):
                    judged = self._whole(self.runtime) if whole else self._inferred()
            found = Quality.FAILED in judged.failed or bool(self.guard.ranges.odd())
        if whole:
            self._tile_again()
        told = self._judged(judged)
        # What is found is done again, with wiped buffers and without the fault: the clean mask comes out. A fault in
        # an input is still there, and comes out again as if it were data.
        lasting = flip.array in self._inputs
        return told | {"guarded": "corrected" if found and not lasting else told["outcome"]}

    def _judged(self, judged: Judged) -> dict[str, Any]:
        if judged.maps is None:
            return {"outcome": "detected"}
        mask = self._mask(judged)
        lost, gained = (float(part.sum() / self.mask.sum()) for part in (self.mask & ~mask, mask & ~self.mask))
        labels, count = ndimage.label(mask, np.ones((3, 3)))
        false = count - len(set(np.unique(labels[self.mask])) - {0})
        wrong = lost + gained > _WRONG_SHARE or false > 0
        told = {"lost": round(lost, 4), "gained": round(gained, 4), "false": false}
        return {"outcome": "silent" if wrong else "harmless"} | told

    def _whole(self, runtime: Runtime) -> Judged:
        scene = self._scene
        return judge_tile(runtime, scene.radiance, scene.valid, scene.rgb, forgiving=True)

    def _tile_again(self) -> None:
        """Prepares the clean tile anew: its spectra lie in memory that the struck one has used."""
        clean = self._whole(self.runtime)
        assert clean.tile is not None
        self._tile = clean.tile

    def _inferred(self) -> Judged:
        try:
            return infer_tile(self.runtime.backend, self._tile)
        except Exception:  # as `judge_tile` in flight: whatever a struck runtime raises is a tile that failed
            return Judged(self._tile, None, Quality.FAILED)

    def _mask(self, judged: Judged) -> np.ndarray:
        assert judged.maps is not None
        assert judged.tile is not None
        return plume_mask(judged.maps[0], judged.tile.usable, self._rule)

    @contextmanager
    def _watching(self, flip: Flip | None, array: np.ndarray | None = None) -> Iterator[list[int]]:
        """Counts the kernels' calls, and strikes before the one that the flip names."""
        calls = [0]

        def strike() -> None:
            if flip is not None and array is not None and calls[0] == flip.call:
                _turn(array, flip)
            calls[0] += 1

        with _hooked(self._kernels, strike):
            yield calls


def _strata(layers: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, layer in sorted(layers.items()):
        found.setdefault(layer, []).append(name)
    return found


@contextmanager
def _hooked(kernels: Kernels, before: Callable[[], None]) -> Iterator[None]:
    """Calls `before` ahead of every kernel."""
    real = dict(kernels._functions)

    def hooked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            before()
            return function(*arguments)

        return call

    try:
        kernels._functions.update({name: hooked(function) for name, function in real.items()})
        yield
    finally:
        kernels._functions.update(real)


def _memory(array: np.ndarray) -> Any:
    """The bytes of an array, whatever Python allows to be written."""
    return (ctypes.c_uint8 * array.nbytes).from_address(array.ctypes.data)


def _turn(array: np.ndarray, flip: Flip) -> None:
    memory = _memory(array)
    for bit in range(flip.bit, flip.bit + flip.bits):
        memory[bit // 8] ^= 1 << bit % 8


@contextmanager
def _healed(array: np.ndarray, flip: Flip) -> Iterator[None]:
    """Writes the bytes that a flip touches back as they were."""
    memory, touched = _memory(array), range(flip.bit // 8, (flip.bit + flip.bits - 1) // 8 + 1)
    before = [memory[byte] for byte in touched]
    try:
        yield
    finally:
        for byte, value in zip(touched, before, strict=True):
            memory[byte] = value


@contextmanager
def _struck(array: np.ndarray, flip: Flip, heal: bool = True) -> Iterator[None]:
    if not heal:
        _turn(array, flip)
        yield
        return
    with _healed(array, flip):
        _turn(array, flip)
        yield


def run_faults(
    bench: FaultBench,
    plan: FaultPlan,
    out: Path,
    minutes: float | None = None,
    on_flip: Callable[[], None] = lambda: None,
    only: Sequence[str] = JOBS,
) -> dict[str, list[dict[str, Any]]]:
    """Does what is not done yet, for so many minutes at most, and returns all records by job.

    Args:
        bench: What is struck.
        plan: How many flips.
        out: Folder for `weights.jsonl` and so on, one line a flip.
        minutes: When to stop; None: when all is done.
        on_flip: Called after each flip.
        only: Jobs to do; others may be done by another process at the same time.

    Raises:
        FlameError: If there is no such job.
    """
    if unknown := [job for job in only if job not in JOBS]:
        raise FlameError(f"no job '{unknown[0]}'; known are {', '.join(JOBS)}")
    out.mkdir(parents=True, exist_ok=True)
    ends_at = None if minutes is None else time.monotonic() + 60 * minutes
    done = {job: _records(out / f"{job}.jsonl") for job in JOBS}
    every = max(plan.weights // max(plan.proofs, 1), 1)
    work: dict[str, tuple[int, Callable[[int], tuple[Flip, dict[str, Any]]]]] = {
        "proofs": (plan.proofs, lambda n: _with(bench.weight_flip(n * every), bench.proven)),
        "weights": (plan.weights, lambda n: _with(bench.weight_flip(n), bench.guarded_weight)),
        "weights_unguarded": (plan.weights_unguarded, lambda n: _with(bench.weight_flip(n), bench.unguarded_weight)),
        "buffers": (plan.buffers, lambda n: _with(bench.buffer_flip(n), bench.buffer)),
    }
    for job in only:  # without the last line of a run that was ended in the middle of it
        write_whole(out / f"{job}.jsonl", "".join(json.dumps(record) + "\n" for record in done[job]))
    files = {job: (out / f"{job}.jsonl").open("a", encoding="utf-8") for job in only}
    logging.disable(logging.ERROR)  # struck tiles fail, as they should: their tracebacks are not news
    try:
        for job in _turns({job: (len(done[job]), work[job][0]) for job in only}):
            if ends_at is not None and time.monotonic() > ends_at:
                break
            flip, told = work[job][1](len(done[job]))
            record = asdict(flip) | told
            done[job].append(record)
            files[job].write(json.dumps(record) + "\n")
            if job != "weights":  # those take a millisecond each
                files[job].flush()
            on_flip()
    finally:
        logging.disable(logging.NOTSET)
        for file in files.values():
            file.close()
    return {job: _records(out / f"{job}.jsonl") for job in JOBS}  # with what others have done meanwhile


def _with(flip: Flip, judge: Callable[[Flip], dict[str, Any]]) -> tuple[Flip, dict[str, Any]]:
    return flip, judge(flip)


def _turns(state: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Jobs in the order in which their flips are done: cheap ones first, long ones in turns of equal share."""
    cheap = [job for job in _CHEAP if job in state]
    yield from (job for job in cheap for _ in range(state[job][0], state[job][1]))
    long = {job: [(number + 1) / state[job][1] for number in range(*state[job])] for job in state if job not in cheap}
    yield from (job for _, job in sorted((part, job) for job, parts in long.items() for part in parts))


def _records(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
    return found
