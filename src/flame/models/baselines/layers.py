"""Layers that several baselines share."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["InvertedResidual", "Upscale", "conv_norm", "resize_to", "start_convolutions"]


def conv_norm(
    channels_in: int,
    channels: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution without bias, batch norm and, unless None, an activation; the size is kept at stride 1."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
    ]
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel by 3x3, narrow by 1x1 (Sandler et al. 2018); a shortcut where sizes agree.

    Args:
        channels_in: Channels of the input.
        channels: Channels of the output.
        hidden: Channels in between; without the first convolution if as many as come in.
        stride: Stride of the 3x3 convolution.
        activation: After the first two convolutions.
    """

    def __init__(
        self, channels_in: int, channels: int, hidden: int, stride: int, activation: type[nn.Module] = nn.ReLU6
    ) -> None:
        super().__init__()
        widen = [conv_norm(channels_in, hidden, 1, activation=activation)] if hidden != channels_in else []
        self.layers = nn.Sequential(
            *widen,
            conv_norm(hidden, hidden, 3, stride, hidden, activation),
            conv_norm(hidden, channels, 1, activation=None),
        )
        self.shortcut = stride == 1 and channels_in == channels

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channels rows cols"]:
        """The filtered field, added to the input if it has the same shape."""
        filtered: Tensor = self.layers(field)
        return field + filtered if self.shortcut else filtered


class Upscale(nn.Module):
    """Learned doubling of the resolution at half the channels (Růžička & Markham 2025, "Up").

    Nearest neighbour, then twice 3x3 convolution, ReLU and batch norm in this order.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.layers = nn.Sequential(
            nn.Upsample(scale_factor=2.0, mode="nearest"),
            nn.Conv2d(channels, half, 3, padding=1),
            nn.ReLU(),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 3, padding=1),
            nn.ReLU(),
            nn.BatchNorm2d(half),
        )

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch half rows cols"]:
        """The field at twice the size."""
        upscaled: Tensor = self.layers(field)
        return upscaled


def resize_to(field: Tensor, like: Tensor, mode: str = "bilinear") -> Tensor:
    """The field at the size of another, pixel centres aligned."""
    rows, cols = (int(side) for side in like.shape[-2:])
    if (rows, cols) == tuple(int(side) for side in field.shape[-2:]):
        return field
    return F.interpolate(field, (rows, cols), mode=mode, align_corners=False)


def start_convolutions(network: nn.Module) -> None:
    """Random start that keeps the scale of features through convolutions with ReLU (He et al. 2015)."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
