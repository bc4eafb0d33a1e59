"""A trained segmentation network as one safetensors file, and as an ONNX graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from flame.files import write_whole
from flame.models.export import OPSET
from flame.models.network_inputs import INPUT_FIELDS
from flame.models.networks import NetworkSettings, make_network
from flame.models.onnx_graph import traced
from flame.models.weights import WeightsError
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
    path: Path,
    weights: Mapping[str, Tensor],
    settings: NetworkSettings,
    bands: BandSet,
    provenance: Mapping[str, Any],
) -> None:
    """Writes a network's weights under a temporary name and renames it."""
    header = {
        "format": FORMAT,
        "settings": json.dumps(asdict(settings)),
        "bands": json.dumps([bands.centres_nm.tolist(), bands.fwhm_nm.tolist()]),
        "provenance": json.dumps(dict(provenance)),
    }
    write_whole(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, header))


def load_network(path: Path) -> StoredNetwork:
    """Reads a network; one of a user's own needs its module to be importable.

    Raises:
        WeightsError: If the file is missing, damaged, or no network of this kind.
    """
    header, weights = _read(path)
    given = json.loads(header["settings"])
    settings = NetworkSettings(given["name"], given["bands"], tuple(given["inputs"]))
    network = make_network(settings)
    try:
        network.load_state_dict(weights)
    except RuntimeError as failure:
        raise WeightsError(f"{path}: weights do not fit network '{settings.name}' ({failure})") from failure
    centres_nm, fwhm_nm = (np.array(values) for values in json.loads(header["bands"]))
    return StoredNetwork(network.eval(), settings, BandSet(centres_nm, fwhm_nm), json.loads(header["provenance"]))


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise WeightsError(f"{path}: no such file; give the safetensors file of a trained network")
    try:
        weights = load_file(path)
        with safe_open(path, "pt") as file:
            header: dict[str, str] = file.metadata() or {}
    except SafetensorError as failure:
        raise WeightsError(f"{path}: cannot be read as safetensors ({failure})") from failure
    if header.get("format") != FORMAT:
        raise WeightsError(f"{path}: holds other weights than a network of the comparison's")
    return header, weights


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
        return traced(_Positional(network, inputs).eval(), example, inputs, ("probability",), OPSET)
