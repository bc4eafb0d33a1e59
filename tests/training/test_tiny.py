"""The tiny recipe learns in CI: on simulated tiles it has not seen it is better than MAG1C at its best threshold."""

from functools import partial

import numpy as np

from flame.detection import Evaluation
from flame.filters import mag1c
from flame.models.weights import load_model
from flame.simulate import preset, simulate_tile, tile_generator
from flame.training.cache import MadeTiles, TileCache, build_cache, mag1c_sas_teacher
from flame.training.evaluate import evaluate_model
from flame.training.loop import Trainer
from flame.training.recipes import recipe


def simulated(number, seed):
    return simulate_tile(tile_generator(seed, number), preset("cluttered", size=64), f"toy-{seed}-{number}").tile


def tiles(folder, count, seed, teacher=None):
    path = folder / f"{seed}.cache"
    build_cache(path, MadeTiles(count, partial(simulated, seed=seed), f"seed {seed}"), teacher)
    return TileCache(path)


def best_of_mag1c(source):
    evaluation = Evaluation(probabilities=False)
    for number in range(len(source)):
        tile = source[number]
        score = mag1c.score(tile.radiance, source.bands, tile.valid)
        evaluation.add(score, np.zeros_like(tile.label), tile.label, tile.valid)
    return evaluation.histogram.best_threshold().f1


def test_tiny_recipe_beats_mag1c(tmp_path):
    training = tiles(tmp_path, 72, 1, mag1c_sas_teacher)
    validation, test = tiles(tmp_path, 10, 2), tiles(tmp_path, 24, 3)
    Trainer(recipe("tiny"), training, validation, tmp_path / "run", seed=0).run()
    found = evaluate_model(load_model(tmp_path / "run").model, test)
    classical = best_of_mag1c(test)
    print(f"tiny F1 {found.f1:.3f}, MAG1C {classical:.3f}, pixel FPR {found.pixel_fpr:.1e}")
    assert found.f1 > 1.5 * classical
    assert found.pixel_fpr < 5e-3
