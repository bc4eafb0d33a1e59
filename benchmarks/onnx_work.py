"""How much arithmetic a graph asks for, by part of the network."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
from onnx import NodeProto

PARTS = ("whitening", "lift", "spectral", "U-Nets", "heads and score", "segmentation", "gates and others")


def part_of(name: str) -> str:
    """Part of the network that a node belongs to, by the module that the exporter wrote into its name."""
    for scope, part in (
        ("/spectral/", "spectral"),
        ("/unet/", "U-Nets"),
        ("/heads/", "heads and score"),
        ("/segmentation/", "segmentation"),
        ("/backbone/", "gates and others"),
    ):
        if scope in name:
            return part
    return "lift" if "Conv" in name else "whitening"


def giga_flop_by_part(path: Path) -> Counter[str]:
    """GFLOP of convolutions and matrix products, a multiply-add being two."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph
    shapes = {i.name: tuple(i.dims) for i in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    for node in graph.node:
        if node.op_type == "Constant":
            shapes[node.output[0]] = tuple(node.attribute[0].t.dims)
    work: Counter[str] = Counter()
    for node in graph.node:
        work[part_of(node.name)] += 1e-9 * _flop(node, shapes)
    return work


def giga_flop(path: Path) -> float:
    """GFLOP of one tile."""
    return sum(giga_flop_by_part(path).values())


def _flop(node: NodeProto, shapes: dict[str, tuple[int, ...]]) -> float:
    if node.op_type not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        return 0.0
    first, second, out = (shapes[name] for name in (*node.input[:2], node.output[0]))
    if node.op_type == "Conv":
        return 2.0 * _size(out) * _size(second[1:])
    if node.op_type == "ConvTranspose":
        return 2.0 * _size(first) * _size(second[1:])
    return 2.0 * _size(out) * first[-1]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
