"""A torch module traced to an ONNX graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]

from flame.errors import FlameError

__all__ = ["GraphError", "refuse_complex", "traced"]


class GraphError(FlameError):
    """A network that no ONNX graph can hold."""


def refuse_complex(network: nn.Module) -> None:
    """Says in one line what the exporter would say in a thousand.

    Raises:
        GraphError: If the network has complex weights, which ONNX does not know.
    """
    if any(parameter.is_complex() for parameter in network.parameters()):
        raise GraphError("this network has complex weights, which ONNX does not know; it runs in torch only")


def traced(
    network: nn.Module,
    example: tuple[Tensor, ...],
    inputs: Sequence[str],
    outputs: Sequence[str],
    opset: int,
    any_size: bool = False,
) -> bytes:
    """The graph of a network in evaluation mode, for the sizes of the example or, if asked, any rows and columns.

    Raises:
        GraphError: If the network has complex weights.
    """
    refuse_complex(network)
    axes = None
    if any_size:
        ranks = dict(zip(inputs, (tensor.ndim for tensor in example), strict=True))
        ranks |= dict(zip(outputs, (tensor.ndim for tensor in network(*example)), strict=True))
        axes = {name: {rank - 2: "row", rank - 1: "col"} for name, rank in ranks.items()}
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        # Sizes become constants on purpose, and the tracing exporter is meant: the other one needs another package.
        warnings.simplefilter("ignore", TracerWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "Constant folding")
        torch.onnx.export(
            network,
            example,
            Path(folder) / "model.onnx",
            input_names=list(inputs),
            output_names=list(outputs),
            opset_version=opset,
            dynamic_axes=axes,
            dynamo=False,
        )
        return (Path(folder) / "model.onnx").read_bytes()
