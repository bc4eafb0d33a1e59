"""What the parts of flame-plus are worth: networks trained alike but for one thing, judged on the same tiles.

    python benchmarks/ablation.py both=runs/both fields=runs/fields --real CHIP.npz --json OUT.json --markdown OUT.md

Tiles are made as those of `detection.py`. Networks are judged in torch, as they were trained: one without fields, or
with weights for the bands of one sensor, cannot be packaged. F1 of pixels above the shipped threshold, in brackets at
the best one. With `--hide` each network stands there a second time with its functions of wavelength hidden, as they are
from a share of its tiles in training.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import gaussian_filter

from detection import LABELS_PPM_M, Judged, f1, grounds, make_tile, plume_pools
from flame.detection import ScoreHistogram
from flame.models.plus import LEVELS_PPM_M, PlaneBatch
from flame.models.plus.weights import StoredPlus, load_plus
from flame.physics import sensor
from flame.pipeline.export_plus import spectral_batch
from flame.prepare.planes import prepare_planes
from flame.training.fresh_tiles import own_weights
from flame.workers import threads_each

THRESHOLD = 0.35
"""The shipped one of `balanced`."""


def hidden(name: str) -> str:
    """Name of a network without its functions of wavelength."""
    return f"{name}, hidden"


def all_logits(networks: dict[str, StoredPlus], tile: Judged, hide: bool) -> dict[str, np.ndarray]:
    """Logits of exceeding each level, by network; those that serve other sensors' bands alone are left out."""
    planes, view = prepare_planes(tile.radiance, tile.bands, tile.valid)
    spectra = spectral_batch(view, tile.bands)
    layers = (planes.fields, planes.windows, planes.estimate_ppm_m, planes.sigma_ppm_m)
    rest = [torch.from_numpy(layer)[None] for layer in layers]
    own = replace(spectra, weights=torch.from_numpy(own_weights(tile.bands)).float())
    told = {}
    for name, stored in networks.items():
        if stored.facts.get("fixed_bands"):
            (only,) = stored.facts["sensors"]
            if sensor(only).bands.methane() != tile.bands:
                continue
        seen = own if stored.facts.get("fixed_bands") else spectra
        with torch.no_grad():
            spectral = stored.model.spectral(seen)
            told[name] = np.asarray(stored.model(PlaneBatch(spectral, *rest)).level_logits[0])
            if hide:
                nothing = torch.zeros_like(spectral)
                told[hidden(name)] = np.asarray(stored.model(PlaneBatch(nothing, *rest)).level_logits[0])
    return told


def judge_set(given: argparse.Namespace, number: int) -> list[dict]:
    """One ground seen by one sensor, at every noise level."""
    torch.set_num_threads(1)
    networks = {name: load_plus(Path(path)) for name, path in given.runs.items()}
    ground, name, draw, noises = list(grounds(given))[number]
    pools = plume_pools(given.seed)
    at = float(np.log(THRESHOLD / (1 - THRESHOLD)))
    rows = []
    for noise in noises:
        counts: dict[tuple[str, float], np.ndarray] = {}
        curves: dict[tuple[str, float], ScoreHistogram] = {}
        for index in range(given.tiles):
            own_rng = np.random.default_rng((given.seed, number, index))
            tile = make_tile(own_rng, draw(own_rng), name, noise, pools)
            smooth = gaussian_filter(tile.truth_ppm_m, 0.5)
            for method, logits in all_logits(networks, tile, given.hide).items():
                for level in LABELS_PPM_M:
                    label = (smooth > level * noise) & tile.valid
                    score = logits[LEVELS_PPM_M.index(level * noise)]
                    mask = (score > at) & tile.valid
                    key = method, level
                    hit = np.array([(mask & label).sum(), (mask & ~label).sum(), (~mask & label).sum()])
                    counts[key] = counts.get(key, 0) + hit
                    curves.setdefault(key, ScoreHistogram()).include(score, label, tile.valid)
        figures = {
            method: {
                f"{level:g}": {"f1": f1(counts[method, level]), "best": curves[method, level].best_threshold().f1}
                for level in LABELS_PPM_M
            }
            for method in dict.fromkeys(method for method, _ in counts)
        }
        rows.append({"ground": ground, "sensor": name, "noise": noise, "tiles": given.tiles, "networks": figures})
    return rows


def page(rows: list[dict], networks: list[str], given: argparse.Namespace) -> str:
    """The table for reading: means over the noise levels of each ground and sensor, and over all rows."""
    lines = [
        "# Networks trained alike but for one thing",
        "",
        f"Made by `benchmarks/ablation.py`, {given.tiles} tiles a row, seed {given.seed}. F1 of pixels at true levels "
        f"of 250 / 500 / 1000 ppm m times the noise factor, above {THRESHOLD}; in brackets at the best threshold for "
        "500. Mean over noise levels.",
        "",
        "| ground | sensor | " + " | ".join(networks) + " |",
        "|---|---|" + "---:|" * len(networks),
    ]
    places = list(dict.fromkeys((row["ground"], row["sensor"]) for row in rows))
    for ground, name in places:
        here = [row for row in rows if (row["ground"], row["sensor"]) == (ground, name)]
        lines.append(f"| {ground} | {name} | " + " | ".join(_means(here, method) for method in networks) + " |")
    for name in dict.fromkeys(name for _, name in places):
        seen = [row for row in rows if row["sensor"] == name]
        lines.append(f"| **all** | {name} | " + " | ".join(_means(seen, method) for method in networks) + " |")
    return "\n".join(lines) + "\n"


def _means(rows: list[dict], method: str) -> str:
    told = [row["networks"][method] for row in rows if method in row["networks"]]
    if not told:
        return "-"
    levels = " / ".join(f"{np.mean([each[f'{level:g}']['f1'] for each in told]):.3f}" for level in LABELS_PPM_M)
    return f"{levels} ({np.mean([each['500']['best'] for each in told]):.3f})"


def main() -> None:
    """Judges and prints."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("networks", nargs="+", metavar="NAME=RUN", help="trained networks with the names of their rows")
    asked.add_argument("--real", type=Path, action="append", default=[])
    asked.add_argument("--sensor", action="append")
    asked.add_argument("--preset", action="append", help="simulated ground; wide and permian unless given, or none")
    asked.add_argument("--hide", action="store_true", help="judge each also with its functions of wavelength hidden")
    asked.add_argument("--tiles", type=int, default=24)
    asked.add_argument("--seed", type=int, default=811)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--json", type=Path)
    asked.add_argument("--markdown", type=Path)
    given = asked.parse_args()
    given.runs = dict(text.split("=", 1) for text in given.networks)
    given.sensor = given.sensor or ["aviris-ng", "emit", "prisma", "enmap"]
    given.preset = ["wide", "permian"] if given.preset is None else [kind for kind in given.preset if kind != "none"]
    rows: list[dict] = []
    with threads_each(1), ProcessPoolExecutor(given.workers, get_context("spawn")) as crew:
        for some in crew.map(partial(judge_set, given), range(len(list(grounds(given))))):
            rows += some
            print(f"{some[0]['ground']} {some[0]['sensor']} done", flush=True)
    if given.json:
        steps = {name: load_plus(Path(path)).facts["step"] for name, path in given.runs.items()}
        given.json.write_text(json.dumps({"seed": given.seed, "steps": steps, "rows": rows}, indent=1) + "\n")
    methods = [each for name in given.runs for each in ([name, hidden(name)] if given.hide else [name])]
    text = page(rows, methods, given)
    print(text)
    if given.markdown:
        given.markdown.write_text(text)


if __name__ == "__main__":
    main()
