"""A trained FLAME as an ONNX graph: everything learned, with whitening and batch norms folded, and nothing else.

The graph starts at the first learned weight. What comes before is `flame.prepare`'s, and the graph's inputs are its
fields, by name. It has a fixed tile size and is made of matrix products, convolutions, reductions and elementwise
operators only.

Spectra come in blocks of rows, (block, band, row, col): each block is one stretch of memory, so that the band-wide
fields of the heads exist for one block at a time and no engine has to reorder or copy the whole cube.
"""

from __future__ import annotations

import copy

import onnx
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from flame.models.backbones.ufno import OperatorBlock
from flame.models.flame import Flame
from flame.models.heads import leaky_clamp
from flame.models.onnx_graph import refuse_complex, traced

__all__ = ["OPSET", "ROW_BLOCK", "DeployedFlame", "fold_batch_norms", "shared_constants", "to_onnx"]

OPSET = 17
"""Accepted by onnxruntime from 1.13, OpenVINO from 2022.3 and TensorRT from 8.5."""

ROW_BLOCK = 16
"""Rows of a block of spectra: of a 512-pixel tile 2.4 MB, which a core's cache nearly holds."""


class DeployedFlame(nn.Module):
    """FLAME from prepared fields on, for one tile.

    Args:
        model: A trained network; it is copied.
        tile: Side of the tile, in pixels.

    Attributes:
        inputs: Names of what `forward` takes, in order.
        row_block: Rows of a block of spectra.
    """

    def __init__(self, model: Flame, tile: int) -> None:
        super().__init__()
        self.flame = copy.deepcopy(model).eval().requires_grad_(False)
        fold_batch_norms(self.flame)
        for block in self.flame.backbone.modules():
            if isinstance(block, OperatorBlock):
                block.merge_pointwise()
        weight, bias = (tensor.detach().clone() for tensor in self.flame.folded_lift())
        self.flame.folded_lift = lambda: (weight, bias)  # type: ignore[method-assign]
        self.tile = tile
        self.row_block = ROW_BLOCK if tile % ROW_BLOCK == 0 else tile
        self.inputs = model.settings.inputs

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Probability and score / tau, both (1, row, col), from the inputs in the order of `inputs`."""
        given = dict(zip(self.inputs, tensors, strict=True))
        flame, kind = self.flame, self.flame.settings
        coordinates = flame.coordinates(given)
        fields = self._blocks(given["pixel_fields"]) if "pixel_fields" in given else None
        z = flame.backbone(self._image(flame.lifted(coordinates, fields)))
        parts, score = [z], torch.zeros_like(z[:, 0])
        if flame.heads is not None:
            scored = flame.heads(coordinates.scored, self._blocks(z), coordinates.direction)
            score = scored.reshape(1, self.tile, self.tile) / kind.tau_ppm_m
            parts.append(leaky_clamp(score, kind.tau_max, 0.0)[:, None])
        if "rgb" in given:
            parts.append(given["rgb"])
        return torch.sigmoid(flame.segmentation(torch.cat(parts, 1))), score

    def _blocks(self, image: Float[Tensor, "1 channel row col"]) -> Float[Tensor, "block channel rows col"]:
        shape = (int(image.shape[1]), self.tile // self.row_block, self.row_block, self.tile)
        return image.reshape(shape).transpose(0, 1)

    def _image(self, blocks: Float[Tensor, "block channel rows col"]) -> Float[Tensor, "1 channel row col"]:
        return blocks.transpose(0, 1).reshape(1, int(blocks.shape[1]), self.tile, self.tile)

    def example(self) -> tuple[Tensor, ...]:
        """Inputs of the right shapes."""
        kind, tile = self.flame.settings, self.tile
        bands, fields = kind.bands, len(kind.prepare.pixel_fields)
        spectra = (tile // self.row_block, bands, self.row_block, tile)
        shapes = {
            "log_radiance": spectra,
            "whitened": spectra,
            "target": (1, bands),
            "unwhitening": (1, bands, bands),
            "background_mean": (1, bands),
            "whitening": (1, bands, bands),
            "pixel_fields": (1, fields, tile, tile),
            "rgb": (1, 3, tile, tile),
        }
        return tuple(torch.zeros(shapes[name]) for name in self.inputs)


def fold_batch_norms(module: nn.Module) -> None:
    """Folds each batch norm of a sequence into the convolution before it, in place."""
    for child in module.children():
        fold_batch_norms(child)
    if not isinstance(module, nn.Sequential):
        return
    for number in range(len(module) - 1):
        conv, norm = module[number], module[number + 1]
        if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            module[number], module[number + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()


def to_onnx(model: Flame, tile: int) -> tuple[bytes, DeployedFlame]:
    """The graph for one tile size, and the network it was traced from; outputs are `probability` and `score`.

    Args:
        model: A trained network.
        tile: Side of the tile, in pixels.
    """
    refuse_complex(model)
    deployed = DeployedFlame(model, tile)
    graph = traced(deployed, deployed.example(), deployed.inputs, ("probability", "score"), OPSET)
    return shared_constants(graph), deployed


def shared_constants(content: bytes) -> bytes:
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
