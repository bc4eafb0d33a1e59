"""How much of the limit is out of reach because real ground carries the noise of the instrument that took it.

    python benchmarks/ground_noise.py --real CHIP.npz --beside TABLE.json --json OUT.json --markdown OUT.md

The limit of `detection.py` knows the radiance of every pixel without methane, and with it the noise that was in the
scene when it was taken; no detector can know that. Here a second limit knows the ground but not this noise: it gets a
fresh draw of it, in a covariance that it knows. That covariance is estimated where the scene is plainest, from
differences of neighbouring pixels, so texture of such places counts as noise too: the truth lies between the limits.
`--beside` takes what `detection.py` wrote for the same scenes, sensors, seed and number of tiles, so of the very same
tiles, and sets its best filter and its network beside the limits.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, uniform_filter

from detection import (
    LABELS_PPM_M,
    Judged,
    grounds,
    limit_maps,
    make_tile,
    plume_pools,
    smoothed_limit,
)  # fmt: skip
from flame.detection import ScoreHistogram
from flame.physics import ABSORPTION_UNIT_PPM_M, unit_absorption
from flame.workers import threads_each

PLAINEST = 0.1
"""Share of the scene that noise is told from: where brightness changes least."""
BRIGHTNESS_BINS = 12


def own_noise(cube: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Covariance of the noise of a cube (band, row, col), from neighbours in its plainest places."""
    light = cube.mean(axis=0)
    spread = np.sqrt(np.maximum(uniform_filter(light**2, 5) - uniform_filter(light, 5) ** 2, 0)) / light
    pairs = valid[:, 1:] & valid[:, :-1]
    around = np.maximum(spread[:, 1:], spread[:, :-1])
    plain = pairs & (around <= np.quantile(around[pairs], PLAINEST))
    differences = (cube[:, :, 1:] - cube[:, :, :-1])[:, plain].astype(np.float64)
    return np.cov(differences) / 2


def limit_without_noise(tile: Judged, noise: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The limit's maps where the noise of the ground itself is not known."""
    values, vectors = np.linalg.eigh(noise)
    root = (vectors * np.sqrt(np.maximum(values, 0))).astype(np.float32)
    drawn = np.tensordot(root, rng.standard_normal(tile.clean.shape, dtype=np.float32), 1)
    residual = (tile.radiance - tile.clean + drawn).reshape(len(tile.clean), -1)
    spectrum = (unit_absorption(tile.bands) / ABSORPTION_UNIT_PPM_M)[:, None]
    target = spectrum * tile.clean.reshape(len(tile.clean), -1)
    light = tile.clean.mean(axis=0).ravel()
    edges = np.quantile(light, np.linspace(0, 1, BRIGHTNESS_BINS + 1)[1:-1])
    bins = np.searchsorted(edges, light)
    estimate, precision = np.zeros(light.size), np.zeros(light.size)
    variance = np.square(tile.sigma.reshape(len(tile.clean), -1).astype(np.float64))
    for number in range(BRIGHTNESS_BINS):
        inside = bins == number
        if not inside.any():
            continue
        weights = np.linalg.solve(noise + np.diag(variance[:, inside].mean(axis=1)), target[:, inside])
        precision[inside] = (weights * target[:, inside]).sum(axis=0)
        estimate[inside] = (weights * residual[:, inside]).sum(axis=0) / precision[inside]
    shape = tile.valid.shape
    return smoothed_limit(estimate.reshape(shape), np.where(tile.valid, precision.reshape(shape), 0), tile.valid)


def judge_ground(given: argparse.Namespace, number: int) -> list[dict]:
    """One scene seen by one sensor, at every noise level."""
    ground, name, draw, noises = list(grounds(given))[number]
    pools = plume_pools(given.seed)
    rows = []
    for noise in noises:
        tables: dict[tuple[float, str], ScoreHistogram] = {}
        for index in range(given.tiles):
            rng = np.random.default_rng((given.seed, number, index))
            tile = make_tile(rng, draw(rng), name, noise, pools)
            own = own_noise(tile.clean, tile.valid)
            smooth = gaussian_filter(tile.truth_ppm_m, 0.5)
            kinds = {"limit": limit_maps(tile), "without": limit_without_noise(tile, own, rng)}
            for kind, maps in kinds.items():
                for how, score in maps.items():
                    for level in LABELS_PPM_M:
                        table = tables.setdefault((level, f"{kind}|{how}"), ScoreHistogram())
                        table.include(score.astype(np.float32), smooth > level * noise, tile.valid)
        row: dict = {"ground": ground, "sensor": name, "noise": noise}
        for kind in ("limit", "without"):
            row[kind] = {
                f"{level:g}": max(
                    table.best_threshold().f1
                    for (own_level, how), table in tables.items()
                    if own_level == level and how.startswith(f"{kind}|") and table.plume.any()
                )
                for level in LABELS_PPM_M
            }
        rows.append(row)
    return rows


def beside(table: Path | None) -> dict[tuple, dict[str, dict[str, float]]]:
    """Best filter and network of each row of a table that `detection.py` wrote."""
    found = {}
    for row in json.loads(table.read_text())["rows"] if table else []:
        filters, network = {}, {}
        for level, methods in row["f1"].items():
            filters[level] = max(told["best"] for name, told in methods.items() if "how" in told and name != "limit")
            network[level] = next(told["pixels"] for told in methods.values() if "pixels" in told)
        found[row["ground"], row["sensor"], row["noise"]] = {"filter": filters, "network": network}
    return found


def page(rows: list[dict], given: argparse.Namespace) -> str:
    """The table for reading."""
    others = ["filter", "network"] if given.beside else []
    kinds = {
        "limit": "limit: knows the ground and its noise",
        "without": "knows the ground, not its noise",
        "filter": "best filter",
        "network": "flame-plus",
    }
    shown = [kind for kind in kinds if kind in ("limit", "without", *others)]
    lines = [
        "# What the noise of the ground itself takes from the limit",
        "",
        f"Made by `benchmarks/ground_noise.py`, {given.tiles} tiles a row, seed {given.seed}. F1 at true levels of",
        "250 / 500 / 1000 ppm m times the noise factor.",
        "",
        f"| ground | sensor | noise | {' | '.join(kinds[kind] for kind in shown)} |",
        f"|---|---|---:|{'---:|' * len(shown)}",
    ]
    for row in rows:
        cells = [" / ".join(f"{row[kind][f'{level:g}']:.2f}" for level in LABELS_PPM_M) for kind in shown]
        lines.append(f"| {row['ground']} | {row['sensor']} | {row['noise']:g} | {' | '.join(cells)} |")
    means = {kind: [np.mean([row[kind][f"{level:g}"] for row in rows]) for level in LABELS_PPM_M] for kind in shown}
    cells = [" / ".join(f"{mean:.2f}" for mean in means[kind]) for kind in shown]
    lines.append(f"| **all** | | | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Judges all scenes and prints them."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--real", type=Path, action="append", default=[])
    asked.add_argument("--sensor", action="append")
    asked.add_argument(
        "--preset",
        action="append",
        default=[],
        help="simulated ground, which has no noise: what texture does",
    )
    asked.add_argument("--tiles", type=int, default=12)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--seed", type=int, default=701)
    asked.add_argument("--beside", type=Path, help="what detection.py wrote of the same tiles")
    asked.add_argument("--json", type=Path)
    asked.add_argument("--markdown", type=Path)
    given = asked.parse_args()
    given.sensor = given.sensor or ["aviris-ng", "emit", "prisma", "enmap"]
    count = len(list(grounds(given)))
    rows = []
    with threads_each(1), ProcessPoolExecutor(given.workers, get_context("spawn")) as crew:
        for found in crew.map(partial(judge_ground, given), range(count)):
            rows += found
            print(json.dumps(found), flush=True)
    others = beside(given.beside)
    rows = [row | others.get((row["ground"], row["sensor"], row["noise"]), {}) for row in rows]
    if given.json:
        given.json.write_text(json.dumps({"seed": given.seed, "tiles": given.tiles, "rows": rows}, indent=1) + "\n")
    if given.markdown:
        given.markdown.write_text(page(rows, given))


if __name__ == "__main__":
    main()
