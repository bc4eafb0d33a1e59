"""A package is written only if it does what torch does, bad pixels and the tile's own background included."""

import numpy as np
import onnx
import pytest
import torch

from flame.models import BatchPreparer, Flame, FlameSettings, RawTile, SpectralStatistics
from flame.models.export import to_onnx
from flame.models.weights import load_model, save_model
from flame.onboard import load_model as load_package
from flame.physics import sensor, sensor_of, unit_absorption
from flame.pipeline import export
from flame.pipeline.export import ExportError, export_model
from flame.prepare import FIELDS, BackgroundSettings, PrepareSettings
from flame.simulate import preset, simulate_tile, tile_generator

BANDS = sensor("aviris-ng").bands.methane()
VARIANTS = {
    "paper": FlameSettings(width=4, modes=3),
    "projected": FlameSettings(width=4, modes=3, score_space="projected", score="weights"),
    "tile, log score": FlameSettings(
        width=4, modes=3, conditioning="tile", prepare=PrepareSettings(pixel_fields=("brightness",))
    ),
    "features of the training set": FlameSettings(
        width=4,
        modes=3,
        conditioning="tile",
        score_space="whitened",
        score="fixed",
        lift_space="training",
        prepare=PrepareSettings(pixel_fields=("enhancement", "clutter")),
    ),
    "no score": FlameSettings(width=4, modes=3, score="none", prepare=PrepareSettings(rgb="none")),
    "score whitened by the training set": FlameSettings(width=4, modes=3, score_space="whitened"),
    "tile, log score, features of the training set": FlameSettings(
        width=4, modes=3, conditioning="tile", lift_space="training"
    ),
    "tile, no score": FlameSettings(
        width=4, modes=3, conditioning="tile", score="none", prepare=PrepareSettings(pixel_fields=("noise",))
    ),
    "plus": FlameSettings(
        width=4,
        modes=3,
        conditioning="tile",
        score_space="whitened",
        prepare=PrepareSettings(
            background=BackgroundSettings(samples=400, passes=3), pixel_fields=tuple(FIELDS), rgb="tile"
        ),
    ),
}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def scene():
    return simulate_tile(tile_generator(7, 0), preset("cluttered", size=48), "check").tile.scene


def _run(folder, scene, settings):
    """A model file with weights that leave nothing at zero and batch norms that have seen data."""
    log = np.log(np.maximum(scene.radiance, 1e-3)).reshape(72, -1).astype(float)
    torch.manual_seed(1)
    model = Flame(settings, unit_absorption(BANDS), SpectralStatistics(log.mean(1), np.cov(log)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("w_bg", "w_sw")):
                parameter.normal_(std=0.05)
        model.segmentation.project.weight.mul_(20.0)
        model.train()
        for _ in range(5):
            model(BatchPreparer(settings, BANDS).prepare([RawTile.of(scene)]).inputs)
    save_model(folder / "model.safetensors", settings, model.state_dict(), BANDS, {"seed": 1})
    return folder


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_exported_and_agrees_with_torch(variant, scene, tmp_path):
    run = _run(tmp_path, scene, VARIANTS[variant])
    holes = np.random.default_rng(2).random(scene.shape) < 0.2
    holed = type(scene)(scene.radiance, scene.bands, scene.valid & ~holes, scene.rgb)
    path, agreements = export_model(
        run, tmp_path / "out.onnx", tile=48, name=variant, scenes=[scene, holed], notes={"commit": "abc"}
    )
    assert len(agreements) == 2
    for found in agreements:
        assert found.max_difference < 1e-4
        assert found.mask_differences == 0
        assert found.tiles == 2
    manifest = load_package(path).manifest
    assert manifest.sensor == "aviris-ng" == sensor_of(BANDS)
    assert manifest.training == {"seed": 1, "commit": "abc"}


def test_the_graph_is_of_plain_operators_with_norms_and_training_whitening_folded(scene, tmp_path):
    stored = load_model(_run(tmp_path, scene, VARIANTS["paper"]))
    content, deployed = to_onnx(stored.model, 48)
    graph = onnx.load_from_string(content).graph
    operators = {node.op_type for node in graph.node}
    assert deployed.inputs == ("log_radiance", "rgb")
    assert not operators & {"BatchNormalization", "DFT", "STFT", "ScatterND", "Loop", "If"}
    shapes = [tuple(t.dims) for t in graph.initializer]
    assert (72, 72) not in shapes
    assert (1, 72, 72) not in shapes


def test_a_model_that_whitens_by_the_tile_gets_its_spectra_whitened_and_stores_no_constant_twice(scene, tmp_path):
    stored = load_model(_run(tmp_path, scene, VARIANTS["plus"]))
    content, deployed = to_onnx(stored.model, 48)
    graph = onnx.load_from_string(content).graph
    assert deployed.inputs == ("whitened", "target", "pixel_fields", "rgb")
    whitened = graph.input[0].type.tensor_type.shape
    assert [d.dim_value for d in whitened.dim] == [3, 72, 16, 48]
    large = [node.attribute[0].t.raw_data for node in graph.node if node.op_type == "Constant"]
    large += [tensor.raw_data for tensor in graph.initializer]
    large = [data for data in large if len(data) > 1000 and any(data)]
    assert len(set(large)) == len(large)


def test_a_package_that_differs_is_not_written(scene, tmp_path, monkeypatch):
    run = _run(tmp_path, scene, VARIANTS["paper"])

    def slightly_wrong(model, tile):
        with torch.no_grad():
            model.segmentation.project.bias.add_(0.01)
        content = to_onnx(model, tile)
        with torch.no_grad():
            model.segmentation.project.bias.sub_(0.01)
        return content

    monkeypatch.setattr(export, "to_onnx", slightly_wrong)
    with pytest.raises(ExportError, match="not written; on onnxruntime"):
        export_model(run, tmp_path / "out.onnx", tile=48, scenes=[scene])
    assert not (tmp_path / "out.onnx").exists()


def test_small_scenes_cannot_stand_for_a_tile(scene, tmp_path):
    run = _run(tmp_path, scene, VARIANTS["paper"])
    with pytest.raises(ExportError, match="at least 64 x 64"):
        export_model(run, tmp_path / "out.onnx", tile=64, scenes=[scene])
