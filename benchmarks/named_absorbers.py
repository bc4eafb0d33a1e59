"""Does the noise-aware filter find more if water vapour and sharp absorbers are fitted by name?

    python benchmarks/named_absorbers.py --real CHIP.npz --markdown OUT.md

The filter learns from the tile what its ground does. Here it is told besides: its covariance gets a variance along the
spectra of water vapour, or of minerals, plants, plastics and oil, which is the same as fitting their amounts together
with methane's, under a normal prior. Tiles are those of `detection.py`, drawn by another seed; F1 at a true enhancement
of 500 ppm m times the noise factor, at the best threshold, width and prior for the very tiles.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
from scipy.ndimage import gaussian_filter

from detection import grounds, make_tile, noise_aware_maps, plume_pools
from flame.detection import ScoreHistogram
from flame.filters.noise_aware import background, fit
from flame.physics import BandSet
from flame.physics.response import gaussian_response
from flame.simulate import PRESETS
from flame.simulate.atmosphere import fine_absorbance
from flame.simulate.materials import FEATURES, feature_absorbance
from flame.workers import threads_each

LABEL_PPM_M = 500.0
NOISES = (1.0, 0.25)
PRIORS = {
    "as it is": (0.0, 0.0),
    "vapour 2 %": (0.02, 0.0),
    "vapour 20 %": (0.2, 0.0),
    "absorbers 0.01": (0.0, 0.01),
    "absorbers 0.1": (0.0, 0.1),
    "both, a little": (0.02, 0.01),
}
"""Relative spread of the vapour column, and depth of each sharp absorber."""


def vapour_log_radiance(bands: BandSet) -> np.ndarray:
    """Change of log-radiance when the vapour column doubles, in first order."""
    nm, samples, methane, vapour = fine_absorbance()
    response = gaussian_response(nm, bands, samples)
    light = np.exp(-methane - vapour)
    return np.asarray((response @ (light * vapour)) / (response @ light))


def told(bands: BandSet, vapour: float, depth: float) -> np.ndarray:
    """Covariance of what is told, over bands."""
    spectra = [vapour * vapour_log_radiance(bands)] if vapour else []
    spectra += [depth * feature_absorbance(name, bands) for name in FEATURES] if depth else []
    matrix = np.array(spectra).reshape(-1, len(bands))
    return np.asarray(matrix.T @ matrix)


def fitted_with(extra: np.ndarray) -> Callable:
    """The filter's ground with more variance in it."""
    plain = fit._ground

    def ground(*args: object, **kwargs: object) -> tuple:
        law, weight, covariance = plain(*args, **kwargs)
        if covariance.shape != extra.shape:
            raise ValueError("this experiment needs tiles without dead bands")
        return law, weight, covariance + extra

    return ground


def judge_set(given: argparse.Namespace, number: int) -> list[tuple[str, str, float, dict[str, float]]]:
    """F1 of each way at one ground seen by one sensor."""
    background.learn_with_kernels = MagicMock(return_value=None)  # the compiled statistics know of no extra variance
    plain = fit._ground
    ground, name, draw, _ = list(grounds(given))[number]
    pools = plume_pools(given.seed)
    rows = []
    for noise in NOISES:
        histograms: dict[tuple[str, str], ScoreHistogram] = {}
        for index in range(given.tiles):
            rng = np.random.default_rng((given.seed, number, index))
            tile = make_tile(rng, draw(rng), name, noise, pools)
            label = gaussian_filter(tile.truth_ppm_m, 0.5) > LABEL_PPM_M * noise
            for way, (vapour, depth) in PRIORS.items():
                fit._ground = plain
                fit._ground = fitted_with(told(tile.bands, vapour, depth)) if vapour or depth else plain
                for score_name, score in noise_aware_maps(tile).items():
                    histograms.setdefault((way, score_name), ScoreHistogram()).include(score, label, tile.valid)
        fit._ground = plain
        best = {
            way: max(histogram.best_threshold().f1 for _, histogram in each)
            for way, each in groupby(histograms.items(), key=lambda item: item[0][0])
        }
        rows.append((ground, name, noise, best))
        print(ground, name, noise, {way: round(value, 3) for way, value in best.items()}, flush=True)
    return rows


def page(rows: list[tuple[str, str, float, dict[str, float]]], given: argparse.Namespace) -> str:
    """The table."""
    text = (
        "# Water vapour and sharp absorbers, fitted by name\n\n"
        f"Made by `benchmarks/named_absorbers.py`, seed {given.seed}, {given.tiles} tiles a row. F1 of the\n"
        f"noise-aware filter at {LABEL_PPM_M:g} ppm m times the noise factor, best threshold, width and prior.\n"
        "Simulated ground has these very absorbers in it.\n\n"
        f"| ground | sensor | noise | {' | '.join(PRIORS)} |\n|---|---|---:|{'---:|' * len(PRIORS)}\n"
    )
    for ground, name, noise, best in rows:
        text += f"| {ground} | {name} | {noise:g} | {' | '.join(f'{best[way]:.3f}' for way in PRIORS)} |\n"
    for title, real in (("real, mean", True), ("simulated, mean", False)):
        own = [best for ground, *_, best in rows if (ground not in PRESETS) == real]
        if own:
            text += f"| {title} | | | {' | '.join(f'{np.mean([best[way] for best in own]):.3f}' for way in PRIORS)} |\n"
    return text


def main() -> None:
    """Judges all ways on all grounds."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--real", type=Path, action="append", default=[])
    asked.add_argument("--sensor", action="append")
    asked.add_argument("--tiles", type=int, default=12)
    asked.add_argument("--seed", type=int, default=779)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--markdown", type=Path)
    given = asked.parse_args()
    given.sensor = given.sensor or ["aviris-ng", "emit", "prisma", "enmap"]
    given.preset = ["wide", "permian"]
    with threads_each(1), ProcessPoolExecutor(given.workers, get_context("spawn")) as crew:
        sets = range(len(list(grounds(given))))
        rows = [row for own in crew.map(partial(judge_set, given), sets) for row in own]
    text = page(rows, given)
    print(text)
    if given.markdown:
        given.markdown.write_text(text)


if __name__ == "__main__":
    main()
