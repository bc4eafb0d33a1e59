"""Measures a trained second flame-plus anew and packages it: every kept figure that belongs to its weights.

    python tools/measure_flame_plus.py RUN --unseen indian_pines.npz --work runs/measured

Steps whose files are there are not run again, so that a killed run goes on with the same command; a folder of other
weights is refused. The package and the tables are put in their places before rates are measured, which are
those of the packaged model; coefficients and curves follow. Git says what changed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SENSORS = ("emit", "enmap", "prisma", "tanager-1", "aviris-ng", "aviris-3")
MODELS, RATES, RESULTS = ROOT / "src/flame/onboard/models", ROOT / "src/flame/rates/data", ROOT / "results"
NETWORK_PLACES = {
    "flame-plus.onnx": MODELS,
    "flame-plus.json": MODELS,
    "flame-plus.safetensors": MODELS,
    "model.safetensors": RESULTS / "flame-plus-2",
    "detection.json": RESULTS / "flame-plus-2",
    "detection.md": RESULTS / "flame-plus-2",
    "operating_points.json": RESULTS / "flame-plus-2",
    "reliability.png": RESULTS / "flame-plus-2",
}
RATE_PLACES = {
    "wind.json": RESULTS / "wind",
    "pod.json": RESULTS / "wind",
    "flame_effective_wind.json": RATES,
    "detection_limit.json": RATES,
}
"""The folder of each file that is measured; rates are measured with the package in its place."""


def once(made: Path, *words: object) -> None:
    """Runs a program of this environment unless the last file that it writes is there; ends this one if it fails."""
    if made.is_file():
        print(f"{made.name} is there")
        return
    print("$", *words, flush=True)
    subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, check=True)


def put(work: Path, places: dict[str, Path]) -> None:
    """Files in their places."""
    for name, folder in places.items():
        shutil.copyfile(work / name, folder / name)
        print(f"{(folder / name).relative_to(ROOT)} is new")


def measure_network(given: argparse.Namespace) -> None:
    """The package with its figures."""
    work: Path = given.work
    plain, whole = work / "plain/flame-plus.onnx", work / "flame-plus.onnx"
    table, points = work / "detection.json", work / "operating_points.json"
    real = [word for path in given.unseen for word in ("--real", path)]
    package = ("tools/package_flame_plus.py", work / "model.safetensors")
    once(work / "plain/flame-plus.safetensors", *package, plain)
    judged = ("--network", plain, "--seed", given.table_seed, "--json", table, "--markdown", work / "detection.md")
    once(work / "detection.md", "benchmarks/detection.py", *real, *judged)
    judged = ("--tiles", 96, "--ground", 96, "--seed", given.points_seed, "--json", points)
    drawn = work / "reliability.png"
    once(drawn, "benchmarks/operating_points.py", plain, *real, *judged, "--plot", drawn)
    once(work / "flame-plus.safetensors", *package, whole, "--points", points, "--table", table)
    put(work, NETWORK_PLACES)


def measure_rates(work: Path) -> None:
    """Coefficients of rates and curves of what can be seen, for the masks of the packaged model."""
    sensors = [word for name in SENSORS for word in ("--sensor", name)]
    cases = ("--out", work, "--cases", 600, *sensors)
    once(work / "effective_wind.json", "-m", "flame", "bench", "wind", *cases, "--fit-cases", 400)
    once(work / "detection_limit.json", "-m", "flame", "bench", "pod", *cases)
    shutil.copyfile(work / "effective_wind.json", work / "flame_effective_wind.json")
    put(work, RATE_PLACES)


def main() -> None:
    """Measures what is missing."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("run", type=Path, help="the trained network: its file, or the folder of its run")
    asked.add_argument("--unseen", type=Path, action="append", default=[], help="a real scene it was not trained on")
    asked.add_argument("--work", type=Path, required=True, help="where figures are kept until they are all there")
    asked.add_argument("--table-seed", type=int, default=701)
    asked.add_argument("--points-seed", type=int, default=901)
    given = asked.parse_args()
    given.work, given.unseen = given.work.resolve(), [path.resolve() for path in given.unseen]
    (given.work / "plain").mkdir(parents=True, exist_ok=True)
    (given.work / "rates").mkdir(exist_ok=True)
    weights, kept = (
        given.run / "model.safetensors" if given.run.is_dir() else given.run,
        given.work / "model.safetensors",
    )
    if kept.is_file() and kept.read_bytes() != weights.read_bytes():
        asked.error(f"{given.work} holds figures of other weights; name another folder")
    shutil.copyfile(weights, kept)
    measure_network(given)
    measure_rates(given.work / "rates")


if __name__ == "__main__":
    main()
