"""Changes one at a time: every step is a change that its recipe takes, and a finished one is not trained again."""

import json

import pytest

from flame.bench import changes
from flame.bench.changes import STEPS, run_changes
from flame.pipeline.datasets import SimulationPlan, simulate_dataset
from flame.training.overrides import override
from flame.training.recipes import recipe

FAST = ("epochs=1", "batch.size=4", "batch.crop=32", "model.modes=4", "model.width=4")


@pytest.mark.parametrize("key", STEPS)
def test_every_step_differs_from_its_recipe_in_what_it_says(key):
    step = STEPS[key]
    changed = override(recipe(step.recipe), step.changes)
    assert (changed == recipe(step.recipe)) == (not step.changes)


def test_steps_are_judged_on_validation_tiles_and_kept(tmp_path, monkeypatch):
    root = tmp_path / "sim"
    simulate_dataset(SimulationPlan(tiles=30, seed=1, preset="cluttered", size=48, test_share=0.0), root, workers=1)
    first = run_changes(root, tmp_path / "out", ["plus-no-score"], FAST, workers=1, tell=lambda _: None)
    kept = json.loads((tmp_path / "out" / "plus-no-score.json").read_text())
    assert kept["tiles"] < 30
    assert "flame-plus, no score | 1 |" in first
    monkeypatch.setattr(changes, "Trainer", None)
    assert run_changes(root, tmp_path / "out", ["plus-no-score"], FAST, workers=1, tell=lambda _: None) == first
