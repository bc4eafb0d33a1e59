"""Evaluation writes what the decision rule and the metrics say."""

import json
import math

import numpy as np
import pytest
import torch
from tiles import SPECTRUM
from toy_run import ToyTiles

from flame.detection import Evaluation
from flame.models import Flame, FlameSettings
from flame.prepare import PrepareSettings
from flame.training.evaluate import evaluate_model
from flame.training.report import markdown_table, write_report
from flame.training.statistics import training_statistics


def judged():
    evaluation = Evaluation()
    rng = np.random.default_rng(0)
    for number in range(4):
        label = np.zeros((32, 32), bool)
        label[8:14, 8:14] = number > 0
        score = np.clip(label * 0.8 + rng.uniform(0, 0.3, label.shape), 0, 1)
        evaluation.add(score, score > 0.5, label, np.ones_like(label), 2000.0 if number == 1 else 500.0)
    return evaluation.metrics()


def test_report_has_every_figure(tmp_path):
    write_report(tmp_path / "new", judged(), {"model": "toy"})
    figures = json.loads((tmp_path / "new" / "metrics.json").read_text())
    wanted = {"f1", "iou", "precision", "recall", "pixel_fpr", "tile_fpr", "auprc", "by_plume_size", "strong", "weak"}
    assert wanted <= figures.keys()
    assert figures["f1"] == 1.0
    assert figures["about"] == {"model": "toy"}
    assert (tmp_path / "new" / "by_plume_size.png").read_bytes()[:4] == b"\x89PNG"
    table = (tmp_path / "new" / "metrics.md").read_text()
    assert table == markdown_table(judged())
    assert "| all 4 | 1.000 | 1.000 | 1.000 | 1.000 | 0.0 |" in table
    assert not list((tmp_path / "new").glob(".*partial"))


def test_evaluation_does_not_depend_on_the_batch_size():
    torch.manual_seed(0)
    model = Flame(FlameSettings(width=6, modes=4, plume_prior=0.4), SPECTRUM)
    tiles = ToyTiles(5)
    alone, together = (evaluate_model(model, tiles, batch=size) for size in (1, 3))
    assert alone.tiles == together.tiles == 5
    assert alone.auprc == pytest.approx(together.auprc, rel=1e-3)
    assert math.isfinite(alone.auprc)


@pytest.mark.parametrize("bad", [None, 0.0, float("nan"), 1e6])
def test_training_statistics_are_those_of_the_usable_pixels(bad):
    tiles = [ToyTiles(3)[number] for number in range(3)]
    log = np.log(np.concatenate([tile.radiance.reshape(72, -1) for tile in tiles], 1).astype(np.float64))
    if bad is not None:
        tiles[2].radiance[:, -1, -1] = bad
        log = log[:, :-1]

    class Made(list):
        bands = ToyTiles.bands

    found = training_statistics(Made(tiles), PrepareSettings())
    np.testing.assert_allclose(found.mean, log.mean(1), atol=1e-5)
    np.testing.assert_allclose(found.covariance, np.cov(log, bias=True), atol=1e-5)
