"""The trainer takes every network of the registry and a user's own, on the preparation of FLAME's own tiles."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiles import BANDS
from torch import nn
from toy_run import ToyTiles, network_trainer, toy_recipe

from flame.filters import filter_named
from flame.models import BatchPreparer, RawTile
from flame.models.network_inputs import NetworkNeeds, UnknownInputError
from flame.models.networks import NETWORKS, NetworkSettings
from flame.models.trained import NetworkModel, load_trained
from flame.training.batches import BatchSettings
from flame.training.checkpoints import Progress
from flame.training.evaluate import evaluate_model
from flame.training.loop import RunError, Trainer
from flame.training.recipes import RECIPES, UnknownRecipeError, on_network
from flame.training.statistics import fit_normalisation


class OneConvolution(nn.Module):
    """A user's network on fields of its choice."""

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.inputs = ("whitened", "clutter")
        self.project = nn.Conv2d(bands + 1, 1, 1)

    def forward(self, whitened: torch.Tensor, clutter: torch.Tensor) -> torch.Tensor:
        return self.project(torch.cat([whitened, clutter], 1))[:, 0]


def recipe_of(network: str, conditioned: bool = False, **changes):
    base = replace(RECIPES["cpu"], batch=BatchSettings(size=4), epochs=2, checkpoint_minutes=0.0)
    return replace(on_network(base, network, conditioned), **changes)


def trained(folder: Path, recipe, **given) -> Progress:
    return Trainer(recipe, ToyTiles(8, size=32), ToyTiles(4, size=32, seed=1), folder, 3, **given).run()


@pytest.mark.parametrize("conditioned", [False, True])
@pytest.mark.parametrize(
    "network", ["linknet-mag1c-sas", "unet", "segformer-cu", "efficientvit", f"{__name__}:OneConvolution"]
)
def test_a_network_trains_and_comes_back_from_its_file_as_it_was_judged(network, conditioned, tmp_path):
    if conditioned and network not in NETWORKS:
        with pytest.raises(UnknownRecipeError, match="no conditioned form"):
            recipe_of(network, conditioned)
        return
    recipe = recipe_of(network, conditioned, keep="last")
    course = trained(tmp_path, recipe)
    assert course.history[-1]["auxiliary"] == 0.0, "such a network has no score to teach"
    stored = load_trained(tmp_path)
    assert stored.bands.matches(BANDS)
    assert isinstance(stored.model, NetworkModel)
    assert stored.model.kind == NetworkSettings(
        network, len(BANDS), NETWORKS[network].conditioned if conditioned else ()
    )
    again = evaluate_model(stored.model, ToyTiles(4, size=32, seed=1))
    assert again.auprc == course.history[-1]["auprc"]


def test_learning_rates_are_the_papers_and_all_else_is_flames():
    base = RECIPES["paper"]
    for name, rate in {"unet": 2e-3, "segformer-cus": 1.2e-4, "efficientvit-cu": 1e-3}.items():
        chosen = on_network(base, name)
        assert chosen.optimizer == replace(base.optimizer, rate=rate)
        assert (chosen.loss, chosen.batch, chosen.epochs, chosen.keep) == (
            base.loss,
            base.batch,
            base.epochs,
            base.keep,
        )


def test_a_networks_fields_are_those_of_the_one_preparation():
    tile = ToyTiles(1, size=40)[0]
    raw = [RawTile(tile.radiance, tile.valid, tile.rgb)]
    needs = NetworkNeeds(len(BANDS), ("mag1c", "radiance", "rgb_radiance", "matched_filter"))
    found = needs.taken(BatchPreparer(needs, BANDS).prepare(raw).inputs)
    assert tuple(found) == needs.fields
    torch.testing.assert_close(found["radiance"][0], torch.tensor(tile.radiance), rtol=1e-5, atol=0)
    torch.testing.assert_close(found["rgb_radiance"][0], torch.tensor(tile.rgb))
    expected = filter_named("mag1c").score(tile.radiance, BANDS, tile.valid) / 500.0
    np.testing.assert_allclose(found["mag1c"][0, 0], expected, rtol=1e-4, atol=1e-4)
    whitened = NetworkNeeds(len(BANDS), ("matched_filter", "whitened"))
    other = whitened.taken(BatchPreparer(whitened, BANDS).prepare(raw).inputs)
    torch.testing.assert_close(other["matched_filter"], found["matched_filter"], rtol=1e-3, atol=1e-3)
    assert found["matched_filter"].shape == (1, 1, 40, 40)
    with pytest.raises(UnknownInputError, match="radiance or whitened, not both"):
        NetworkNeeds(len(BANDS), ("radiance", "whitened"))


def test_radiance_is_standardised_by_the_training_set():
    model, tiles = NetworkModel(NetworkSettings("unet", len(BANDS))), ToyTiles(6, size=32)
    fit_normalisation(model, tiles)
    radiance = np.stack([tiles[number].radiance for number in range(6)]).astype(np.float64)
    layer = model.network.normalise["radiance"]
    np.testing.assert_allclose(layer.mean.flatten(), radiance.mean((0, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(layer.spread.flatten(), radiance.std((0, 2, 3)), rtol=1e-4)


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(RunError, match="only FLAME's logit"):
        trained(tmp_path / "a", recipe_of("unet", calibrate=True))
    if not torch.cuda.is_available():
        with pytest.raises(RunError, match="sees no GPU"):
            trained(tmp_path / "b", recipe_of("unet"), device="cuda")
    trained(tmp_path / "c", recipe_of("linknet-mag1c-sas", epochs=1))
    with pytest.raises(RunError, match="another architecture"):
        trained(tmp_path / "d", recipe_of("unet"), start=load_trained(tmp_path / "c"))
    flame = toy_recipe("cpu")
    with pytest.raises(RunError, match="another architecture"):
        trained(tmp_path / "e", flame, start=load_trained(tmp_path / "c"))


def test_the_weights_of_asked_epochs_are_kept(tmp_path):
    trained(tmp_path, toy_recipe("cpu", keep="last"), snapshots=(1, 3))
    assert {path.name for path in tmp_path.glob("epoch*")} == {"epoch1.safetensors", "epoch3.safetensors"}
    last, kept, first = (
        load_trained(tmp_path / name).model for name in ("epoch3.safetensors", "", "epoch1.safetensors")
    )
    assert torch.equal(last.lift.weight, kept.lift.weight)
    assert not torch.equal(last.lift.weight, first.lift.weight)


def test_two_processes_train_a_network_as_one_does(tmp_path):
    """Batch norms, loss and gradients are those of the whole batch, over gloo on the CPU."""
    script = Path(__file__).with_name("toy_run.py")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for folder, start in (("one", [sys.executable]), ("two", launch)):
        command = [*start, str(script), str(tmp_path / folder), "cpu", "linknet-mag1c-sas"]
        done = subprocess.run(command, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
    histories = [network_trainer(tmp_path / folder, "linknet-mag1c-sas").progress.history for folder in ("one", "two")]
    ((alone,), (together,)) = histories
    assert together["loss"] == pytest.approx(alone["loss"], rel=1e-3)
