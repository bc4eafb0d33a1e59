"""How fast training can read tiles from a cache: warm (page cache) and cold (straight from the disk)."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from flame.physics import sensor
from flame.scene import Scene
from flame.tile import LabelledTile
from flame.training.cache import MadeTiles, TileCache, build_cache

BANDS = sensor("aviris-ng").bands.methane()


def make_tile(index: int, size: int) -> LabelledTile:
    """Noise in the shape of a simulated tile: reading does not care what the numbers mean."""
    rng = np.random.default_rng(index)
    shape = (size, size)
    scene = Scene(
        rng.random((len(BANDS), *shape), dtype=np.float32) + np.float32(0.1),
        BANDS,
        np.ones(shape, dtype=np.bool_),
        rng.random((3, *shape), dtype=np.float32),
    )
    enhancement = rng.random(shape, dtype=np.float32)
    return LabelledTile(f"noise_{index:05d}", scene, enhancement > 0.99, enhancement, emission_kg_h=100.0)


def flat_teacher(scene: Scene) -> np.ndarray:
    """Stands for the teacher's map, which is not what is measured here."""
    return np.zeros(scene.shape, dtype=np.float32)


def drop_page_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def tiles_per_second(cache: TileCache, batch_size: int, seconds: float, seed: int) -> float:
    """Whole shuffled epochs for at least that long, batch after batch into arrays made once; every byte is copied."""
    rng = np.random.default_rng(seed)
    batch = cache.new_batch(batch_size)
    batches = len(cache) // batch_size
    read, start = 0, time.perf_counter()
    while read == 0 or time.perf_counter() - start < seconds:
        for indices in rng.permutation(len(cache))[: batches * batch_size].reshape(batches, batch_size):
            cache.read_into(indices.tolist(), batch)
            read += batch_size
    return read / (time.perf_counter() - start)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tiles", type=int, default=160)
    options.add_argument("--size", type=int, default=128)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--folder", type=Path, help="where to put the cache; a temporary folder by default")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "noise.cache"
        start = time.perf_counter()
        source = MadeTiles(chosen.tiles, partial(make_tile, size=chosen.size), "noise")
        build_cache(path, source, flat_teacher)
        build_s = time.perf_counter() - start
        cache = TileCache(path)
        drop_page_cache(path)
        cold = tiles_per_second(cache, chosen.batch, 0.0, seed=0)
        warm = tiles_per_second(cache, chosen.batch, chosen.seconds, seed=1)
        tile_mb = path.stat().st_size / chosen.tiles / 1e6
    result = {
        "tiles_per_second": warm,
        "tiles_per_second_cold": cold,
        "megabytes_per_second": warm * tile_mb,
        "megabytes_per_tile": tile_mb,
        "build_tiles_per_second": chosen.tiles / build_s,
        "size": chosen.size,
        "bands": len(BANDS),
        "tiles": chosen.tiles,
        "batch": chosen.batch,
    }
    print(f"{chosen.tiles} tiles of {chosen.size} x {chosen.size} x {len(BANDS)}, {tile_mb:.1f} MB each")
    print(f"  read, page cache warm  {warm:8.0f} tiles/s  {warm * tile_mb / 1e3:5.1f} GB/s")
    print(f"  read, cold from disk   {cold:8.0f} tiles/s  {cold * tile_mb / 1e3:5.1f} GB/s")
    print(f"  build (noise tiles)    {chosen.tiles / build_s:8.0f} tiles/s")
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
