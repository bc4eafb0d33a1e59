"""A packaged model judged on labelled tiles, without torch."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.detection import PixelCounts
from flame.io import starcop
from flame.onboard import Detector, Detectors
from flame.pipeline.datasets import SimulationPlan, simulate_dataset
from flame.pipeline.evaluate import evaluate_package


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    simulate_dataset(SimulationPlan(tiles=3, size=64, seed=3, preset="narrow", test_share=1.0), folder, 1)
    return folder


def evaluate(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_the_figures_are_those_of_detect(data):
    found = evaluate_package(starcop.read_dataset(data, "test"), Detectors("flame-plus"))
    detector, counts = Detector("flame-plus"), PixelCounts()
    for tile in starcop.read_dataset(data, "test").tiles():
        counts += PixelCounts.of(detector.run(tile.scene).mask, tile.label, tile.scene.valid)
    assert found.metrics.counts == counts
    assert found.metrics.tiles == 3
    assert found.facts["model"] == f"{detector.manifest.name} for any spectrometer"
    assert found.facts["threshold"] == detector.manifest.threshold


def test_another_threshold_is_used(data):
    tiles = starcop.read_dataset(data, "test")
    certain = evaluate_package(tiles, Detectors("flame-plus"), threshold=1.0)
    assert certain.metrics.counts.tp == certain.metrics.counts.fp == 0
    assert certain.facts["threshold"] == 1.0
    unsure = evaluate_package(tiles, Detectors("flame-plus"), threshold=0.0)
    assert unsure.metrics.counts.fp > 0


def test_a_name_is_enough_on_the_command_line(data, tmp_path):
    done = evaluate("--model", "flame-plus", "--data", data, "--out", tmp_path, "--threads", 1)
    assert done.exit_code == 0, done.output
    about = json.loads((tmp_path / "metrics.json").read_text())["about"]
    assert about["split"] == "test"
    assert about["sha256"] == Detector("flame-plus").manifest.sha256


def test_a_damaged_tile_is_told_and_the_exit_code_is_3(data, tmp_path):
    broken = tmp_path / "data"
    shutil.copytree(data, broken)
    tile = next(path for path in sorted(broken.iterdir()) if path.is_dir())
    (tile / "labelbinary.tif").unlink()
    done = evaluate("--model", "flame-plus", "--data", broken, "--out", tmp_path / "out")
    assert done.exit_code == 3, done.output
    assert tile.name in done.stderr
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["tiles"] == 2


def test_tiles_of_another_sensor_take_the_same_model(tmp_path):
    simulate_dataset(SimulationPlan(tiles=1, size=32, sensor="emit", test_share=1.0), tmp_path / "data", 1)
    found = evaluate_package(starcop.read_dataset(tmp_path / "data", "test"), Detectors("flame-plus"))
    assert str(found.facts["model"]).endswith("for any spectrometer")
    assert np.isfinite(found.metrics.counts.tn)
