"""ResNet-18 encoder (He et al. 2016)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.baselines.layers import conv_norm
from flame.models.baselines.mobilenet import Encoder

__all__ = ["resnet18"]


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            conv_norm(channels_in, channels, 3, stride), conv_norm(channels, channels, activation=None)
        )
        same = stride == 1 and channels_in == channels
        self.shortcut = nn.Identity() if same else conv_norm(channels_in, channels, 1, stride, activation=None)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channels rows cols"]:
        """ReLU of the sum of both."""
        return F.relu(self.layers(field) + self.shortcut(field))


def resnet18(channels: int) -> Encoder:
    """ResNet-18: features of 64, 64, 128, 256 and 512 channels.

    Args:
        channels: Channels of the input.
    """

    def stage(wide: int, out: int, stride: int) -> list[nn.Module]:
        return [_BasicBlock(wide, out, stride), _BasicBlock(out, out, 1)]

    stages: list[nn.Module] = [
        conv_norm(channels, 64, 7, 2),
        nn.Sequential(nn.MaxPool2d(3, 2, 1), *stage(64, 64, 1)),
        nn.Sequential(*stage(64, 128, 2)),
        nn.Sequential(*stage(128, 256, 2)),
        nn.Sequential(*stage(256, 512, 2)),
    ]
    return Encoder(stages, (64, 64, 128, 256, 512))
