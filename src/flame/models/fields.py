"""From radiance and a validity mask to a log-radiance field without holes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["FLOOR_SHARE", "LEVEL_STEP", "fill_invalid", "floored_log", "usable_pixels"]

FLOOR_SHARE = 0.005
"""Radiance below this share of the tile's level is taken as this before the logarithm: about the read-out noise. The
level is the tile's own, so that an instrument's gain has no influence."""

LEVEL_STEP = 8
"""The level is found on every 8th pixel of every 8th row."""

_FILL_BLOCK = 16


def usable_pixels(
    radiance: Float[Tensor, "batch band row col"], valid: Bool[Tensor, "batch row col"]
) -> Bool[Tensor, "batch row col"]:
    """Valid pixels whose every band is finite: a NaN that slipped past a reader stays where it is."""
    return valid & radiance.sum(1).isfinite()


def fill_invalid(
    field: Float[Tensor, "batch channel row col"], usable: Bool[Tensor, "batch row col"]
) -> Float[Tensor, "batch channel row col"]:
    """The field with each unusable pixel replaced by the mean of the usable ones near it.

    Near means in the same block of 16 x 16 pixels; where a block has none, the tile's mean stands in. What is stored
    under an unusable pixel is never read.
    """
    if bool(usable.all()):
        return field
    seen = usable[:, None]
    kept = torch.where(seen, field, torch.zeros((), dtype=field.dtype, device=field.device))
    weight = seen.to(field.dtype)
    rows, cols = field.shape[-2:]
    pad = (0, -cols % _FILL_BLOCK, 0, -rows % _FILL_BLOCK)
    block_sum = F.avg_pool2d(F.pad(kept, pad), _FILL_BLOCK)
    block_weight = F.avg_pool2d(F.pad(weight, pad), _FILL_BLOCK)
    tile_mean = kept.sum((2, 3), keepdim=True) / weight.sum((2, 3), keepdim=True).clamp_min(1)
    block_mean = torch.where(block_weight > 0, block_sum / block_weight.clamp_min(1e-9), tile_mean)
    near = F.interpolate(block_mean, scale_factor=float(_FILL_BLOCK), mode="nearest")[..., :rows, :cols]
    return torch.where(seen, field, near)


def floored_log(
    radiance: Float[Tensor, "batch band row col"], usable: Bool[Tensor, "batch row col"]
) -> Float[Tensor, "batch band row col"]:
    """Natural logarithm of radiance, holes filled from their neighbourhood."""
    floor = FLOOR_SHARE * _level(radiance, usable)
    return fill_invalid(torch.maximum(radiance, floor[:, None, None, None]).log_(), usable)


def _level(radiance: Tensor, usable: Tensor) -> Float[Tensor, " batch"]:
    """Median over the pixels of a grid of their mean radiance; of all pixels if the grid has no usable one."""
    for step in (LEVEL_STEP, 1):
        grid = (..., slice(None, None, step), slice(None, None, step))
        mean = torch.where(usable[grid], radiance[grid].mean(1), torch.nan).flatten(1)
        if bool(mean.isfinite().any(1).all()):
            break
    return mean.nanmedian(1).values.nan_to_num(1.0).clamp_min(1e-9)
