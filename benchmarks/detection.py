"""The fair table: filters, networks and the limit on ground nobody trained on, for several sensors and noise levels.

    python benchmarks/detection.py --real CHIP.npz --network flame-plus.onnx --json OUT.json

Plumes are put into plume-free ground by physics and noise is added after. At half and a quarter of the noise plumes and
label levels are halved and quartered too, so the three sets differ only in how quiet they are. Every filter has its
best threshold on the very tiles it is judged on, plain, opened and smoothed. The network stands there four times: as
pixels above its shipped threshold, when asked for the very level; with its best threshold on these tiles; "shipped",
the mask that `flame detect --level` gives, which leaves out plumes without a core; and "unasked", what it draws when
nothing is asked, at its own level, which follows the noise of the scene and is not the label's. The limit knows
background and noise.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from flame import open_scene
from flame.detection import ScoreHistogram
from flame.detection.judge import opened_score, smoothed_score
from flame.filters import FilterError, filter_named
from flame.filters.noise_aware import noise_aware_fields
from flame.onboard import Asked, Detector, load_model
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, noise_model, sensor, unit_absorption
from flame.scene import Scene
from flame.simulate import PRESETS, PlumePool, PlumeSettings, draw_background, make_plume_pool, preset
from flame.simulate.backgrounds import Background, background_of, optics
from flame.training.real_ground import seen_in
from flame.workers import threads_each

LABELS_PPM_M = (250.0, 500.0, 1000.0)
NOISES = (1.0, 0.5, 0.25)
WIDTHS_PX = (0.7, 1.0, 1.5, 2.0, 3.0)
PLUME_SHARE = 0.6
HOWS = ("pixels", "shipped", "unasked")
GROUPED = dict.fromkeys(("airport_2", "beach_3", "urban_1", "urban_3"), "four chips")
"""Scenes that the means are taken over together."""
SNR = {"aviris-ng": 154.0, "emit": 250.0, "enmap": 180.0, "prisma": 154.0, "tanager-1": 154.0, "aviris-3": 200.0}
"""Signal to noise at the median radiance of real ground; of AVIRIS-NG and EMIT as measured in their scenes."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A tile with everything that was done to it."""

    radiance: np.ndarray
    bands: BandSet
    valid: np.ndarray
    clean: np.ndarray
    sigma: np.ndarray
    truth_ppm_m: np.ndarray


def cut_tile(ground: Background, size: int, rng: np.random.Generator) -> Background:
    """A part of the ground, turned at random."""
    row, col = (int(rng.integers(side - size + 1)) for side in ground.valid.shape)
    return ground.cut(row, col, size).turned(int(rng.integers(4)), bool(rng.integers(2)))


def plume_pools(seed: int) -> dict[float, PlumePool]:
    """Plumes by the size of a pixel, in metres."""
    rng = np.random.default_rng(seed)
    plume = PlumeSettings(source_shares=(0.0, 0.8, 0.16, 0.04))
    return {pixel_m: make_plume_pool(rng, 40, 128, pixel_m, plume) for pixel_m in (5.0, 30.0, 60.0)}


def make_tile(rng: np.random.Generator, ground: Background, name: str, noise: float, pools: dict) -> Judged:
    """Plume and noise on a part of the ground."""
    bands = sensor(name).bands.methane()
    seen = optics(bands, ground.grid, name)
    clean = np.maximum(ground.radiance(seen), np.float32(1e-5))
    clean *= np.float32(np.exp(rng.normal(0.0, 0.2)))
    truth = np.zeros(ground.valid.shape, np.float32)
    if rng.uniform() < PLUME_SHARE:
        pool = pools[min(pools, key=lambda pixel_m: abs(pixel_m - sensor(name).pixel_m))]
        column, _ = pool.draw(rng, truth.shape)
        strong = float(np.quantile(column, 0.995))
        if strong > 0:
            truth = np.minimum(
                column * np.float32(noise * np.exp(rng.uniform(np.log(500), np.log(8000))) / strong), 6e4
            )
    through = clean * np.exp(seen.log_transmittance(truth.ravel())).reshape(clean.shape)
    sigma = noise_model(name).sigma(through, bands) * np.float32(noise)
    if not ground.any_bands:
        sigma *= np.float32(quietness(clean[:, ground.valid], bands, name))
    radiance = through + sigma * rng.standard_normal(through.shape, dtype=np.float32)
    radiance[:, ~ground.valid] = 0.0
    return Judged(radiance, bands, ground.valid, clean, sigma, truth.astype(np.float32))


def quietness(spectra: np.ndarray, bands: BandSet, name: str) -> float:
    """Factor on a sensor's noise for its usual signal to noise at the median radiance, however dark the ground is."""
    middle = np.median(spectra, axis=1)
    ratio = float(np.median(middle / noise_model(name).sigma(middle, bands)))
    return ratio / SNR[name]


def limit_maps(tile: Judged) -> dict[str, np.ndarray]:
    """Enhancement with known background and noise, averaged."""
    spectrum = (unit_absorption(tile.bands) / ABSORPTION_UNIT_PPM_M).astype(np.float32)[:, None, None]
    target = spectrum * tile.clean / tile.sigma
    precision = np.square(target).sum(axis=0)
    estimate = (target * (tile.radiance - tile.clean) / tile.sigma).sum(axis=0) / precision
    return smoothed_limit(estimate, np.where(tile.valid, precision, 0), tile.valid)


def smoothed_limit(estimate: np.ndarray, weight: np.ndarray, valid: np.ndarray) -> dict[str, np.ndarray]:
    """An estimate averaged by its weights, over several widths, drawn to zero by several priors."""
    maps = {}
    for width in (0.5, *WIDTHS_PX):
        total = gaussian_filter(weight, width) + 1e-30
        mean = gaussian_filter(np.where(valid, estimate, 0) * weight, width) / total
        spread = np.sqrt(gaussian_filter(weight, width / 2**0.5) / (4 * np.pi * width**2)) / total
        for prior in (100.0, 300.0, 1000.0):
            maps[f"limit {width:g} {prior:g}"] = mean / (1 + np.square(spread / prior))
    return maps


def mag1c_maps(tile: Judged) -> dict[str, np.ndarray]:
    """MAG1C plain, opened and smoothed; where it gives up on a tile it finds nothing there."""
    try:
        score = filter_named("mag1c").score(tile.radiance, tile.bands, tile.valid)
    except FilterError:
        score = np.zeros(tile.valid.shape, np.float32)
    maps = {"MAG1C plain": score, "MAG1C opened": opened_score(score, tile.valid)}
    return maps | {f"MAG1C smoothed {width:g}": smoothed_score(score, tile.valid, width) for width in WIDTHS_PX}


def noise_aware_maps(tile: Judged) -> dict[str, np.ndarray]:
    """The noise-aware filter: posteriors of several widths and priors; nothing where it gives up on a tile."""
    maps = {}
    try:
        found = noise_aware_fields(tile.radiance, tile.bands, tile.valid)
    except FilterError:
        nothing = np.zeros(tile.valid.shape, np.float32)
        return {
            f"noise-aware {width:g} {prior}": nothing for width in WIDTHS_PX for prior in (100, 300, 1000, "learned")
        }
    for width in WIDTHS_PX:
        mean, sigma = found.smoothed(width)
        for prior in (100.0, 300.0, 1000.0):
            maps[f"noise-aware {width:g} {prior:g}"] = np.where(
                np.isfinite(sigma), mean / (1 + np.square(sigma / prior)), 0
            )
        posterior = found.posterior(width)
        maps[f"noise-aware {width:g} learned"] = posterior.mean_ppm_m
    return maps


class Packaged:
    """A packaged network of planes, asked for any level.

    Args:
        path: Its ONNX file.
    """

    def __init__(self, path: Path) -> None:
        self._package = load_model(path)
        self.name = self._package.manifest.name
        self.threshold = self._package.manifest.threshold
        self._detectors: dict[float | None, Detector] = {}

    def masks(self, tile: Judged, level_ppm_m: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Logit of exceeding a level, far below any threshold where it does not judge, and the mask; None: its own."""
        if level_ppm_m not in self._detectors:
            self._detectors[level_ppm_m] = Detector(self._package, threads=1, asked=Asked(level=level_ppm_m))
        found = self._detectors[level_ppm_m].run(Scene(tile.radiance, tile.bands, tile.valid))
        probability = np.clip(found.probability, 1e-7, 1 - 1e-7)
        logit = np.where(found.usable, np.log(probability / (1 - probability)), np.float32(-20)).astype(np.float32)
        return logit, found.mask


def f1(counts: np.ndarray) -> float:
    """Of pixels hit, false and missed."""
    hit, false, missed = counts
    return float(2 * hit / max(1, 2 * hit + false + missed))


def judge(tiles: list[Judged], noise: float, networks: dict[str, Packaged]) -> dict:
    """F1 of every method at every label level."""
    histograms: dict[tuple[float, str], ScoreHistogram] = {}
    ruled: dict[tuple[float, str], np.ndarray] = {}

    def include(level: float, name: str, score: np.ndarray, label: np.ndarray, valid: np.ndarray) -> None:
        histograms.setdefault((level, name), ScoreHistogram()).include(score, label, valid)

    for tile in tiles:
        smooth = gaussian_filter(tile.truth_ppm_m, 0.5)
        maps = mag1c_maps(tile) | noise_aware_maps(tile) | limit_maps(tile)
        unasked = {name: model.masks(tile, None)[1] for name, model in networks.items()}
        for label_ppm_m in LABELS_PPM_M:
            label = smooth > label_ppm_m * noise
            for name, score in maps.items():
                include(label_ppm_m, name, score, label, tile.valid)
            for name, model in networks.items():
                score, mask = model.masks(tile, label_ppm_m * noise)
                include(label_ppm_m, name, score, label, tile.valid)
                above = (score > np.log(model.threshold / (1 - model.threshold))) & tile.valid
                for how, each in (("pixels", above), ("shipped", mask), ("unasked", unasked[name])):
                    counts = [(each & label).sum(), (each & ~label).sum(), (~each & label & tile.valid).sum()]
                    key = label_ppm_m, f"{how} {name}"
                    ruled[key] = ruled.get(key, np.zeros(3)) + counts
    found: dict = {}
    for label_ppm_m in LABELS_PPM_M:
        row: dict = {}
        for (level, name), histogram in histograms.items():
            if level != label_ppm_m or not histogram.plume.any():
                continue
            best = histogram.best_threshold().f1
            if name in networks:
                row[name] = {how: f1(ruled[level, f"{how} {name}"]) for how in HOWS} | {"best": best}
                continue
            family = " ".join(name.split()[:2]) if name.startswith("MAG1C") else name.split()[0]
            if best > row.get(family, {"best": -1})["best"]:
                row[family] = {"best": best, "how": name}
        found[f"{label_ppm_m:g}"] = row
    return found


def grounds(given: argparse.Namespace) -> Iterator[tuple[str, str, Callable[[np.random.Generator], Background], tuple]]:
    """Name of the ground, sensor, how a part of it is drawn, and the noise levels."""
    scenes = {path.stem: open_scene(path).methane() for path in given.real}
    for label, scene in scenes.items():
        for name in given.sensor:
            whole = background_of(
                seen_in(scene, sensor(name).bands.methane()), np.random.default_rng(0), preset("wide"), label
            )
            size = min(128, min(whole.valid.shape) // 16 * 16)
            yield label, name, lambda rng, w=whole, s=size: cut_tile(w, s, rng), NOISES
    for kind in given.preset:
        for name in given.sensor[:2]:
            yield (
                kind,
                name,
                lambda rng, k=kind, n=name: draw_background(rng, preset(k, size=128, sensor_name=n)),
                (1.0, 0.25),
            )


def judge_set(given: argparse.Namespace, number: int) -> list[dict]:
    """One ground seen by one sensor, at every noise level."""
    ground, name, draw, noises = list(grounds(given))[number]
    own_of = dict(text.split("=", 1) for text in given.network_of)
    networks = {model.name: model for model in map(Packaged, given.network)}
    if ground in own_of:
        own = Packaged(Path(own_of[ground]))
        networks[own.name] = own
    pools = plume_pools(given.seed)
    rows = []
    for noise in noises:
        tiles = []
        for index in range(given.tiles):
            own_rng = np.random.default_rng((given.seed, number, index))
            tiles.append(make_tile(own_rng, draw(own_rng), name, noise, pools))
        found = judge(tiles, noise, networks)
        rows.append({"ground": ground, "sensor": name, "noise": noise, "tiles": given.tiles, "f1": found})
    return rows


def main() -> None:
    """Judges all sets and prints them."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--real", type=Path, action="append", default=[])
    asked.add_argument("--sensor", action="append")
    asked.add_argument("--preset", action="append", help="simulated ground; wide and permian unless given, or none")
    asked.add_argument("--network", type=Path, action="append", default=[])
    asked.add_argument(
        "--network-of", action="append", default=[], metavar="GROUND=ONNX",
        help="the network for one ground, in place of the one of its name: one that was not trained on it",
    )  # fmt: skip
    asked.add_argument("--only", action="append", help="of all grounds these, on their tiles of the whole table")
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--tiles", type=int, default=24)
    asked.add_argument("--again", type=Path, help="an earlier --json: its page is written anew, nothing is run")
    asked.add_argument("--markdown", type=Path, help="where to write the table for reading")
    asked.add_argument("--seed", type=int, default=501)
    asked.add_argument("--json", type=Path)
    given = asked.parse_args()
    given.sensor = given.sensor or ["aviris-ng", "emit", "prisma", "enmap"]
    given.preset = ["wide", "permian"] if given.preset is None else [kind for kind in given.preset if kind != "none"]
    if given.again:
        kept = json.loads(given.again.read_text())
        given.seed, given.tiles = kept["seed"], kept["rows"][0]["tiles"]
        networks = [name for name, figures in kept["rows"][0]["f1"]["500"].items() if "pixels" in figures]
        page = markdown(kept["rows"], networks, summary(kept["rows"], networks), given)
        given.markdown.write_text(page) if given.markdown else print(page)
        return
    own = [Path(text.split("=", 1)[1]) for text in given.network_of]
    networks = list(dict.fromkeys(model.name for model in map(Packaged, [*given.network, *own])))
    table = []
    with threads_each(1), ProcessPoolExecutor(given.workers, get_context("spawn")) as crew:
        wanted = [i for i, (ground, *_) in enumerate(grounds(given)) if not given.only or ground in given.only]
        for rows in crew.map(partial(judge_set, given), wanted):
            for row in rows:
                text = "  ".join(
                    f"{method} {', '.join(f'{how} {figure:.3f}' for how, figure in v.items() if how != 'how')}"
                    for method, v in row["f1"]["500"].items()
                )
                print(f"{row['ground']:12} {row['sensor']:10} x{row['noise']:<5g} {text}", flush=True)
            table += rows
            if given.json:
                given.json.write_text(json.dumps({"seed": given.seed, "rows": table}, indent=1) + "\n")
    lines = summary(table, networks)
    print("\n".join(lines))
    if given.markdown:
        given.markdown.write_text(markdown(table, networks, lines, given))


def markdown(table: list[dict], networks: list[str], lines: list[str], given: argparse.Namespace) -> str:
    """The table as a page."""
    of_networks = [f"{name}{how}" for name in networks for how in ("", " shipped", " unasked")]
    methods = ["MAG1C plain", "MAG1C opened", "MAG1C smoothed", "noise-aware", *of_networks, "limit"]
    head = [
        "# Detection on ground that was not trained on",
        "",
        f"Made by `benchmarks/detection.py`, {given.tiles} tiles a row, seed {given.seed}. F1 at true levels of 250 /",
        "500 / 1000 ppm m times the noise factor. Filters and limit have their best threshold (and width) on the very",
        "tiles;",
        "the network its shipped threshold for each pixel when asked for the level, in brackets its best at 500;",
        "`shipped` is the mask that `--level` gives, without plumes that have no core; `unasked` the mask without",
        "`--level`.",
        "",
        f"| ground | sensor | noise | {' | '.join(methods)} |",
        f"|---|---|---:|{'---:|' * len(methods)}",
    ]
    for row in table:
        cells = []
        for method in methods:
            found = [figure(row["f1"][f"{label:g}"], method) for label in LABELS_PPM_M]
            text = " / ".join("-" if value is None else f"{value:.2f}" for value in found)
            best = row["f1"]["500"].get(method, {}).get("best") if method in networks else None
            cells.append(text if best is None else f"{text} ({best:.2f})")
        head.append(f"| {row['ground']} | {row['sensor']} | {row['noise']:g} | {' | '.join(cells)} |")
    return "\n".join([*head, "", *by_ground(table, methods), "", *(f"- {line}" for line in lines), ""])


def figure(row: dict, method: str) -> float | None:
    """F1 of a method: of a network its pixels, or as its name says."""
    name, _, how = method.partition(" ")
    if name in row and "pixels" in row[name]:
        return row[name].get(how or "pixels")
    return row[method]["best"] if method in row else None


def by_ground(table: list[dict], methods: list[str]) -> list[str]:
    """Means over noise levels, AVIRIS-NG and the other sensors of real ground apart; simulated ground whole."""
    groups: dict[str, list[dict]] = {}
    for row in table:
        sensors = "" if row["ground"] in PRESETS else ", AVIRIS-NG" if row["sensor"] == "aviris-ng" else ", others"
        groups.setdefault(GROUPED.get(row["ground"], row["ground"]) + sensors, []).append(row["f1"])

    def mean(rows: list[dict], method: str, label: float) -> str:
        found = [value for row in rows if (value := figure(row[f"{label:g}"], method)) is not None]
        return f"{np.mean(found):.2f}" if found else "-"

    lines = [f"| mean over noise levels | {' | '.join(methods)} |", f"|---|{'---:|' * len(methods)}"]
    for name, rows in groups.items():
        cells = [" / ".join(mean(rows, method, label) for label in LABELS_PPM_M) for method in methods]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def summary(table: list[dict], networks: list[str]) -> list[str]:
    """How far the network is ahead of the best filter, and how near the limit, over all sets."""
    lines = []
    for name in networks:
        for label in ("250", "500", "1000"):
            rows = [row["f1"][label] for row in table if "limit" in row["f1"][label]]
            classical = [max(v["best"] for m, v in row.items() if m not in networks and m != "limit") for row in rows]
            own, limit = [figure(row, name) or 0.0 for row in rows], [row["limit"]["best"] for row in rows]
            ahead = np.array(own) - np.array(classical)
            lines.append(
                f"{name} at {label}: mean F1 {np.mean(own):.3f}, best filter {np.mean(classical):.3f}, limit "
                f"{np.mean(limit):.3f}; ahead {ahead.mean():+.3f} (least {ahead.min():+.3f}); of the limit "
                f"{np.mean(np.array(own) / np.array(limit)):.3f} (least {np.min(np.array(own) / np.array(limit)):.3f})"
            )
    return lines


if __name__ == "__main__":
    main()
