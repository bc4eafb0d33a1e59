"""`flame train` and `flame evaluate` as a user runs them."""

import csv
import json

import pytest
import torch
from typer.testing import CliRunner

from flame.cli.app import app
from flame.models.trained import load_trained
from flame.models.weights import load_model
from flame.pipeline.datasets import SimulationPlan, simulate_dataset
from flame.training.cache import TileCache

torch.set_num_threads(1)
SMALL = ["--set", "model.width=6", "--set", "model.modes=4", "--set", "batch.size=4", "--set", "epochs=2"]


def flame(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    simulate_dataset(SimulationPlan(tiles=14, size=32, seed=3, preset="cluttered", test_share=0.3), folder, 1)
    return folder


def test_the_strict_recipe_holds_no_tile_back(data, tmp_path):
    trained = flame("train", "--data", data, "--out", tmp_path / "run", "--recipe", "strict-paper", *SMALL)
    assert trained.exit_code == 0, trained.output
    tiles = len((data / "train.csv").read_text().splitlines()) - 1
    assert f"{tiles} training and" in trained.output
    assert "kept epoch 2," in trained.output


def test_a_folder_of_tiles_becomes_a_judged_model(data, tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    trained = flame("train", "--data", data, "--out", run, "--recipe", "tiny", "--seed", 5, *SMALL, "--threads", 1)
    assert trained.exit_code == 0, trained.output
    assert "epoch   2/2" in trained.output
    stored = load_model(run)
    assert stored.provenance["seed"] == 5
    assert stored.model.settings.width == 6
    assert {path.name for path in run.iterdir()} >= {
        "model.safetensors",
        "checkpoint.safetensors",
        "log.csv",
        "curves.png",
    }
    # Nothing of the test split was looked at.
    assert not (data / ".flame" / "test.cache").exists()
    again = flame("train", "--data", data, "--out", run, "--recipe", "tiny", "--seed", 5, *SMALL, "--resume")
    assert again.exit_code == 0, again.output
    judged = flame("evaluate", "--model", run, "--data", data, "--out", out, "--threads", 1)
    assert judged.exit_code == 0, judged.output
    figures = json.loads((out / "metrics.json").read_text())
    assert figures["tiles"] == len(TileCache(data / ".flame" / "test.cache"))
    assert figures["about"]["split"] == "test"
    assert figures["rules"]["canonical_opened"]["tp"] == figures["counts"]["tp"], "the rule of the figures above"
    assert figures["rules"]["best_opened"]["f1"] >= (figures["f1"] or 0.0)


def test_two_folders_are_trained_on_together_and_a_third_validates(data, tmp_path):
    run = tmp_path / "run"
    other = tmp_path / "other"
    simulate_dataset(SimulationPlan(tiles=6, size=32, seed=2, preset="cluttered", test_share=0.0), other, 1)
    options = ["--data", data, "--data", data, "--validation", other, "--out", run, "--recipe", "tiny", *SMALL]
    done = flame("train", *options, "--set", "epochs=1")
    assert done.exit_code == 0, done.output
    tiles = len(TileCache(data / ".flame" / "train.cache"))
    assert f"{2 * tiles} training and 6 validation tiles" in done.output
    shared = flame("train", *options, "--validation", data)
    assert "training tiles lie on ground that validation uses too" in str(shared.exception)


def test_few_tiles_whose_validation_has_no_plume_are_refused(tmp_path):
    few = tmp_path / "few"
    simulate_dataset(SimulationPlan(tiles=4, size=32, seed=1, preset="cluttered", test_share=0.0), few, 1)
    with (few / "train.csv").open() as listed:
        assert any(row["has_plume"] == "True" for row in csv.DictReader(listed)), "there are plumes to train on"
    refused = flame("train", "--data", few, "--out", tmp_path / "run", "--recipe", "tiny", *SMALL)
    assert refused.exit_code == 1
    assert "validation tiles has a labelled plume" in str(refused.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recipe", "best"], "no recipe 'best'"),
        (["--set", "epoch=3"], "no setting 'epoch'"),
        (["--set", "model.conditioning=none"], "a whitened score"),
        (["--set", "model.prepare.pixel_fields=wind"], "no pixel field 'wind'"),
    ],
)
def test_mistakes_are_named(data, tmp_path, options, message):
    result = flame("train", "--data", data, "--out", tmp_path, "--recipe", "tiny", *options)
    assert result.exit_code == 1
    assert message in str(result.exception)


def test_a_run_folder_is_not_overwritten_and_a_missing_model_is_named(data, tmp_path):
    (tmp_path / "checkpoint.safetensors").write_bytes(b"x")
    result = flame("train", "--data", data, "--out", tmp_path, "--recipe", "tiny", *SMALL)
    assert "--resume" in str(result.exception)
    missing = flame("evaluate", "--model", tmp_path / "nothing", "--data", data, "--out", tmp_path)
    assert "no such model" in str(missing.exception)


class Brightness(torch.nn.Module):
    """A user's network, named on the command line."""

    def __init__(self, bands):
        super().__init__()
        self.inputs = ("log_radiance",)
        self.project = torch.nn.Conv2d(bands, 1, 1)

    def forward(self, log_radiance):
        return self.project(log_radiance)[:, 0]


@pytest.mark.parametrize(
    "chosen", [("--network", "linknet-mag1c-sas", "--conditioned"), ("--model-class", f"{__name__}:Brightness")]
)
def test_another_network_is_trained_and_judged_by_the_same_commands(chosen, data, tmp_path):
    few = ("--recipe", "cpu", "--set", "batch.crop=32", "--set", "batch.size=4", "--set", "epochs=1")
    run = tmp_path / "run"
    trained = flame("train", "--data", data, "--out", run, *chosen, *few, "--device", "cpu")
    assert trained.exit_code == 0, trained.output
    judged = flame("evaluate", "--model", run, "--data", data, "--out", tmp_path / "out", "--threads", 1)
    assert judged.exit_code == 0, judged.output
    assert load_trained(run).model.kind.name == chosen[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--network", "unet", "--model-class", "a:B"), "not both"),
        (("--model-class", "unet"), "write MODULE:NAME"),
        (("--conditioned",), "belongs to --network"),
        (("--network", "nothing"), "no network 'nothing'; known are unet-mag1c"),
        (("--device", "tpu"), "no device 'tpu'"),
    ],
)
def test_networks_that_cannot_be_meant_are_refused_in_one_line(given, message, data, tmp_path):
    refused = flame("train", "--data", data, "--out", tmp_path / "run", *given)
    assert refused.exit_code == 1
    assert message in str(refused.exception)
