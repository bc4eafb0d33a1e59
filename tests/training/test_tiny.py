"""The tiny recipe learns in CI: on simulated tiles it has not seen it is better than MAG1C, judged the same way."""

from functools import partial

from flame.detection import judge_scores
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


def rows_of_mag1c(source):
    tiles = [source[number] for number in range(len(source))]
    maps = [(mag1c.score(tile.radiance, source.bands, tile.valid), tile.label, tile.valid) for tile in tiles]
    return {name: row.f1 for name, row in judge_scores(maps).items()}


def test_tiny_recipe_beats_mag1c(tmp_path):
    training = tiles(tmp_path, 72, 1, mag1c_sas_teacher)
    validation, test = tiles(tmp_path, 10, 2), tiles(tmp_path, 24, 3)
    Trainer(recipe("tiny"), training, validation, tmp_path / "run", seed=0).run()
    found = evaluate_model(load_model(tmp_path / "run").model, test)
    classical = rows_of_mag1c(test)
    print(f"tiny F1 {found.f1:.3f}, MAG1C {classical}, pixel FPR {found.pixel_fpr:.1e}")
    assert found.f1 > 1.2 * max(classical.values())
    assert found.pixel_fpr < 5e-3
