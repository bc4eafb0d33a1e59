"""Where outlines should run when nothing is asked: rules for the level, on ground that each network never saw.

    python benchmarks/scene_level.py --real CHIP.npz --model-of CHIP=ONNX --model MODEL.onnx --markdown OUT.md

A rule takes so many standard deviations of the estimate in a usual pixel of the scene, held between a floor and a cap.
Plumes, labels and noise are scaled alike, as in `detection.py`, whose tiles these are, drawn by another seed. Of
sixteen levels a third of an octave apart the nearest one is drawn. Judged is F1 against true levels of 250, 500 and
1000 ppm m times the noise factor, whatever level the rule gives. The page has the best rules, and some with the
threshold and core of `--cut`.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from detection import LABELS_PPM_M, f1, grounds, make_tile, plume_pools
from flame.detection import DecisionRule, plume_mask
from flame.onboard import Asked, Detector, load_model
from flame.scene import Scene
from flame.simulate import PRESETS
from flame.workers import threads_each

GRID_PPM_M = 62.5 * 2.0 ** (np.arange(16) / 3)
SIGMAS = (0.35, 0.5, 0.6, 0.75, 1.0)
FLOORS_PPM_M = (62.5, 125.0, 177.0, 250.0)
CAPS_PPM_M = (400.0, 500.0, 630.0, 800.0, 2000.0)
CUTS = tuple(product((0.25, 0.3, 0.35, 0.4), (2.1, 2.4, 2.7, 3.0)))
"""Thresholds and cores."""
FEWEST_PIXELS = 5
SHOWN = 12
HELD = ((62.5, 2000.0), (125.0, 500.0), (250.0, 500.0))
"""Floors and caps that the page has besides the best."""


@dataclass(frozen=True)
class LevelRule:
    """Where an outline runs, by the standard deviation of a usual pixel."""

    sigmas: float
    floor_ppm_m: float
    cap_ppm_m: float

    def __call__(self, sigma_ppm_m: np.ndarray) -> np.ndarray:
        return np.clip(self.sigmas * sigma_ppm_m, self.floor_ppm_m, self.cap_ppm_m)


def judge_set(given: argparse.Namespace, number: int) -> list[dict]:
    """Pixels hit, false and missed at every level and cut on each tile of one ground seen by one sensor."""
    ground, name, draw, noises = list(grounds(given))[number]
    package = load_model(Path(given.models.get(ground, given.model)))
    detectors = [Detector(package, threads=1, asked=Asked(level=float(level))) for level in GRID_PPM_M]
    pools = plume_pools(given.seed)
    rows = []
    for noise in noises:
        counts = np.zeros((given.tiles, len(GRID_PPM_M), len(CUTS), len(LABELS_PPM_M), 3))
        usual_ppm_m = np.zeros(given.tiles)
        for index in range(given.tiles):
            rng = np.random.default_rng((given.seed, number, index))
            tile = make_tile(rng, draw(rng), name, noise, pools)
            scene = Scene(tile.radiance, tile.bands, tile.valid)
            smooth = gaussian_filter(tile.truth_ppm_m, 0.5)
            for at, detector in enumerate(detectors):
                found = detector.run(scene)
                sigma = found.estimate_sigma_ppm_m
                assert sigma is not None
                usual_ppm_m[index] = np.median(sigma[np.isfinite(sigma)])
                for which, (threshold, core) in enumerate(CUTS):
                    rule = DecisionRule(threshold, False, core, FEWEST_PIXELS)
                    mask = plume_mask(found.probability, found.usable, rule, found.core_sigmas)
                    for label_at, label_ppm_m in enumerate(LABELS_PPM_M):
                        label = smooth > label_ppm_m * noise
                        hit, false = (mask & label).sum(), (mask & ~label).sum()
                        missed = (~mask & label & tile.valid).sum()
                        counts[index, at, which, label_at] = hit, false, missed
        rows.append({"ground": ground, "sensor": name, "sigma_ppm_m": usual_ppm_m, "counts": counts})
        print(f"{ground} {name} x{noise:g}: a usual pixel's sigma is {np.median(usual_ppm_m):.0f} ppm m", flush=True)
    return rows


def group(row: dict) -> str:
    """Rows whose mean is taken."""
    if row["ground"] in PRESETS:
        return row["ground"]
    return "real, AVIRIS-NG" if row["sensor"] == "aviris-ng" else "real, others"


def worth(rows: list[dict], levels: LevelRule, which: int) -> dict[str, list[float]]:
    """Mean F1 of a rule by group, at each label level."""
    found: dict[str, list[list[float]]] = {}
    for row in rows:
        at = np.abs(np.log(levels(row["sigma_ppm_m"])[:, None] / GRID_PPM_M)).argmin(axis=1)
        counts = row["counts"][np.arange(len(at)), at, which].sum(axis=0)
        found.setdefault(group(row), []).append([f1(counts[k]) for k in range(len(LABELS_PPM_M))])
    return {name: np.mean(each, axis=0).tolist() for name, each in found.items()}


def judged_rules(rows: list[dict]) -> list[dict]:
    """All rules, the best mean over groups at 500 ppm m first."""
    table = []
    for sigmas, floor, cap, which in product(SIGMAS, FLOORS_PPM_M, CAPS_PPM_M, range(len(CUTS))):
        by_group = worth(rows, LevelRule(sigmas, floor, cap), which)
        mean = np.mean(list(by_group.values()), axis=0)
        table.append(
            {
                "threshold": CUTS[which][0],
                "core_sigmas": CUTS[which][1],
                "scene_sigmas": sigmas,
                "floor_ppm_m": floor,
                "cap_ppm_m": cap,
                "mean": mean.tolist(),
                "by_ground": by_group,
            }
        )
    return sorted(table, key=lambda rule: -rule["mean"][1])


def page(table: list[dict], given: argparse.Namespace) -> str:
    """The best rules, and some with one threshold and core."""
    grounds_of = list(table[0]["by_ground"])
    columns = ("threshold", "core_sigmas", "scene_sigmas", "floor_ppm_m", "cap_ppm_m")
    text = (
        "# Where outlines run when nothing is asked\n\n"
        f"Made by `benchmarks/scene_level.py`, seed {given.seed}, {given.tiles} tiles a row. F1 against true levels\n"
        f"of 250 / 500 / 1000 ppm m times the noise factor: the best {SHOWN} of {len(table)} rules, then some\n"
        "of those with the threshold and core of `--cut`. Real ground is judged by networks that never saw it.\n\n"
        f"| {' | '.join(columns)} | mean | {' | '.join(grounds_of)} |\n|{'---:|' * (6 + len(grounds_of))}\n"
    )
    of_cut = [rule for rule in table if [rule["threshold"], rule["core_sigmas"]] == given.cut]
    for rule in [*table[:SHOWN], *(rule for rule in of_cut if (rule["floor_ppm_m"], rule["cap_ppm_m"]) in HELD)]:
        cells = [f"{rule[name]:g}" for name in columns]
        cells += [" / ".join(f"{v:.3f}" for v in each) for each in (rule["mean"], *rule["by_ground"].values())]
        text += f"| {' | '.join(cells)} |\n"
    return text


def main() -> None:
    """Judges all rules."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--model", type=Path, required=True, help="judges simulated ground")
    asked.add_argument("--real", type=Path, action="append", default=[])
    asked.add_argument("--model-of", action="append", default=[], metavar="CHIP=ONNX")
    asked.add_argument("--sensor", action="append")
    asked.add_argument("--tiles", type=int, default=12)
    asked.add_argument("--cut", type=float, nargs=2, default=[0.35, 3.0], metavar=("THRESHOLD", "CORE"))
    asked.add_argument("--seed", type=int, default=778)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--markdown", type=Path)
    given = asked.parse_args()
    given.sensor = given.sensor or ["aviris-ng", "emit", "prisma", "enmap"]
    given.preset = ["wide", "permian"]
    given.models = dict(text.split("=", 1) for text in given.model_of)
    with threads_each(1), ProcessPoolExecutor(given.workers, get_context("spawn")) as crew:
        sets = range(len(list(grounds(given))))
        rows = [row for own in crew.map(partial(judge_set, given), sets) for row in own]
    table = judged_rules(rows)
    text = page(table, given)
    print(text)
    if given.markdown:
        given.markdown.write_text(text)


if __name__ == "__main__":
    main()
