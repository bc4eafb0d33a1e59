"""A trained segmentation network as one safetensors file, and as an ONNX graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flame.models.inputs import INPUT_FIELDS
from flame.models.networks import NetworkSettings, make_network
from flame.models.onnx_graph import traced
from flame.models.weights import WeightsError, read_tensors, write_tensors
from flame.physics import BandSet

__all__ = ["StoredNetwork", "load_network", "network_to_onnx", "save_network"]

FORMAT = "flame-network-1"


@dataclass(frozen=True, eq=False)
class StoredNetwork:
    """A network read from a file, in evaluation mode, with what the file says about it."""

    network: nn.Module
    settings: NetworkSettings
    bands: BandSet
    provenance: Mapping[str, Any]


def save_network(
    path: Path, network: nn.Module, settings: NetworkSettings, bands: BandSet, provenance: Mapping[str, Any]
) -> None:
    """Writes a network under a temporary name and renames it."""
    write_tensors(path, FORMAT, json.dumps(asdict(settings)), network.state_dict(), bands, provenance)


def load_network(path: Path) -> StoredNetwork:
    """Reads a network; one of a user's own needs its module to be importable.

    Raises:
        WeightsError: If the file is missing, damaged, or no network of this kind.
    """
    stored = read_tensors(path, FORMAT, "a network of the comparison")
    given = json.loads(stored.settings)
    settings = NetworkSettings(given["name"], given["bands"], tuple(given["inputs"]))
    network = make_network(settings)
    try:
        network.load_state_dict(stored.weights)
    except RuntimeError as failure:
        raise WeightsError(f"{path}: weights do not fit network '{settings.name}' ({failure})") from failure
    return StoredNetwork(network.eval(), settings, stored.bands, stored.provenance)


class _Positional(nn.Module):
    """A network whose fields come by position, as the exporter calls it, and that answers with a probability."""

    def __init__(self, network: nn.Module, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.network = network
        self.inputs = inputs

    def forward(self, *fields: Tensor) -> Tensor:
        logit: Tensor = self.network(**dict(zip(self.inputs, fields, strict=True)))
        return torch.sigmoid(logit)


def network_to_onnx(network: nn.Module, inputs: tuple[str, ...], bands: int, tile: int) -> bytes:
    """The graph for one tile size: fields by name in, `probability` (1, row, col) out.

    Args:
        network: A `SegmentationNetwork`; it is put into evaluation mode.
        inputs: Its inputs.
        bands: SWIR bands.
        tile: Side of the tile, in pixels.
    """
    example = tuple(torch.zeros(1, INPUT_FIELDS[name].channels or bands, tile, tile) for name in inputs)
    with torch.no_grad():
        return traced(_Positional(network, inputs).eval(), example, inputs, ("probability",))
