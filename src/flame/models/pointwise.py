"""1x1 convolution as one matrix product a tile, without the copies of the general routine."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

__all__ = ["pointwise"]


def pointwise(
    field: Float[Tensor, "batch channel row col"],
    weight: Float[Tensor, "width channel"],
    bias: Float[Tensor, " width"] | None,
) -> Float[Tensor, "batch width row col"]:
    """`weight @ field + bias` at each pixel; an exported graph gets a Conv, which its runtime knows best."""
    if torch.onnx.is_in_onnx_export():
        return F.conv2d(field, weight[:, :, None, None], bias)
    batch, _, rows, cols = field.shape
    shared = weight.expand(batch, -1, -1)
    flat = field.flatten(2)
    product = torch.bmm(shared, flat) if bias is None else torch.baddbmm(bias[:, None], shared, flat)
    return product.reshape(batch, -1, rows, cols)
