"""Calibration moves the logit to where 0.5 is the best threshold, once, and changes nothing else."""

import pytest
import torch
from toy_run import ToyTiles, toy_recipe, toy_trainer

from flame.models.weights import load_model
from flame.training.calibrate import best_logit, calibrate
from flame.training.evaluate import evaluate_model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    toy_trainer(folder, toy_recipe(calibrate=False)).run()
    return folder


def test_a_shifted_model_is_shifted_back(run):
    tiles = ToyTiles(4, seed=1)
    model = load_model(run).model
    first = best_logit(model, tiles)
    with torch.no_grad():
        model.segmentation.project.bias += 1.5
    assert best_logit(model, tiles) == pytest.approx(first + 1.5, abs=0.26)


def test_calibration_never_lowers_f1_on_its_own_tiles_by_more_than_its_margin(run):
    tiles = ToyTiles(4, seed=1)
    model = load_model(run).model
    with torch.no_grad():
        model.segmentation.project.bias += 2.0
    before = evaluate_model(model, tiles)
    calibrate(model, tiles)
    after = evaluate_model(model, tiles)
    assert after.f1 >= 0.995 * before.f1
    assert after.auprc == pytest.approx(before.auprc, abs=1e-3)


def test_a_run_calibrates_once(tmp_path):
    toy_trainer(tmp_path, toy_recipe(calibrate=True)).run()
    once = load_model(tmp_path)
    toy_trainer(tmp_path, toy_recipe(calibrate=True), resume=True).run()
    again = load_model(tmp_path)
    assert again.provenance["logit_shift"] == once.provenance["logit_shift"]
    assert torch.equal(again.model.segmentation.project.bias, once.model.segmentation.project.bias)
