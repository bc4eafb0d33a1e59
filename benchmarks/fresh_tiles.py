"""How long a fresh training tile takes on one core, beside simulating one from nothing.

    python benchmarks/fresh_tiles.py [--tiles 100] [--size 128] [--json FILE]

Times are those of the process, not of the clock, so that other work on the machine counts for less.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

from flame.files import write_json
from flame.simulate import (
    FreshSettings,
    FreshTiles,
    NoisePool,
    draw_background,
    make_plume_pool,
    preset,
    simulate_tile,
    tile_generator,
)


def median_ms(work: Callable[[int], object], count: int) -> float:
    """Median processor time of one call."""
    times = []
    for index in range(count):
        start = process_time()
        work(index)
        times.append(process_time() - start)
    return 1e3 * float(np.median(times))


def main() -> None:
    """Prints the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiles", type=int, default=100)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    settings = preset("wide", size=given.size)
    backgrounds = tuple(draw_background(tile_generator(1, index), settings, f"b{index}") for index in range(8))
    plumes = make_plume_pool(np.random.default_rng(0), 16, given.size, settings.pixel_m, preset("permian").plume)
    noise = NoisePool(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    rows = {}
    for title, chosen in (
        ("fresh tile with label, ms", FreshSettings()),
        ("fresh tile, enhancement only, ms", FreshSettings(label=None)),
    ):
        tiles = FreshTiles(backgrounds, plumes, noise, chosen)
        tiles.draw(rng)
        rows[title] = median_ms(lambda _, tiles=tiles: tiles.draw(rng), given.tiles)  # type: ignore[misc]
    rows["background made once, ms"] = median_ms(lambda i: draw_background(tile_generator(2, i), settings), 5)
    rows["tile simulated from nothing, ms"] = median_ms(lambda i: simulate_tile(tile_generator(2, i), settings, "a"), 5)
    rows["spectra a background"] = float(np.median([len(background.spectra) for background in backgrounds]))
    for title, value in rows.items():
        print(f"{title:36s} {value:8.1f}")
    if given.json:
        write_json(given.json, rows)


if __name__ == "__main__":
    main()
