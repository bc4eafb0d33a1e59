"""FLAME and every other network behind one door: prepared tiles in, `FlameOutput` out, one file each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from flame.models.flame import Flame, FlameOutput
from flame.models.network_files import FORMAT, load_network, save_network
from flame.models.network_inputs import NetworkNeeds
from flame.models.networks import NetworkSettings, make_network
from flame.models.segmenter import SegmentationNetwork
from flame.models.settings import FlameSettings
from flame.models.weights import StoredModel, load_model, save_model
from flame.physics import BandSet

__all__ = ["AnyModel", "AnySettings", "NetworkModel", "Trained", "load_trained", "save_trained", "settings_of"]

AnySettings = FlameSettings | NetworkSettings


class NetworkModel(nn.Module):
    """A network of the registry, or a user's own, that takes prepared tiles as FLAME does.

    Args:
        kind: Which network.
        network: The network itself, if there is one already.
    """

    def __init__(self, kind: NetworkSettings, network: nn.Module | None = None) -> None:
        super().__init__()
        made = make_network(kind) if network is None else network
        assert isinstance(made, SegmentationNetwork)
        self.kind = kind
        self.settings = NetworkNeeds(kind.bands, tuple(made.inputs))
        self.network: nn.Module = made

    def forward(self, inputs: Mapping[str, Float[Tensor, "batch ..."]]) -> FlameOutput:
        """Plume logits of a batch of prepared tiles; such a network has no score."""
        return FlameOutput(self.network(**self.settings.taken(inputs)), None, None)


AnyModel = Flame | NetworkModel


@dataclass(frozen=True, eq=False)
class Trained:
    """A model of either kind read from a file, in evaluation mode.

    Attributes:
        model: The model.
        bands: The bands it was trained for.
        provenance: Recipe, seed, validation figures: whatever training wrote.
    """

    model: AnyModel
    bands: BandSet
    provenance: Mapping[str, Any]


def settings_of(model: AnyModel) -> AnySettings:
    """What a model was made from."""
    return model.settings if isinstance(model, Flame) else model.kind


def save_trained(
    path: Path, model: AnyModel, weights: Mapping[str, Tensor], bands: BandSet, provenance: Mapping[str, Any]
) -> None:
    """Writes a model with these weights, which may be others than its own at this moment."""
    if isinstance(model, Flame):
        save_model(path, model.settings, weights, bands, provenance)
        return
    own = {name.removeprefix("network."): tensor for name, tensor in weights.items()}
    save_network(path, own, model.kind, bands, provenance)


def load_trained(path: Path) -> Trained:
    """Reads a model of either kind; `path` may also be the run folder that training left.

    Raises:
        WeightsError: If the file is missing, damaged, or no model of this package's.
    """
    file = path / "model.safetensors" if path.is_dir() else path
    if _format(file) != FORMAT:
        stored: StoredModel = load_model(path)
        return Trained(stored.model, stored.bands, stored.provenance)
    found = load_network(file)
    return Trained(NetworkModel(found.settings, found.network).eval(), found.bands, found.provenance)


def _format(path: Path) -> str | None:
    """What a file says it holds; None if it says nothing, which `load_model` then explains."""
    try:
        with safe_open(path, "pt") as file:
            return (file.metadata() or {}).get("format")
    except (SafetensorError, OSError):
        return None
