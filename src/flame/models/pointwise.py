"""1x1 convolution as one matrix product a tile, without the copies of the general routine."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["pointwise"]

_CHUNK_PIXELS = 8192


class _Pointwise(torch.autograd.Function):
    """The gradient of the weight is summed over short runs of pixels: BLAS is slow on one product as long as a tile."""

    @staticmethod
    def forward(ctx: Any, field: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(field, weight)
        return torch.baddbmm(bias[:, None], weight.expand(field.shape[0], -1, -1), field)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        field, weight = ctx.saved_tensors
        d_weight = torch.zeros_like(weight)
        for number, (tile_grad, tile) in enumerate(zip(grad, field, strict=True)):
            own = d_weight[number % weight.shape[0]]
            for start in range(0, field.shape[2], _CHUNK_PIXELS):
                part = slice(start, start + _CHUNK_PIXELS)
                own.addmm_(tile_grad[:, part], tile[:, part].T)
        d_field = torch.bmm(weight.mT.expand(grad.shape[0], -1, -1), grad) if ctx.needs_input_grad[0] else None
        return d_field, d_weight, grad.sum((0, 2))


def pointwise(
    field: Float[Tensor, "batch channel row col"],
    weight: Float[Tensor, "*tile width channel"],
    bias: Float[Tensor, " width"],
) -> Float[Tensor, "batch width row col"]:
    """`weight @ field + bias` at each pixel; the weight is one for all tiles, or one for each."""
    own = weight.ndim == 3 and int(weight.shape[0]) > 1
    if torch.onnx.is_in_onnx_export():  # a Conv would have the engine reorder all bands of the field first
        same = weight if own or weight.ndim == 2 else weight[0]
        return (same @ field.flatten(2) + bias[:, None]).reshape(int(field.shape[0]), -1, *field.shape[2:])
    # Where half the digits are asked for, the general routine has them and is the faster one.
    halved = torch.is_autocast_enabled("cpu") and len(weight) > 0
    if (field.device.type != "cpu" or halved) and not own:
        return F.conv2d(field, weight.reshape(*weight.shape[-2:], 1, 1), bias)
    product: Tensor = _Pointwise.apply(  # type: ignore[no-untyped-call]
        field.flatten(2), weight if weight.ndim == 3 else weight[None], bias
    )
    return product.reshape(field.shape[0], -1, *field.shape[2:])
