"""A trained FLAME as an ONNX graph: everything learned, with whitening and batch norms folded, and nothing else.

What has no learned weight stays outside; the runtime does it in NumPy (`flame.onboard`): logarithm, hole filling, and
for models that whiten by the tile's own background also the whitening and the statistics of its pixels. The graph has a
fixed tile size, is made of matrix products, convolutions, reductions and elementwise operators only, and takes those of
the inputs of `DeployedFlame.inputs` that the model needs.

Spectra come in blocks of rows, (block, band, row, col): each block is one stretch of memory, so that the band-wide
fields of the heads exist for one block at a time and no engine has to reorder or copy the whole cube.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.onnx import register_custom_op_symbolic, unregister_custom_op_symbolic  # type: ignore[attr-defined]

from flame.models.backbones.ufno import OperatorBlock
from flame.models.conditioning import Background
from flame.models.flame import Conditioned, Flame, per_ppm_m
from flame.models.heads import leaky_clamp
from flame.models.noise_inputs import PixelStatistics, noise_inputs, noise_ppm_m
from flame.models.onnx_graph import refuse_complex

__all__ = ["OPSET", "ROW_BLOCK", "DeployedFlame", "to_onnx"]

OPSET = 17
"""Accepted by onnxruntime from 1.13, OpenVINO from 2022.3 and TensorRT from 8.5."""

ROW_BLOCK = 16
"""Rows of a block of spectra: of a 512-pixel tile 2.4 MB, which a core's cache nearly holds."""


@dataclass(frozen=True, eq=False)
class _GivenStatistics(PixelStatistics):
    """`PixelStatistics` that the runtime has made: channels response, power, brightness, steps (last column unused)."""

    fields: Float[Tensor, "1 4 row col"]
    target: Float[Tensor, "1 band"]

    @property
    def ppm_m(self) -> Tensor:
        return noise_ppm_m(self.target)

    @property
    def response(self) -> Tensor:
        return self.fields[:, 0]

    @property
    def power(self) -> Tensor:
        return self.fields[:, 1]

    @property
    def brightness(self) -> Tensor:
        return self.fields[:, 2]

    @property
    def steps(self) -> Tensor:
        return self.fields[:, 3, :, :-1]


class DeployedFlame(nn.Module):
    """FLAME from log-radiance or whitened log-radiance on, for one tile.

    Args:
        model: A trained network; it is copied.
        tile: Side of the tile, in pixels.

    Attributes:
        inputs: Names of what `forward` takes, in order.
        row_block: Rows of a block of spectra; the tile's where something needs a pixel's neighbours in other blocks.
    """

    def __init__(self, model: Flame, tile: int) -> None:
        super().__init__()
        self.flame = copy.deepcopy(model).eval().requires_grad_(False)
        _fold_batch_norms(self.flame)
        for block in self.flame.backbone.modules():
            if isinstance(block, OperatorBlock):
                block.merge_pointwise()
        weight, bias = (tensor.detach().clone() for tensor in self.flame.folded_lift())
        self.flame.folded_lift = lambda: (weight, bias)  # type: ignore[method-assign]
        kind = model.settings
        per_tile = kind.conditioning == "tile"
        whitened = per_tile and (kind.score_space == "whitened" or kind.score == "none")
        in_blocks = whitened or not (per_tile or kind.noise_inputs)
        self.tile = tile
        self.row_block = ROW_BLOCK if in_blocks and tile % ROW_BLOCK == 0 else tile
        self.inputs: tuple[str, ...] = ("whitened", "target") if whitened else ("log_radiance",)
        if kind.rgb != "none":
            self.inputs += ("rgb",)
        if per_tile and not whitened:
            self.inputs += ("background_mean", "whitening")
        if whitened and kind.lift_space == "training":
            self.inputs += ("unwhitening",)
        if whitened and kind.noise_inputs:
            self.inputs += ("statistics",)
        elif "brightness" in kind.noise_inputs:
            self.inputs += ("brightness_median",)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Probability and score / tau, both (1, row, col), from the inputs in the order of `inputs`."""
        given = dict(zip(self.inputs, tensors, strict=True))
        flame, kind = self.flame, self.flame.settings
        inputs = self._conditioned(given)
        z = flame.backbone(self._image(flame.lifted(inputs)))
        parts, score = [z], torch.zeros_like(z[:, 0])
        if flame.heads is not None:
            scored = flame.heads(inputs.scored, self._blocks(z), inputs.direction)
            score = scored.reshape(1, self.tile, self.tile) / kind.tau_ppm_m
            parts.append(leaky_clamp(score, kind.tau_max, 0.0)[:, None])
        if "rgb" in given:
            parts.append(given["rgb"])
        return torch.sigmoid(flame.segmentation(torch.cat(parts, 1))), score

    def _conditioned(self, given: Mapping[str, Tensor]) -> Conditioned:
        """What `Flame.condition` gives, but RGB; spectra and extra inputs in blocks."""
        flame = self.flame
        if "whitened" not in given:
            background = Background(
                given.get("background_mean", flame.mean[None]), given.get("whitening", flame.whitening[None])
            )
            return flame.in_coordinates(given["log_radiance"], background, None, given.get("brightness_median"))
        white, target, extra = given["whitened"], given["target"], None
        if "statistics" in given:
            statistics = _GivenStatistics(given["statistics"], target)
            extra = self._blocks(noise_inputs(statistics, flame.settings.noise_inputs))
        basis = flame.whitening @ given["unwhitening"][0] if "unwhitening" in given else None
        return Conditioned(white, extra, white, per_ppm_m(target).expand(int(white.shape[0]), -1), None, basis)

    def _blocks(self, image: Float[Tensor, "1 channel row col"]) -> Float[Tensor, "block channel rows col"]:
        shape = (int(image.shape[1]), self.tile // self.row_block, self.row_block, self.tile)
        return image.reshape(shape).transpose(0, 1)

    def _image(self, blocks: Float[Tensor, "block channel rows col"]) -> Float[Tensor, "1 channel row col"]:
        return blocks.transpose(0, 1).reshape(1, int(blocks.shape[1]), self.tile, self.tile)

    def example(self) -> tuple[Tensor, ...]:
        """Inputs of the right shapes."""
        bands, tile = self.flame.settings.bands, self.tile
        shapes = {
            "log_radiance": (tile // self.row_block, bands, self.row_block, tile),
            "whitened": (tile // self.row_block, bands, self.row_block, tile),
            "target": (1, bands),
            "statistics": (1, 4, tile, tile),
            "rgb": (1, 3, tile, tile),
            "background_mean": (1, bands),
            "whitening": (1, bands, bands),
            "unwhitening": (1, bands, bands),
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
    """In operators that engines have vectorised, which Asinh itself is not."""
    size = graph.op("Abs", value)
    one = graph.op("Constant", value_t=torch.tensor(1.0))
    root = graph.op("Sqrt", graph.op("Add", graph.op("Mul", value, value), one))
    return graph.op("Mul", graph.op("Sign", value), graph.op("Log", graph.op("Add", size, root)))


def to_onnx(model: Flame, tile: int) -> tuple[bytes, DeployedFlame]:
    """The graph for one tile size, and the network it was traced from; outputs are `probability` and `score`.

    Args:
        model: A trained network.
        tile: Side of the tile, in pixels.
    """
    refuse_complex(model)
    deployed = DeployedFlame(model, tile)
    register_custom_op_symbolic("aten::asinh", _asinh, OPSET)
    try:
        with warnings.catch_warnings(), TemporaryDirectory() as folder:
            # Sizes become constants on purpose, and the tracing exporter is meant: the other one needs another package.
            warnings.simplefilter("ignore", TracerWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", "Constant folding")
            torch.onnx.export(
                deployed,
                deployed.example(),
                Path(folder) / "model.onnx",
                input_names=list(deployed.inputs),
                output_names=["probability", "score"],
                opset_version=OPSET,
                dynamo=False,
            )
            return _shared_constants((Path(folder) / "model.onnx").read_bytes()), deployed
    finally:
        unregister_custom_op_symbolic("aten::asinh", OPSET)


def _shared_constants(content: bytes) -> bytes:
    """The graph with equal constants stored once: the transform's matrices are those of all spectral layers."""
    model = onnx.load_from_string(content)
    graph = model.graph
    first: dict[bytes, str] = {}
    renamed: dict[str, str] = {}
    for node in [node for node in graph.node if node.op_type == "Constant"]:
        tensor, name = node.attribute[0].t, node.output[0]
        tensor.name = ""
        key = tensor.SerializeToString()
        renamed[name] = first.setdefault(key, name)
        if renamed[name] != name:
            graph.node.remove(node)
    for node in graph.node:
        for number, name in enumerate(node.input):
            node.input[number] = renamed.get(name, name)
    shared: bytes = model.SerializeToString()
    return shared
