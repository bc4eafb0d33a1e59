"""The guard of a stream: what a fault in memory does to a tile is found before the tile is given out.

After each tile the constants are compared with their golden copies and the buffers with the ranges they are known to
keep. A constant that has changed is restored and the tile done again. A buffer out of range makes it be done again too,
with wiped buffers: if bit for bit the same comes out, it was the data and the range is widened; if not, it was a fault,
and a result counts only when it passes the checks. What still fails after the runtime was opened anew is flagged, its
mask left empty.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

from flame.errors import FlameError
from flame.onboard.backends import Backend
from flame.onboard.guard.golden import Golden
from flame.onboard.guard.known_tile import KnownTile, known_tile
from flame.onboard.guard.memory import address, find_arrays
from flame.onboard.guard.ranges import Ranges
from flame.onboard.guard.watchdog import Watchdog
from flame.onboard.manifest import Manifest
from flame.prepare import PreparedTile, Quality, TilePreparer
from flame.prepare.planes import PlanePreparer

__all__ = ["Guard", "GuardCounts", "GuardSettings", "Judged", "Runtime"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class GuardSettings:
    """What the guard does.

    Attributes:
        margin: How many times the largest value seen in a buffer is still believed.
        widest_buffer_bytes: Buffers larger than this are not looked through: what is wrong in them shows in what is
            made from them.
        self_test_tiles: Tiles between two runs of the known tile; None: only at the start.
        attempts: How often a tile is done at most.
        overtime_factor: A tile that takes so many times as long as the known one is counted as late.
        hang_s: Seconds after which the process of a tile that has not ended is ended; None: never.
    """

    margin: float = 2.0
    widest_buffer_bytes: int = 32 << 20
    self_test_tiles: int | None = 128
    attempts: int = 4
    overtime_factor: float = 10.0
    hang_s: float | None = None

    def __post_init__(self) -> None:
        if self.margin < 1 or self.attempts < 2 or self.overtime_factor <= 1:
            raise FlameError("a guard needs a margin of at least 1, two attempts and an overtime factor above 1")
        if self.self_test_tiles is not None and self.self_test_tiles < 1:
            raise FlameError("self-tests must be at least one tile apart")
        if self.hang_s is not None and self.hang_s <= 0:
            raise FlameError("the watchdog's time must be above zero")


@dataclass
class GuardCounts:
    """What the guard has seen since it was made; see `flame.onboard.link.health.Health`."""

    tiles: int = 0
    flagged: int = 0
    redone: int = 0
    corrected: int = 0
    renewed: int = 0
    self_tests: int = 0
    self_tests_failed: int = 0
    overtime: int = 0
    tile_s: float = 0.0
    slowest_tile_s: float = 0.0
    corrected_names: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Runtime:
    """What a tile goes through."""

    backend: Backend
    preparer: TilePreparer | PlanePreparer


@dataclass(frozen=True, eq=False)
class Judged:
    """What came of a tile.

    Attributes:
        tile: As prepared; None if that failed.
        maps: Probability, score, what else the model says, and weight; None if it could not be judged.
        failed: Why not.
    """

    tile: PreparedTile | None
    maps: Float32[np.ndarray, "map row col"] | None
    failed: Quality

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All that it tells, as arrays."""
        of_tile = () if self.tile is None else (self.tile.quality, self.tile.usable)
        return of_tile if self.maps is None else (*of_tile, self.maps)

    def same_as(self, other: Judged) -> bool:
        """Whether both are equal to the bit."""
        mine, others = self.arrays, other.arrays
        return (
            self.failed == other.failed
            and len(mine) == len(others)
            and all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(mine, others, strict=True))
        )


class Guard:
    """Watches one runtime.

    Args:
        manifest: The model's facts.
        runtime: What is watched.
        renew: Opens the runtime anew, from its verified files.
        judge: Runs a known tile through a runtime.
        settings: What to do.
    """

    def __init__(
        self,
        manifest: Manifest,
        runtime: Runtime,
        renew: Callable[[], Runtime],
        judge: Callable[[Runtime, KnownTile], Judged],
        settings: GuardSettings | None = None,
    ) -> None:
        self.settings = settings or GuardSettings()
        self.counts = GuardCounts()
        self.runtime = runtime
        self._renew, self._judge_known = renew, judge
        self._known = known_tile(manifest)
        self._answer: Judged | None = None
        self._watchdog = None if self.settings.hang_s is None else Watchdog(self.settings.hang_s)
        self.golden, self.ranges = Golden({}), Ranges({}, self.settings.margin)
        self.healthy = True
        self._since_test = 0
        self._usual_s = np.inf
        self._clearable = True
        self._broken: list[np.ndarray] = []
        self._begin()

    def watches(self, runtime: Runtime) -> bool:
        """Whether this is the runtime it watches."""
        return self.runtime.backend is runtime.backend and self.runtime.preparer is runtime.preparer

    @property
    def finds_plumes(self) -> bool:
        """Whether the known tile's plumes are likelier to be plumes than its ground: the least that a model must do."""
        if self._answer is None or self._answer.maps is None:
            return False
        probability = self._answer.maps[0]
        return bool(probability[self._known.plumes].mean() > probability[~self._known.plumes].mean())

    def judge(self, run: Callable[[Runtime], Judged]) -> Judged:
        """Runs a tile, and again where a check does not pass."""
        began = time.perf_counter()
        with self._watched():
            judged = self._checked(run)
            self._since_test += 1
            every = self.settings.self_test_tiles
            if every is not None and self._since_test >= every:
                self.self_test()
        self._note_time(time.perf_counter() - began)
        self.counts.tiles += 1
        self.counts.flagged += Quality.FAILED in judged.failed
        return judged

    def self_test(self) -> bool:
        """Runs the known tile; if its answer is not the known one, opens the runtime anew and tries once more."""
        self._since_test = 0
        self.healthy = self._knows() or (self._open_anew() and self._knows())
        return self.healthy

    def _begin(self) -> None:
        """Runs the known tile and its mirror image to tell constants from buffers, and notes the answer."""
        first = self._run_known()
        if self._answer is None:
            self._answer = first
        before = _checksums(self._arrays())
        self._judge_known(self.runtime, self._known.mirrored())
        arrays = self._arrays()
        after = _checksums(arrays)
        constant = {name: array for name, array in arrays.items() if before.get(name) == after[name]}
        self.golden = Golden(constant | find_arrays(known_tile=self._known, answer=self._answer.arrays))
        self.ranges = self.ranges.of(
            {
                name: array
                for name, array in arrays.items()
                if name not in constant
                and array.dtype.kind in "fc"
                and array.nbytes <= self.settings.widest_buffer_bytes
            }
        )
        if self._clearable:
            self.ranges.clear()
        began = time.perf_counter()
        second = self._run_known()
        self._usual_s = time.perf_counter() - began
        known = first.maps is not None and first.same_as(self._answer)
        if known and self._clearable and not second.same_as(first):
            # Something in the buffers must stay from tile to tile: open anew what was just wiped, and wipe no more.
            self._clearable = False
            self.runtime = self._renew()
            self._begin()
            return
        self.healthy = known and second.same_as(first)
        if self.healthy:
            self.ranges.learn()

    def _arrays(self) -> dict[str, np.ndarray]:
        return find_arrays(backend=self.runtime.backend, preparer=self.runtime.preparer)

    def _run_known(self) -> Judged:
        return self._judge_known(self.runtime, self._known)

    def _knows(self) -> bool:
        self.counts.self_tests += 1
        self._note_corrected(self.golden.scrub())
        self._clear()
        answer = self._run_known()
        right = self._answer is not None and answer.maps is not None and answer.same_as(self._answer)
        self.counts.self_tests_failed += not right
        return right

    def _checked(self, run: Callable[[Runtime], Judged]) -> Judged:
        judged, restored_before = run(self.runtime), frozenset[str]()
        for attempt in range(1, self.settings.attempts + 1):
            restored = self.golden.scrub()
            self._note_corrected(restored)
            odd = () if restored else self._odd(judged)
            if not restored and not odd:
                return judged
            if attempt == self.settings.attempts:
                break
            for name in restored_before.intersection(restored):
                self.golden.forget(name)  # what changes with every run is no constant
                _LOG.warning("%s changes while tiles are run and is not watched any more", name)
            restored_before = frozenset(restored)
            last = attempt == self.settings.attempts - 1
            if (last or self.golden.stuck) and not self._open_anew():
                break
            self.counts.redone += 1
            self._clear()
            again = run(self.runtime)
            if odd and again.same_as(judged):
                # A fault does not strike twice in the same way: these values are the tile's own.
                if judged.maps is not None:
                    self.ranges.learn()
                return again
            judged = again
        _LOG.error("a tile failed its checks %d times; its mask is left empty", self.settings.attempts)
        return Judged(judged.tile, None, judged.failed | Quality.FAILED)

    def _odd(self, judged: Judged) -> tuple[str, ...]:
        """What is suspicious in a tile that was run."""
        if Quality.FAILED in judged.failed:
            return ("outcome",)
        return () if judged.maps is None else self.ranges.odd()

    def _clear(self) -> None:
        """Wipes the buffers: a fault in a border that no tile writes to would else stay."""
        if self._clearable:
            self.ranges.clear()

    def _open_anew(self) -> bool:
        """Opens the runtime from its files; whether it then knows the known tile."""
        self._broken += self.golden.stuck  # held, so that nobody is given this memory again
        try:
            self.runtime = self._renew()
        except Exception:
            _LOG.exception("the runtime cannot be opened anew")
            return False
        self.counts.renewed += 1
        self._begin()
        return self.healthy

    def _note_corrected(self, names: tuple[str, ...]) -> None:
        self.counts.corrected += len(names)
        for name in names:
            self.counts.corrected_names[name] = self.counts.corrected_names.get(name, 0) + 1

    def _note_time(self, seconds: float) -> None:
        counts = self.counts
        counts.tile_s, counts.slowest_tile_s = seconds, max(counts.slowest_tile_s, seconds)
        counts.overtime += seconds > self.settings.overtime_factor * self._usual_s

    def _watched(self) -> AbstractContextManager[None]:
        return nullcontext() if self._watchdog is None else self._watchdog.watching()


def _checksums(arrays: dict[str, np.ndarray]) -> dict[str, tuple[int, int]]:
    return {
        name: (address(array), zlib.crc32(array.reshape(-1, order="A").view(np.uint8).data))
        for name, array in arrays.items()
    }
