"""A small training run on toy tiles; called as a script, in a process that can be killed or multiplied."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[1] / "models"))
from tiles import BANDS, toy_tile

from flame.training.batches import BatchSettings
from flame.training.cache import CachedTile
from flame.training.loop import Trainer
from flame.training.recipes import RECIPES, OptimizerSettings, Recipe, on_network


@dataclass(frozen=True)
class ToyTiles:
    """Tiles made when asked for, half of them with a plume."""

    count: int
    size: int = 24
    seed: int = 0
    bands = BANDS

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.default_rng((self.seed, index))
        toy = toy_tile(rng, self.size, plume=index % 2 == 0, peak_ppm_m=rng.uniform(2000, 8000))
        return CachedTile(
            name=f"toy-{index}",
            radiance=toy.radiance,
            label=toy.label,
            valid=toy.valid,
            rgb=toy.rgb,
            teacher_ppm_m=toy.teacher,
            enhancement_ppm_m=toy.enhancement,
            emission_kg_h=None,
        )


def toy_recipe(name: str = "tiny", **changes) -> Recipe:
    base = RECIPES[name]
    return replace(
        base,
        model=replace(base.model, width=6, modes=4),
        batch=BatchSettings(size=4),
        optimizer=OptimizerSettings(averaging=base.optimizer.averaging),
        epochs=3,
        checkpoint_minutes=0.0,
        **changes,
    )


def network_recipe(network: str) -> Recipe:
    """A baseline, trained as the toy recipe trains FLAME."""
    return on_network(replace(toy_recipe("cpu"), epochs=1), network)


def toy_trainer(folder: Path, recipe: Recipe | None = None, resume: bool = False, watch=None) -> Trainer:
    return Trainer(recipe or toy_recipe(), ToyTiles(12), ToyTiles(4, seed=1), folder, 3, resume, watch)


def network_trainer(folder: Path, network: str) -> Trainer:
    """On tiles of which the deepest layers see enough pixels that their batch norms do not magnify rounding."""
    tiles, held = ToyTiles(12, size=64), ToyTiles(4, size=64, seed=1)
    return Trainer(network_recipe(network), tiles, held, folder, 3, resume=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 3:
        network_trainer(Path(sys.argv[1]), sys.argv[3]).run()
    else:
        toy_trainer(Path(sys.argv[1]), toy_recipe(sys.argv[2]), resume=True).run()
