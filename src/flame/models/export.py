"""A trained FLAME as an ONNX graph: everything learned, with whitening and batch norms folded, and nothing else.

Logarithm, hole filling and the tile's statistics stay outside; the runtime does them in NumPy (`flame.onboard`). The
graph has a fixed tile size, is made of matrix products, convolutions, reductions and elementwise operators only, and
takes those of the inputs `log_radiance`, `rgb` (normalised), `background_mean`, `whitening` and `brightness_median`
that the model needs.
"""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.onnx import register_custom_op_symbolic, unregister_custom_op_symbolic  # type: ignore[attr-defined]

from flame.models.backbones.ufno import OperatorBlock
from flame.models.conditioning import Background
from flame.models.flame import Flame

__all__ = ["OPSET", "DeployedFlame", "to_onnx"]

OPSET = 17
"""Accepted by onnxruntime from 1.13, OpenVINO from 2022.3 and TensorRT from 8.5."""


class DeployedFlame(nn.Module):
    """FLAME from log-radiance on, for one tile.

    Args:
        model: A trained network; it is copied.
    """

    def __init__(self, model: Flame) -> None:
        super().__init__()
        self.flame = copy.deepcopy(model).eval().requires_grad_(False)
        _fold_batch_norms(self.flame)
        for block in self.flame.backbone.modules():
            if isinstance(block, OperatorBlock):
                block.merge_pointwise()
        weight, bias = (tensor.detach().clone() for tensor in self.flame.folded_lift())
        self.flame.folded_lift = lambda: (weight, bias)  # type: ignore[method-assign]
        kind = model.settings
        self.inputs: tuple[str, ...] = ("log_radiance",)
        if kind.rgb != "none":
            self.inputs += ("rgb",)
        if kind.conditioning == "tile":
            self.inputs += ("background_mean", "whitening")
        if "brightness" in kind.noise_inputs:
            self.inputs += ("brightness_median",)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Probability and score / tau, both (1, row, col), from the inputs in the order of `inputs`."""
        given = dict(zip(self.inputs, tensors, strict=True))
        if "whitening" in given:
            background = Background(given["background_mean"], given["whitening"])
        else:
            background = Background(self.flame.mean[None], self.flame.whitening[None])
        inputs = self.flame.in_coordinates(
            given["log_radiance"], background, given.get("rgb"), given.get("brightness_median")
        )
        out = self.flame.network(inputs)
        score_ppm_m = torch.zeros_like(out.logit) if out.score_ppm_m is None else out.score_ppm_m
        return torch.sigmoid(out.logit), score_ppm_m / self.flame.settings.tau_ppm_m

    def example(self, tile: int) -> tuple[Tensor, ...]:
        """Inputs of the right shapes."""
        bands = self.flame.settings.bands
        shapes = {
            "log_radiance": (1, bands, tile, tile),
            "rgb": (1, 3, tile, tile),
            "background_mean": (1, bands),
            "whitening": (1, bands, bands),
            "brightness_median": (1,),
        }
        return tuple(torch.zeros(shapes[name]) for name in self.inputs)


def _fold_batch_norms(module: nn.Module) -> None:
    """Folds each batch norm of a sequence into the convolution before it, in place."""
    for child in module.children():
        _fold_batch_norms(child)
    if not isinstance(module, nn.Sequential):
        return
    for number in range(len(module) - 1):
        conv, norm = module[number], module[number + 1]
        if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            module[number], module[number + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()


def _asinh(graph: Any, value: Any) -> Any:
    return graph.op("Asinh", value)


def to_onnx(model: Flame, tile: int) -> tuple[bytes, tuple[str, ...]]:
    """The graph for one tile size, and the names of its inputs; outputs are `probability` and `score`.

    Args:
        model: A trained network.
        tile: Side of the tile, in pixels.
    """
    deployed = DeployedFlame(model)
    register_custom_op_symbolic("aten::asinh", _asinh, OPSET)
    try:
        with warnings.catch_warnings(), TemporaryDirectory() as folder:
            # Sizes become constants on purpose, and the tracing exporter is meant: the other one needs another package.
            warnings.simplefilter("ignore", TracerWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", "Constant folding")
            torch.onnx.export(
                deployed,
                deployed.example(tile),
                Path(folder) / "model.onnx",
                input_names=list(deployed.inputs),
                output_names=["probability", "score"],
                opset_version=OPSET,
                dynamo=False,
            )
            return (Path(folder) / "model.onnx").read_bytes(), deployed.inputs
    finally:
        unregister_custom_op_symbolic("aten::asinh", OPSET)
