"""`flame export` on a model file, checked on simulated tiles."""

import numpy as np
import torch
from typer.testing import CliRunner

from flame.cli.app import app
from flame.models import Flame, FlameSettings
from flame.models.weights import save_model
from flame.onboard import load_model
from flame.physics import sensor, unit_absorption
from flame.prepare import PrepareSettings


def test_a_model_file_becomes_a_package(tmp_path):
    torch.manual_seed(0)
    bands = sensor("emit").bands.methane()
    settings = FlameSettings(
        bands=len(bands),
        width=4,
        modes=3,
        conditioning="tile",
        score_space="whitened",
        prepare=PrepareSettings(rgb="tile"),
    )
    model = Flame(settings, unit_absorption(bands))
    save_model(tmp_path / "model.safetensors", settings, model.state_dict(), bands, {"seed": 0})
    (tmp_path / "metrics.json").write_text('{"f1": 0.5}')
    options = ["--out", str(tmp_path / "m.onnx"), "--tile", "32", "--name", "flame-plus", "--note", "commit=abc"]
    options += ["--metrics", str(tmp_path / "metrics.json")]
    result = CliRunner().invoke(app, ["export", str(tmp_path), *options])
    assert result.exit_code == 0, result.output
    assert "of torch on 3 tiles" in result.output
    manifest = load_model(tmp_path / "m.onnx").manifest
    assert (manifest.sensor, manifest.tile, manifest.name) == ("emit", 32, "flame-plus")
    assert manifest.metrics == {"f1": 0.5}
    assert manifest.training["commit"] == "abc"
    np.testing.assert_allclose(manifest.absorption, unit_absorption(bands))
