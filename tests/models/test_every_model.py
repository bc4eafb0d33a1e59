"""What every network must pass, a baseline or FLAME on any backbone: sizes, gradients, counts, files, graphs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
import torch
from tiles import BANDS, SPECTRUM, toy_tile
from torch import nn

from flame.models import BatchPreparer, Flame, FlameSettings, RawTile
from flame.models.backbones import BACKBONES
from flame.models.export import to_onnx
from flame.models.network_files import load_network, network_to_onnx, save_network
from flame.models.network_inputs import INPUT_FIELDS
from flame.models.networks import NETWORKS, NetworkSettings, make_network
from flame.models.onnx_graph import GraphError
from flame.models.weights import load_model, save_model
from flame.prepare import FIELDS

FLAME_PUBLISHED = {"ufno": 0.78, "fno": 0.79, "f-fno": 2.39, "tucker-fno": 2.16, "uno": 2.54, "wno": 0.77}
"""tab:ablation2, millions of parameters of the whole model."""


@dataclass(frozen=True)
class Fields:
    """Inputs of any network for a batch of tiles."""

    named: dict[str, torch.Tensor]
    valid: torch.Tensor

    def tile(self, number: int) -> "Fields":
        one = slice(number, number + 1)
        return Fields({name: field[one] for name, field in self.named.items()}, self.valid[one])


def some_fields(rows: int, cols: int, seed: int = 0) -> Fields:
    """Two toy tiles, one with a plume, with every field a network may ask for."""
    rng = np.random.default_rng(seed)
    tiles = [toy_tile(rng, max(rows, cols), plume) for plume in (True, False)]
    radiance, rgb, teacher = (
        torch.tensor(np.stack([getattr(tile, name) for tile in tiles]))[..., :rows, :cols].contiguous()
        for name in ("radiance", "rgb", "teacher")
    )
    log = radiance.log()
    centred = log - log.mean((2, 3), keepdim=True)
    named = {
        "radiance": radiance,
        "log_radiance": log,
        "whitened": centred / centred.std((2, 3), keepdim=True),
        "rgb_radiance": 10 * rgb,
        "rgb_log_ratio": rgb.log() - rgb.log().mean((2, 3), keepdim=True),
        **dict.fromkeys(FIELDS, teacher[:, None] / 500.0),
    }
    assert set(named) == set(INPUT_FIELDS)
    return Fields(named, torch.ones(2, rows, cols, dtype=torch.bool))


@dataclass(frozen=True)
class Case:
    """One network: how it is made and asked, and what the paper says of its size."""

    make: Callable[[], nn.Module]
    published: float | None

    def logit(self, network: nn.Module, fields: Fields) -> torch.Tensor:
        if isinstance(network, Flame):
            layers = (fields.named["radiance"], fields.valid, fields.named["rgb_radiance"])
            raw = [RawTile(*(layer.numpy() for layer in tile)) for tile in zip(*layers, strict=True)]
            return network(BatchPreparer(network.settings, BANDS).prepare(raw).inputs).logit
        return network(**{name: fields.named[name] for name in network.inputs})


def _baseline(name: str, inputs: tuple[str, ...] = ()) -> Callable[[], nn.Module]:
    return lambda: make_network(NetworkSettings(name, len(BANDS), inputs))


def _flame(backbone: str) -> Callable[[], nn.Module]:
    return lambda: Flame(FlameSettings(backbone=backbone), SPECTRUM)


CASES: dict[str, Case] = {
    **{name: Case(_baseline(name), entry.published_parameters) for name, entry in NETWORKS.items()},
    **{f"flame/{name}": Case(_flame(name), FLAME_PUBLISHED.get(name)) for name in BACKBONES},
}
PUBLISHED = [name for name, case in CASES.items() if case.published is not None]
END_TO_END = [name for name in PUBLISHED if name in NETWORKS and "radiance" in NETWORKS[name].inputs]


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.fixture(params=CASES)
def case(request):
    torch.manual_seed(3)
    return CASES[request.param]


@pytest.mark.parametrize("size", [(32, 32), (41, 27)])
def test_takes_any_size_and_judges_a_tile_alike_alone_and_in_a_batch(case, size):
    network, fields = case.make().eval(), some_fields(*size)
    with torch.no_grad():
        logit = case.logit(network, fields)
        alone = torch.cat([case.logit(network, fields.tile(number)) for number in range(2)])
    assert logit.shape == (2, *size)
    assert logit.isfinite().all()
    assert logit.std() > 0
    torch.testing.assert_close(logit, alone, rtol=1e-3, atol=1e-3 * float(logit.abs().max()))


def test_every_parameter_is_taught(case):
    network = case.make().train()
    assert not any(parameter.is_complex() for parameter in network.parameters())  # the optimiser would refuse them
    untaught = [name for name, _ in network.named_parameters()]
    for seed in range(4):  # a drawn sample may drop a branch, or leave all units of a small ReLU layer silent
        logit = case.logit(network, some_fields(64, 64, seed))  # of smaller tiles the deepest layers see two pixels
        weight = torch.randn(logit.shape, generator=torch.Generator().manual_seed(seed))
        (logit * weight).mean().backward()
        gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
        assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients.values())
        untaught = [name for name in untaught if not gradients[name].any()]
        if not untaught:
            return
    assert untaught == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_has_the_published_number_of_parameters(name):
    published = 1e6 * CASES[name].published
    assert parameters(CASES[name].make()) == pytest.approx(published, rel=0.015)


@pytest.mark.parametrize("name", END_TO_END)
def test_end_to_end_counts_are_those_of_the_swir_bands_alone_to_the_last_digit(name):
    network = _baseline(name, ("radiance",))()
    assert round(parameters(network) / 1e6, 2) == NETWORKS[name].published_parameters


@pytest.mark.parametrize("name", FLAME_PUBLISHED)
def test_backbone_counts_are_the_published_ones_to_the_last_digit(name):
    assert round(parameters(_flame(name)()) / 1e6, 2) == FLAME_PUBLISHED[name]


@pytest.mark.parametrize("name", CASES)
def test_comes_back_from_its_file_as_it_was(name, tmp_path):
    torch.manual_seed(4)
    network, fields = CASES[name].make().eval(), some_fields(32, 32)
    path = tmp_path / "model.safetensors"
    if isinstance(network, Flame):
        save_model(path, network.settings, network.state_dict(), BANDS, {"seed": 4})
        stored = load_model(path)
        again = stored.model
    else:
        save_network(path, network.state_dict(), NetworkSettings(name, len(BANDS)), BANDS, {"seed": 4})
        stored = load_network(path)
        again = stored.network
    assert stored.provenance == {"seed": 4}
    assert stored.bands.matches(BANDS)
    with torch.no_grad():
        assert torch.equal(CASES[name].logit(again, fields), CASES[name].logit(network, fields))


@torch.no_grad()
def settled(case: Case, fields: Fields) -> nn.Module:
    """A network whose batch norms know the fields, so that its logits are of the size of one."""
    network = case.make().train()
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    case.logit(network, fields)
    return network.eval()


@pytest.mark.parametrize("name", CASES)
def test_its_graph_gives_the_same_in_onnxruntime(name):
    torch.manual_seed(5)
    both = some_fields(40, 40)
    network, fields = settled(CASES[name], both), both.tile(0)
    with torch.no_grad():
        if isinstance(network, Flame):
            content, deployed = to_onnx(network, 40)
            inputs = [torch.randn_like(example) for example in deployed.example()]
            expected, given = deployed(*inputs)[0], dict(zip(deployed.inputs, inputs, strict=True))
        else:
            content = network_to_onnx(network, network.inputs, len(BANDS), 40)
            given = {field: fields.named[field] for field in network.inputs}
            expected = torch.sigmoid(CASES[name].logit(network, fields))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found, *_) = session.run(None, {field: tensor.numpy() for field, tensor in given.items()})
    # Closer to one, single precision does not tell logits apart.
    logits = [torch.logit(probability, 1e-3) for probability in (torch.tensor(found), expected)]
    spread = float(logits[1].std())
    assert spread > 1e-3
    torch.testing.assert_close(*logits, rtol=0, atol=0.01 * spread)


class ComplexBackbone(nn.Module):
    """A user's backbone with a complex weight, as neuraloperator's have."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1, dtype=torch.complex64))

    def forward(self, field: torch.Tensor) -> torch.Tensor:
        return field * self.weight.real


def test_complex_weights_are_refused_by_the_exporter_in_one_line():
    with pytest.raises(GraphError, match="complex weights"):
        to_onnx(_flame(f"{__name__}:ComplexBackbone")(), 32)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_baseline_also_takes_flames_conditioning(name):
    inputs = NETWORKS[name].conditioned
    network, fields = _baseline(name, inputs)().eval(), some_fields(32, 32)
    assert not any(INPUT_FIELDS[field].standardised for field in inputs)
    with torch.no_grad():
        assert CASES[name].logit(network, fields).isfinite().all()
    assert parameters(network) == parameters(CASES[name].make())
