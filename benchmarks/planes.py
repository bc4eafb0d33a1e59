"""What a tile's planes cost, in C and in NumPy, beside MAG1C-SAS: contenders in turns within one run.

    python benchmarks/planes.py [--json FILE] [--rounds 5] [--size 512]

The planes are everything between radiance and the first learned layer of `flame-plus`. "NumPy" has the filter's own
kernels, as the reference that tests hold the planes against; "noise-aware filter" is the part of the planes that
`flame filter noise-aware-mf` computes. On a shared computer look at ratios and at CPU time: wall time is what others
leave.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flame.filters import FILTERS
from flame.physics import BandSet, sensor
from flame.prepare.planes import GRID_NM, PlanePreparer, PlaneSettings
from side_by_side import extra_peak_mb, in_own_process, print_table, take_turns, write_json

BANDS: BandSet = sensor("aviris-ng").bands.methane()
FUNCTIONS = 16


def simulated(size: int, seed: int) -> np.ndarray:
    from flame.simulate import preset, simulate_tile

    return simulate_tile(np.random.default_rng(seed), preset("narrow", size=size), "benchmark").tile.scene.radiance


def planes(radiance: np.ndarray, kernels: str | None, threads: int) -> Callable[[], object]:
    """Prepares the tile; the functions are random, for their arithmetic does not depend on what was learned."""
    functions = np.random.default_rng(1).normal(size=(FUNCTIONS, GRID_NM.size)).astype(np.float32)
    shape = radiance.shape[1], radiance.shape[2]
    preparer = PlanePreparer(PlaneSettings(), functions, BANDS, shape, threads=threads, kernels=kernels)
    valid = np.ones(shape, dtype=np.bool_)
    return lambda: preparer.prepare(radiance, valid)


def filtered(name: str, radiance: np.ndarray) -> Callable[[], object]:
    valid = np.ones(radiance.shape[1:], dtype=np.bool_)
    return lambda: FILTERS[name].score(radiance, BANDS, valid)


def contenders(radiance: np.ndarray) -> dict[str, Callable[[], object]]:
    return {
        "planes, C, 2 threads": planes(radiance, "auto", 2),
        "planes, C, 1 thread": planes(radiance, "auto", 1),
        "planes, NumPy": planes(radiance, None, 2),
        "noise-aware filter": filtered("noise-aware-mf", radiance),
        "MAG1C-SAS": filtered("mag1c-sas", radiance),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each contender a round; the best of them counts"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--memory-of", nargs=2, metavar=("NAME", "TILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        radiance = np.load(options.memory_of[1])
        print(extra_peak_mb(lambda: contenders(radiance)[options.memory_of[0]]()))
        return

    radiance = simulated(options.size, options.seed)
    runs = contenders(radiance)
    times = take_turns(runs, options.rounds, repeats=dict.fromkeys(runs, options.repeats))
    with tempfile.TemporaryDirectory() as folder:
        tile = Path(folder) / "tile.npy"
        np.save(tile, radiance)
        memory = {name: in_own_process(Path(__file__), ["--memory-of", name, str(tile)]) for name in runs}

    def best_of(values: tuple[float, ...]) -> float:
        """The median over the rounds of the best run of each."""
        return float(np.median(np.reshape(values, (options.rounds, options.repeats)).min(axis=1)))

    wall = {name: best_of(timing.seconds) for name, timing in times.items()}
    processor = {name: best_of(timing.processor_seconds) for name, timing in times.items()}
    rows = [
        [
            name,
            *(f"{1e3 * value:.0f}" for value in (wall[name], times[name].best, processor[name])),
            f"{memory[name]:.0f}",
        ]
        for name in runs
    ]
    shape = "x".join(str(n) for n in (*radiance.shape[1:], radiance.shape[0]))
    header = ["", "ms", "least ms", "CPU ms", "extra MB"]
    print_table(f"{shape} tile, {options.rounds} rounds in turns, best of {options.repeats} a round", header, rows)
    fast = "planes, C, 2 threads"
    ratios = {
        f"{name} over {fast}": {"wall": wall[name] / wall[fast], "cpu": processor[name] / processor[fast]}
        for name in runs
        if name != fast
    }
    for name, ratio in ratios.items():
        print(f"{name}: {ratio['wall']:.1f} (CPU {ratio['cpu']:.1f})")
    write_json(
        options.json,
        {"tile": shape, "seconds": wall, "processor_seconds": processor, "extra_peak_mb": memory, "ratios": ratios},
    )


if __name__ == "__main__":
    main()
