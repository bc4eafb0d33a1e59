"""A U-Net whose full resolution is only entered and left: everything between happens on coarser grids.

Unlike Fourier layers and channel gates it looks no further than its own reach, so it means the same on fields of any
size, and a whole tile is done at once. The lifted field reaches the heads by a 1x1 convolution.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.pointwise import pointwise

__all__ = ["STRIDE", "UNet"]

_LEAK = 0.1
_WIDTHS = (1.5, 2.0, 3.0, 3.0)
STRIDE = 2 ** len(_WIDTHS)
"""Sides must be multiples of this; `UNet` pads others."""


def _level(channels_in: int, channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for given, stride in ((channels_in, 2), (channels, 1)):
        layers += [
            nn.Conv2d(given, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.LeakyReLU(_LEAK, inplace=True),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels down, each half as fine, and up again, beside a 1x1 convolution of the field.

    Args:
        channels: Width of the lifted field and of the features; the levels have 1.5, 2, 3 and 3 times as many.
    """

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        widths = [channels, *(int(times * channels) for times in _WIDTHS)]
        self.down = nn.ModuleList(_level(given, own) for given, own in pairwise(widths))
        self.up = nn.ModuleList()
        for number in range(len(_WIDTHS), 0, -1):
            given = widths[number] * (1 if number == len(_WIDTHS) else 2)
            self.up.append(nn.ConvTranspose2d(given, widths[number - 1], 4, 2, 1))
        self.beside = nn.Conv2d(channels, channels, 1, bias=False)
        with torch.no_grad():
            self.beside.weight.copy_(torch.eye(channels)[:, :, None, None])

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the field; sides that are no multiple of `STRIDE` are edge-padded."""
        rows, cols = field.shape[-2:]
        even = field
        if rows % STRIDE or cols % STRIDE:
            even = F.pad(field, (0, -cols % STRIDE, 0, -rows % STRIDE), mode="replicate")
        levels = []
        for down in self.down:
            even = down(even)
            levels.append(even)
        z: Tensor = levels.pop()
        for number, up in enumerate(self.up):
            if number:
                z = torch.cat([z, levels.pop()], 1)
            z = up(z)
            if number + 1 < len(self.up):
                z = F.leaky_relu(z, _LEAK)
        bias = torch.zeros(len(self.beside.weight), dtype=field.dtype, device=field.device)
        beside: Tensor = pointwise(field, self.beside.weight[:, :, 0, 0], bias)
        return z[..., :rows, :cols] + beside
