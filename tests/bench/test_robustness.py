"""The robustness table: a model that is blind to gain has the same masks, one that is not is told so."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.bench.robustness import CONDITIONS, run_robustness
from flame.cli.app import app
from flame.detection import RULES
from flame.onboard import write_package
from flame.physics import sensor, unit_absorption
from flame.pipeline.datasets import SimulationPlan
from tiny_models import whitening_model

BANDS = sensor("aviris-ng").bands.methane()


@pytest.fixture(scope="module")
def packaged(tmp_path_factory):
    model = whitening_model(tile=48, bands=BANDS, spectrum=unit_absorption(BANDS))
    file = tmp_path_factory.mktemp("model") / "tiny.onnx"
    write_package(model, file)
    return file


def test_conditions_do_what_they_say():
    scene = SimulationPlan(1, preset="cluttered", size=32).draw(0).tile.scene
    tenth, ten, wrong = (CONDITIONS[name](scene, 0) for name in list(CONDITIONS)[1:])
    np.testing.assert_allclose(tenth.radiance, 0.1 * scene.radiance, rtol=1e-6)
    np.testing.assert_allclose(ten.rgb, 10.0 * scene.rgb, rtol=1e-6)
    error = np.median(wrong.radiance / scene.radiance, axis=(1, 2))
    assert 0.03 < error.std() < 0.07
    assert abs(error.mean() - 1.0) < 0.02


def test_a_model_blind_to_gain_keeps_its_masks(packaged, tmp_path):
    plan = SimulationPlan(3, seed=1, preset="cluttered", size=48)
    report = run_robustness(plan, None, str(packaged), tmp_path, workers=2)
    assert report["tiles"] == 3
    found = report["conditions"]
    assert found["as they are"]["mask_iou"] == 1.0
    assert found["radiance x 0.1"]["mask_iou"] > 0.99
    assert found["radiance x 10"]["mask_iou"] > 0.99
    assert json.loads((tmp_path / "robustness.json").read_text())["mag1c"] == report["mag1c"]
    assert set(report["rules"]) == set(report["mag1c"]) == set(RULES)
    assert report["rules"]["canonical_opened"]["f1"] == found["as they are"]["f1"], "the shipped rule is one of them"
    table = (tmp_path / "robustness.md").read_text()
    for row in (*CONDITIONS, "MAG1C, threshold 300 ppm m, opened", "MAG1C, best threshold, smoothed"):
        assert f"| {row} |" in table


def test_command_prints_the_table(packaged, tmp_path):
    arguments = [
        "bench",
        "robustness",
        "--tiles",
        "2",
        "--seed",
        "1",
        "--size",
        "48",
        "--preset",
        "cluttered",
        "--workers",
        "2",
    ]
    done = CliRunner().invoke(app, [*arguments, "--model", str(packaged), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "MAG1C" in done.output
