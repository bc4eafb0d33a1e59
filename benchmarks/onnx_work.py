"""How much arithmetic and traffic a graph asks for, by part of the network."""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path

import onnx
from onnx import NodeProto

INPUTS = "lift and its inputs"
_HEAVY = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def part_of(name: str) -> str:
    """Part of the network that a node belongs to, by the module that the exporter wrote into its name."""
    for scope, part in (
        ("/spectral/", "spectral"),
        ("/unet/", "U-Nets"),
        ("/heads/", "heads and score"),
        ("/segmentation/", "segmentation"),
        ("/backbone/", "1x1, gates"),
    ):
        if scope in name:
            return part
    return INPUTS


def work_by_part(path: Path) -> tuple[Counter[str], Counter[str]]:
    """GFLOP (a multiply-add is two) and GB read and written once, of convolutions and matrix products."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph
    shapes = {i.name: tuple(i.dims) for i in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    for node in graph.node:
        if node.op_type == "Constant":
            shapes[node.output[0]] = tuple(node.attribute[0].t.dims)
    giga_flop, giga_bytes = Counter[str](), Counter[str]()
    for node in graph.node:
        if node.op_type in _HEAVY:
            part = part_of(node.name)
            giga_flop[part] += 1e-9 * _flop(node, shapes)
            giga_bytes[part] += 4e-9 * sum(prod(shapes[name]) for name in (*node.input[:2], node.output[0]))
    return giga_flop, giga_bytes


def _flop(node: NodeProto, shapes: dict[str, tuple[int, ...]]) -> float:
    first, second, out = (shapes[name] for name in (*node.input[:2], node.output[0]))
    if node.op_type == "Conv":
        return 2.0 * prod(out) * prod(second[1:])
    if node.op_type == "ConvTranspose":
        return 2.0 * prod(first) * prod(second[1:])
    return 2.0 * prod(out) * first[-1]
