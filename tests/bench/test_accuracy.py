"""The accuracy table on a toy data set: trained, judged, and not done twice."""

import json

import numpy as np
import pytest

from flame.bench import accuracy
from flame.bench.accuracy import VARIANTS, Variant, accuracy_table, run_accuracy
from flame.bench.baselines import rule_title
from flame.detection import RULES, PixelCounts, judge_scores, plume_mask
from flame.filters import FILTERS
from flame.models import BatchPreparer
from flame.models.weights import load_model
from flame.pipeline.datasets import SimulationPlan, simulate_dataset
from flame.training.batches import stack
from flame.training.data import open_split
from flame.training.evaluate import probabilities

# It starts from "as likely plume as not", so that even a hardly trained model marks something.
FAST = ("epochs=1", "batch.size=4", "batch.crop=32", "model.modes=4", "model.width=4", "model.plume_prior=0.5")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "sim"
    simulate_dataset(SimulationPlan(tiles=40, seed=7, preset="cluttered", size=48, test_share=0.5), root, workers=1)
    return {"simulated": root}


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """The folder of a finished experiment, its table, and what was said meanwhile."""
    out, said = tmp_path_factory.mktemp("out"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(VARIANTS, "flame-plus", Variant("flame-plus", "flame-plus", FAST, seeds=1))
        return out, run_accuracy(data, out, ["flame-plus"], workers=1, tell=said.append), said


def test_the_models_row_is_that_of_its_masks_on_the_test_split(data, finished):
    """Judged again, pixel by pixel, from the kept weights."""
    out, table, said = finished
    assert any("epoch 1/1" in line for line in said)
    model, tiles = load_model(out / "flame-plus-seed0").model.eval(), open_split(data["simulated"], "test")
    preparer = BatchPreparer(model.settings, tiles.bands)
    counts, maps = PixelCounts(), []
    for number in range(len(tiles)):
        tile = tiles[number]
        layers = stack([tile], preparer)
        (probability,), (usable,) = probabilities(model, layers), layers.usable.numpy()
        counts += PixelCounts.of(plume_mask(probability, usable), tile.label, tile.valid)
        maps.append((np.where(usable, probability, np.float32(0)), tile.label, tile.valid))
    figures = json.loads((out / "accuracy.json").read_text())["flame-plus"]["simulated"]
    assert figures["seeds"] == 1
    assert min(counts.tp, counts.fp, counts.tn) > 0, "or the figures would say nothing"
    for name in ("f1", "precision", "recall", "pixel_fpr"):
        assert figures[name]["mean"] == pytest.approx(getattr(counts, name), abs=1e-9), name
    rules = json.loads((out / "flame-plus-seed0" / "metrics_simulated.json").read_text())["rules"]
    for name, row in judge_scores(maps, 0.5, probabilities=True).items():
        assert rules[name]["f1"] == pytest.approx(row.f1, abs=1e-9), name
    assert rules["canonical_opened"]["f1"] == figures["f1"]["mean"], "the shipped rule is one of them"
    (line,) = [line for line in table.splitlines() if line.startswith("| flame-plus |")]
    shown = [f"{value:.3f}" for value in (counts.f1, counts.precision, counts.recall)]
    assert line == f"| flame-plus | {' | '.join(shown)} | {1e4 * counts.pixel_fpr:.1f} |"


def test_filters_and_networks_are_in_the_table_under_the_same_rules(finished):
    out, table, _ = finished
    limit = json.loads((out / "limit_simulated.json").read_text())
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1] for line in table.splitlines()[2:]}
    for method in FILTERS.values():
        for rule in RULES:
            shown = rule in limit["filters"][method.name] and rule != "canonical"
            assert (rule_title(method, rule) in rows) == shown
            if shown:
                assert rows[rule_title(method, rule)] == f"{limit['filters'][method.name][rule]['f1']:.3f}"
    assert {"flame-plus", "flame-plus, best threshold, opened", "flame-plus, best threshold, smoothed"} < set(rows)
    assert rows["limit: background and noise known"] == f"{limit['limit']['f1']:.3f}"


def test_a_finished_table_is_not_computed_again(data, finished, monkeypatch):
    monkeypatch.setitem(VARIANTS, "flame-plus", Variant("flame-plus", "flame-plus", FAST, seeds=1))
    monkeypatch.setattr(accuracy, "Trainer", None)
    monkeypatch.setattr(accuracy, "run_limit", None)
    out, first, _ = finished
    assert run_accuracy(data, out, ["flame-plus"], workers=1, tell=lambda _: None) == first


def test_seeds_are_summarised(tmp_path):
    for seed, f1 in enumerate((0.5, 0.7)):
        folder = tmp_path / f"flame-seed{seed}"
        folder.mkdir()
        (folder / "metrics_real_surfaces.json").write_text(
            json.dumps({"f1": f1, "precision": None, "recall": 0.5, "pixel_fpr": 1e-3})
        )
    table = accuracy_table(tmp_path, ("real_surfaces",))
    assert "real surfaces: F1" in table
    assert "| flame | 0.600 ± 0.141 |  | 0.500 ± 0.000 | 10.0 ± 0.0 |" in table
