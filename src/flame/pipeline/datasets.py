"""Simulated data sets: planned, drawn in parallel, written in the STARCOP layout."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from flame import __version__
from flame.errors import FlameError
from flame.files import write_json
from flame.io import open_scene, starcop
from flame.io.names import injected_name
from flame.records import read_json, record
from flame.scene import AnyScene
from flame.simulate import (
    SimulatedTile,
    TileSettings,
    cut_background,
    inject_plume,
    preset,
    simulate_tile,
    tile_generator,
)
from flame.workers import end_with_parent, threads_each

__all__ = ["PLAN_FILE", "SimulationPlan", "background_scene", "map_tiles", "read_plan", "simulate_dataset"]

PLAN_FILE = "simulation.json"
_EDITION = 2

T = TypeVar("T")

_MOST_TILES = 10_000_000
_LARGEST_TILE = 16_384
"""Beyond these a plan is damaged, or a slip of the finger."""


@dataclass(frozen=True)
class SimulationPlan:
    """Everything that fixes a simulated data set; kept beside it as `simulation.json`.

    Attributes:
        tiles: Number of tiles.
        seed: Seed of the whole set; each tile draws from its own stream by its index.
        preset: Name of the settings in `flame.simulate.PRESETS`.
        size: Rows and columns of a tile.
        sensor: Sensor whose bands and noise are simulated.
        test_share: Share of the tiles that go to the test split, the last ones.
        backgrounds: Real scenes to inject plumes into; none for simulated ground.
        background_noise: Whether sensor noise is added to real backgrounds.
        edition: Edition of the simulator. In the first, `wide` was what is `cluttered` now; data sets of that time are
            drawn again as they were.
    """

    tiles: int
    seed: int = 0
    preset: str = "wide"
    size: int = 128
    sensor: str = "aviris-ng"
    test_share: float = 0.2
    backgrounds: tuple[str, ...] = ()
    background_noise: bool = True
    edition: int = _EDITION

    def __post_init__(self) -> None:
        if not 1 <= self.tiles <= _MOST_TILES:
            raise FlameError(f"a data set needs between one and {_MOST_TILES:,} tiles, got {self.tiles}")
        if not 1 <= self.size <= _LARGEST_TILE:
            raise FlameError(f"a tile has between 1 and {_LARGEST_TILE:,} rows and columns, got {self.size}")
        if not 0.0 <= self.test_share <= 1.0:
            raise FlameError(f"the test share must lie in 0 to 1, got {self.test_share}")
        if self.seed < 0:
            raise FlameError(f"the seed must not be negative, got {self.seed}")
        self.settings()

    def settings(self) -> TileSettings:
        """The distributions to draw from."""
        known = "cluttered" if self.edition < _EDITION and self.preset == "wide" else self.preset
        return preset(known, size=self.size, sensor_name=self.sensor)

    def facts(self) -> dict[str, Any]:
        """The plan for a report; of real scenes only their names, not where they lie."""
        return {**asdict(self), "backgrounds": [Path(name).name for name in self.backgrounds]}

    def name(self, index: int) -> str:
        """Name of a tile; on real ground it tells which, so that a split never has the same ground on both sides."""
        if self.backgrounds:
            ground = Path(self._ground(tile_generator(self.seed, index))).stem
            return injected_name(ground, self.preset, self.seed, index)
        return f"sim_{self.preset}_{self.seed}_{index:06d}"

    def _ground(self, rng: np.random.Generator) -> str:
        """The real scene of a tile: the first thing its stream draws."""
        return self.backgrounds[int(rng.integers(len(self.backgrounds)))]

    def split(self, index: int) -> str:
        """Split of a tile, `train` or `test`."""
        return "test" if index >= round(self.tiles * (1.0 - self.test_share)) else "train"

    def draw(self, index: int) -> SimulatedTile:
        """Draws one tile with all its truth; what is on disk is this tile."""
        rng = tile_generator(self.seed, index)
        if not self.backgrounds:
            return simulate_tile(rng, self.settings(), self.name(index))
        scene = cut_background(background_scene(self._ground(rng)), rng, self.size)
        return inject_plume(scene, rng, self.settings(), self.name(index), add_noise=self.background_noise)


@lru_cache(maxsize=8)
def background_scene(path: str) -> AnyScene:
    """A real scene to put plumes into, opened once."""
    return open_scene(path)


def read_plan(folder: Path | str) -> SimulationPlan:
    """The plan of a simulated data set, from which its tiles can be drawn again with their truth."""
    path = Path(folder) / PLAN_FILE
    if not path.is_file():
        raise FlameError(f"{path}: no such file; only data sets written by `flame simulate` can be drawn again")
    stored = read_json(path, "the plan of a simulated data set")
    if isinstance(stored, dict):
        stored.pop("flame_version", None)
        stored.setdefault("edition", 1)
    return record(SimulationPlan, stored, str(path))


def _write_plan(plan: SimulationPlan, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PLAN_FILE
    if path.is_file() and read_plan(folder) != plan:
        raise FlameError(f"{folder} holds another simulation (see {PLAN_FILE}); choose an empty folder")
    write_json(path, {**asdict(plan), "flame_version": __version__})


def map_tiles(
    work: Callable[[SimulationPlan, int], T], plan: SimulationPlan, workers: int | None = None
) -> Iterator[T]:
    """Applies a function of (plan, index) to every tile in worker processes; results come in order.

    Each uses one BLAS thread: faster together, and the same rounding everywhere.

    Args:
        work: A function at module level.
        plan: The data set.
        workers: Number of processes; by default one for each core.
    """
    workers = min(workers or os.cpu_count() or 1, plan.tiles)
    with threads_each(1), ProcessPoolExecutor(workers, get_context("spawn"), end_with_parent) as pool:
        yield from pool.map(work, repeat(plan, plan.tiles), range(plan.tiles), chunksize=2)


def _write(folder: Path, plan: SimulationPlan, index: int) -> starcop.TileRecord:
    tile = plan.draw(index).tile
    starcop.write_tile(tile, folder / tile.name)
    return starcop.TileRecord.of(tile, plan.split(index))


@dataclass(frozen=True)
class _Writer:
    """A function of (plan, index) that can be sent to a worker."""

    folder: Path

    def __call__(self, plan: SimulationPlan, index: int) -> starcop.TileRecord:
        return _write(self.folder, plan, index)


def simulate_dataset(
    plan: SimulationPlan,
    folder: Path | str,
    workers: int | None = None,
    on_tile: Callable[[starcop.TileRecord], None] | None = None,
) -> list[starcop.TileRecord]:
    """Draws a data set and writes it: one folder per tile, `train.csv`, `test.csv` and `simulation.json`.

    The bytes depend on the plan alone, not on the number of workers.

    Args:
        plan: What to draw.
        folder: Where to; a folder that holds another simulation is refused.
        workers: Number of processes; by default one for each core.
        on_tile: Called after each tile, for a progress bar.
    """
    folder = Path(folder)
    plan = replace(plan, backgrounds=tuple(str(Path(path).resolve()) for path in plan.backgrounds))
    for path in plan.backgrounds:
        background_scene(path).methane()
    _write_plan(plan, folder)
    records = []
    for written in map_tiles(_Writer(folder), plan, workers):
        records.append(written)
        if on_tile is not None:
            on_tile(written)
    for split in ("train", "test"):
        members = [written for written in records if written.split == split]
        if members:
            starcop.write_index(folder, split, members)
    return records
