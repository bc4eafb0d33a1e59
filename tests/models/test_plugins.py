"""Backbones and networks of a user's own are found by module or entry point; what does not fit is refused by name."""

import sys
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
import torch
from torch import nn

from flame.models import Flame, FlameSettings, plugins
from flame.models.backbones import UnknownBackboneError, make_backbone
from flame.models.network_files import load_network, save_network
from flame.models.network_inputs import Normalise, UnknownInputError
from flame.models.networks import NetworkSettings, UnknownNetworkError, make_network
from flame.models.plugins import MissingExtraError, PluginError
from flame.models.segmenter import SegmentationNetwork, Segmenter
from flame.models.weights import WeightsError, load_model, save_model
from flame.physics import BandSet

BANDS = BandSet(np.array([2200.0, 2250.0, 2300.0, 2350.0]), np.full(4, 6.0))


class PlainBackbone(nn.Conv2d):
    """A user's backbone: one 3x3 convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, 3, padding=1)


class BrightnessNetwork(nn.Module):
    """A user's network on a field of its choice."""

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.inputs = ("log_radiance",)
        self.project = nn.Conv2d(bands, 1, 1)

    def forward(self, log_radiance: torch.Tensor) -> torch.Tensor:
        return self.project(log_radiance)[:, 0]


def unnamed_network(bands: int) -> nn.Module:
    return nn.Conv2d(bands, 1, 1)


@pytest.fixture
def installed(monkeypatch):
    """Entry points as an installed package would offer them."""
    offered = EntryPoints(
        [
            EntryPoint("plain", f"{__name__}:PlainBackbone", plugins.BACKBONE_GROUP),
            EntryPoint("bright", f"{__name__}:BrightnessNetwork", plugins.MODEL_GROUP),
        ]
    )
    monkeypatch.setattr(plugins, "entry_points", lambda **wanted: offered.select(**wanted))


@pytest.mark.parametrize("name", ["plain", f"{__name__}:PlainBackbone"])
def test_flame_runs_on_a_users_backbone_and_finds_it_again(name, installed, tmp_path):
    torch.manual_seed(0)
    model = Flame(FlameSettings(bands=4, backbone=name), np.array([-0.2, -0.1, -1.0, -0.6])).eval()
    assert isinstance(model.backbone, PlainBackbone)
    save_model(tmp_path / "model.safetensors", model.settings, model.state_dict(), BANDS, {})
    again = load_model(tmp_path).model
    assert torch.equal(again.backbone.weight, model.backbone.weight)


@pytest.mark.parametrize("name", ["bright", f"{__name__}:BrightnessNetwork"])
def test_a_users_network_is_made_saved_and_found_again(name, installed, tmp_path):
    settings = NetworkSettings(name, bands=4)
    network = make_network(settings)
    assert isinstance(network, SegmentationNetwork)
    save_network(tmp_path / "n.safetensors", network.state_dict(), settings, BANDS, {})
    field = torch.randn(1, 4, 5, 7)
    again = load_network(tmp_path / "n.safetensors").network
    assert torch.equal(again(log_radiance=field), network(log_radiance=field))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nothing", UnknownNetworkError, r"known are unet-mag1c.*bright"),
        ("no.such.module:Name", PluginError, "cannot be loaded"),
        (f"{__name__}:Missing", PluginError, "cannot be loaded"),
        (f"{__name__}:BANDS", PluginError, "is a BandSet"),
        (f"{__name__}:unnamed_network", PluginError, "names of the fields"),
        (f"{__name__}:PlainBackbone", PluginError, "has to take bands=4"),
    ],
)
def test_a_network_that_is_none_is_refused_by_name(name, error, message, installed):
    with pytest.raises(error, match=message):
        make_network(NetworkSettings(name, bands=4))


def test_unknown_backbones_and_modes_that_would_be_ignored_are_refused(installed):
    with pytest.raises(UnknownBackboneError, match=r"known are ufno.*plain"):
        make_backbone("nothing", 14, 12)
    with pytest.raises(UnknownBackboneError, match="modes of its own"):
        make_backbone("f-fno", 14, 16)


def test_a_missing_library_is_answered_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ptwt", None)
    with pytest.raises(MissingExtraError, match="backbone 'wno' needs the extra 'operators': pip install"):
        make_backbone("wno", 14, 12)


def test_inputs_are_asked_for_by_name():
    network = Segmenter(nn.Conv2d(5, 1, 1), ("mag1c", "radiance"), bands=4)
    filter_map, radiance = torch.rand(1, 1, 3, 3), torch.rand(1, 4, 3, 3)
    assert network(radiance=radiance, mag1c=filter_map).shape == (1, 3, 3)
    with pytest.raises(UnknownInputError, match="takes mag1c, radiance, but was given radiance"):
        network(radiance=radiance)
    for wrong, message in (
        (("albedo",), "no input 'albedo'"),
        ((), "at least one"),
        (("whitened", "whitened"), "once"),
    ):
        with pytest.raises(UnknownInputError, match=message):
            Segmenter(nn.Identity(), wrong, bands=4)


def test_normalisation_is_hyperstarcops_and_the_training_sets():
    ppm_m = torch.tensor([-10.0, 0.0, 875.0, 1750.0, 9000.0]).reshape(1, 1, 1, 5)
    assert Normalise("mag1c", 4)(ppm_m / 500.0).flatten().tolist() == [0.0, 0.0, 0.5, 1.0, 2.0]
    assert Normalise("rgb_radiance", 4)(torch.full((1, 3, 1, 1), 90.0)).flatten().tolist() == [1.5] * 3
    radiance = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0)) * 3 + 5
    standard, fixed = Normalise("radiance", 4), Normalise("matched_filter", 4)
    standard.fit(radiance.mean((0, 2, 3)), radiance.std((0, 2, 3)))
    found = standard(radiance)
    torch.testing.assert_close(found.mean((0, 2, 3)), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std((0, 2, 3)), torch.ones(4))
    fixed.fit(torch.ones(1), torch.ones(1))
    assert float(fixed.mean) == 0.0


def test_weights_of_another_kind_are_refused(tmp_path):
    model = Flame(FlameSettings(bands=4), np.array([-0.2, -0.1, -1.0, -0.6]))
    save_model(tmp_path / "model.safetensors", model.settings, model.state_dict(), BANDS, {})
    with pytest.raises(WeightsError, match="other weights than a network"):
        load_network(tmp_path / "model.safetensors")
    name = f"{__name__}:BrightnessNetwork"
    save_network(tmp_path / "n.safetensors", {}, NetworkSettings(name, 4), BANDS, {})
    with pytest.raises(WeightsError, match="weights do not fit network"):
        load_network(tmp_path / "n.safetensors")
