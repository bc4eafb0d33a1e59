"""U-FNO on a grid twice as coarse, with the lifted field beside it at full resolution.

A neural operator has the same weights on every grid (Kovachki et al. 2023). Its Fourier layers keep wavelengths of
dozens of pixels, so hardly anything of theirs is lost on a grid of half the resolution, where every layer costs a
quarter. What only a single pixel knows, its spectrum, reaches the heads by a 1x1 convolution of the lifted field.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.backbones.ufno import UFno
from flame.models.pointwise import pointwise

__all__ = ["CoarseUFno"]

_STEP = 2


class CoarseUFno(nn.Module):
    """2 x 2 pixels to one, `UFno`, and back, added to a 1x1 convolution of the field.

    Starts with means of 2 x 2 pixels on the way down, copies on the way back, and the field itself beside them.

    Args:
        channels: Width d of the lifted field and of the features.
        modes: Fourier modes kept per axis.
    """

    def __init__(self, channels: int = 14, modes: int = 12) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, channels, _STEP, _STEP)
        self.operator = UFno(channels, modes)
        self.up = nn.ConvTranspose2d(channels, channels, _STEP, _STEP)
        self.beside = nn.Conv2d(channels, channels, 1, bias=False)
        unit = torch.eye(channels)[:, :, None, None]
        with torch.no_grad():
            for layer, start in ((self.down, unit / _STEP), (self.up, unit), (self.beside, unit)):
                layer.weight.copy_(start.expand_as(layer.weight))
        for layer in (self.down, self.up):
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features z of eq:backbone; sides that are odd are edge-padded."""
        rows, cols = field.shape[-2:]
        even = field
        if rows % _STEP or cols % _STEP:
            even = F.pad(field, (0, -cols % _STEP, 0, -rows % _STEP), mode="replicate")
        coarse: Tensor = self.up(self.operator(self.down(even)))[..., :rows, :cols]
        bias = torch.zeros_like(self.down.bias)  # type: ignore[arg-type]
        return coarse + pointwise(field, self.beside.weight[:, :, 0, 0], bias)
