"""The same scenes on a Dask cluster that loses a worker, and on one machine, interrupted and resumed: equal results?

    python benchmarks/many_scenes.py [--scenes 40] [--json FILE]

Needs the extra `cluster`. A scheduler and two worker processes run on this machine; one worker is killed after a
quarter of the scenes. Then the same batch runs in one process, is stopped after half of it, and is resumed with two
worker processes. The maps and plumes of every scene are compared byte by byte.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flame.onboard import FILTER_MODEL, Detectors
from flame.pipeline.detect import Outcome, detect_files
from flame.pipeline.runners import Runner, here, on_cluster, on_processes
from flame.simulate import preset, simulate_tile, tile_generator
from side_by_side import write_json

COMPARED = ("probability.tif", "enhancement.tif", "mask.tif", "plumes.geojson")


def make_scenes(folder: Path, count: int) -> list[Path]:
    """Simulated scenes in two folders, of which every fifth pair shares a name."""
    settings = preset("narrow", size=64)
    paths = []
    for index in range(count):
        scene = simulate_tile(tile_generator(5, index), settings, "scene").tile.scene
        name = f"pair{index // 10}" if index % 10 < 2 else f"scene{index}"
        path = folder / "ab"[index % 2] / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        bands = {"wavelength_nm": scene.bands.centres_nm, "fwhm_nm": scene.bands.fwhm_nm}
        np.savez(path, radiance=scene.radiance, valid=scene.valid, **bands)
        paths.append(path)
    return paths


def results(out: Path) -> dict[str, list[str]]:
    """Checksums of what each scene's folder holds."""
    return {
        folder.name: [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in COMPARED]
        for folder in sorted(out.iterdir())
        if folder.is_dir()
    }


def run(scenes: list[Path], out: Path, runner: Runner, done: Callable[[Outcome], None]) -> tuple[Counter[str], float]:
    """One batch; the states of its scenes and the seconds it took."""
    began = time.perf_counter()
    outcomes = detect_files(scenes, out, Detectors(FILTER_MODEL, threads=1), done, runner=runner)
    return Counter(outcome.state for outcome in outcomes), time.perf_counter() - began


def on_a_cluster(scenes: list[Path], out: Path) -> tuple[Counter[str], float, int]:
    """With two worker processes, one of which is killed; also how often any scene was told of more than once."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        told: list[str] = []

        def kill_one(outcome: Outcome) -> None:
            told.append(outcome.source)
            if len(told) == max(1, len(scenes) // 4):
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        states, seconds = run(scenes, out, on_cluster(cluster.scheduler_address), kill_one)
    return states, seconds, len(told) - len(set(told))


def interrupted(scenes: list[Path], out: Path) -> tuple[Counter[str], float]:
    """Stopped after half of the scenes in one process, resumed with two."""
    count = 0

    def stop(_: Outcome) -> None:
        nonlocal count
        count += 1
        if count == len(scenes) // 2:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        run(scenes, out, here, stop)
    return run(scenes, out, on_processes(2), lambda _: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=40)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenes = make_scenes(folder / "in", arguments.scenes)
        cluster, cluster_s, twice = on_a_cluster(scenes, folder / "cluster")
        resumed, resumed_s = interrupted(scenes, folder / "resumed")
        equal = results(folder / "cluster") == results(folder / "resumed")
    facts = {
        "scenes": arguments.scenes,
        "cluster": {"states": dict(cluster), "seconds": round(cluster_s, 1), "told_twice": twice},
        "resumed": {"states": dict(resumed), "seconds": round(resumed_s, 1)},
        "results_equal": equal,
    }
    print(json.dumps(facts, indent=1))
    write_json(arguments.json, facts)


if __name__ == "__main__":
    main()
