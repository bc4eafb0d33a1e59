"""Tiles that several processes can make alike; importable by workers and by a build that is killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from flame.errors import FlameError
from flame.physics import sensor
from flame.scene import Scene
from flame.tile import LabelledTile
from flame.training.cache import MadeTiles, build_cache

COUNT, SIZE = 7, 12
BANDS = sensor("aviris-ng").bands.methane()


def make_tile(index: int, size: int = SIZE) -> LabelledTile:
    rng = np.random.default_rng(index)
    valid = rng.random((size, size)) > 0.1
    scene = Scene(
        rng.uniform(0.1, 3, (len(BANDS), size, size)).astype(np.float32),
        BANDS,
        valid,
        rng.uniform(1, 9, (3, size, size)).astype(np.float32),
    )
    enhancement = rng.uniform(0, 4000, (size, size)).astype(np.float32)
    rate = None if index == 3 else 100.0 * index
    return LabelledTile(f"sim_{index:04d}", scene, enhancement > 3000, enhancement, emission_kg_h=rate)


def brightness(scene: Scene) -> np.ndarray:
    """Stands for the teacher."""
    return np.where(scene.valid, scene.radiance.mean(axis=0), np.float32(0))


def make_all_but_two(index: int) -> LabelledTile:
    if index in (0, 4):
        raise FlameError(f"file_{index}.tif: is truncated; copy it again")
    return make_tile(index)


def make_slowly(index: int) -> LabelledTile:
    """Tells of each tile, and never comes back from the fifth."""
    print(index, flush=True)
    if index == 4:
        time.sleep(600)
    return make_tile(index)


def source_of(make=make_tile, key: str = "seed 1", count: int = COUNT) -> MadeTiles:
    return MadeTiles(count, make, key)


if __name__ == "__main__":
    build_cache(Path(sys.argv[1]), source_of(make_slowly), brightness)
