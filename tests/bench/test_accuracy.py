"""The accuracy table on a toy data set: trained, judged, and not done twice."""

import json

import pytest

from flame.bench import accuracy
from flame.bench.accuracy import VARIANTS, Variant, accuracy_table, run_accuracy
from flame.pipeline.datasets import SimulationPlan, simulate_dataset

FAST = ("epochs=1", "batch.size=4", "batch.crop=32", "model.modes=4", "model.width=4")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "sim"
    simulate_dataset(SimulationPlan(tiles=80, seed=5, preset="cluttered", size=48, test_share=0.5), root, workers=1)
    return {"simulated": root}


def test_a_finished_table_is_not_computed_again(data, tmp_path, monkeypatch):
    monkeypatch.setitem(VARIANTS, "flame-plus", Variant("flame-plus", "flame-plus", FAST, seeds=1))
    said = []
    first = run_accuracy(data, tmp_path, ["flame-plus"], workers=1, tell=said.append)
    for title in ("MAG1C-tile, its best threshold", "MAG1C-SAS, threshold 300", "| flame-plus |", "limit:"):
        assert title in first
    assert any("epoch 1/1" in line for line in said)
    figures = json.loads((tmp_path / "accuracy.json").read_text())["flame-plus"]["simulated"]
    assert figures["seeds"] == 1
    assert 0 <= figures["pixel_fpr"]["mean"] <= 1

    monkeypatch.setattr(accuracy, "Trainer", None)
    monkeypatch.setattr(accuracy, "run_limit", None)
    assert run_accuracy(data, tmp_path, ["flame-plus"], workers=1, tell=said.append) == first


def test_seeds_are_summarised(tmp_path):
    for seed, f1 in enumerate((0.5, 0.7)):
        folder = tmp_path / f"flame-seed{seed}"
        folder.mkdir()
        (folder / "metrics_simulated.json").write_text(
            json.dumps({"f1": f1, "precision": None, "recall": 0.5, "pixel_fpr": 1e-3})
        )
    table = accuracy_table(tmp_path, ("simulated",))
    assert "| flame | 0.600 ± 0.141 |  | 0.500 ± 0.000 | 10.0 ± 0.0 |" in table
