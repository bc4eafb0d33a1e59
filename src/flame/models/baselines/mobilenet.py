"""MobileNet encoders: MobileNetV2 (Sandler et al. 2018) and MobileNetV3-small "minimal" (Howard et al. 2019)."""

from __future__ import annotations

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from flame.models.baselines.layers import InvertedResidual, conv_norm

__all__ = ["Encoder", "mobilenet_v2", "mobilenet_v3_small_minimal"]


class Encoder(nn.Module):
    """Stages one after the other, each halving the resolution; gives the features of every stage.

    Args:
        stages: The stages.
        channels: Channels after each.
    """

    def __init__(self, stages: list[nn.Module], channels: tuple[int, ...]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.channels = channels

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> list[Tensor]:
        """Features at 1/2, 1/4, ... of the resolution."""
        features = []
        for stage in self.stages:
            field = stage(field)
            features.append(field)
        return features


def mobilenet_v2(channels: int) -> Encoder:
    """MobileNetV2 of width 1: features of 16, 24, 32, 96 and 1280 channels.

    Args:
        channels: Channels of the input.
    """
    # Expansion, channels, blocks, stride of the first: table 2 of the paper.
    table = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    blocks: list[nn.Module] = []
    wide = 32
    for expansion, out, count, first_stride in table:
        for number in range(count):
            blocks.append(InvertedResidual(wide, out, expansion * wide, first_stride if number == 0 else 1))
            wide = out
    stem = conv_norm(channels, 32, 3, 2, activation=nn.ReLU6)
    last = conv_norm(wide, 1280, 1, activation=nn.ReLU6)
    ends = (0, 1, 3, 6, 13, 17)
    stages: list[nn.Module] = [nn.Sequential(*blocks[a:b]) for a, b in pairwise(ends)]
    stages[0] = nn.Sequential(stem, *blocks[:1])
    stages[-1] = nn.Sequential(*blocks[13:], last)
    return Encoder(stages, (16, 24, 32, 96, 1280))


def mobilenet_v3_small_minimal(channels: int) -> Encoder:
    """MobileNetV3-small without squeeze-excite, 5x5 kernels and hard swish: features of 16, 16, 24, 48, 576 channels.

    Args:
        channels: Channels of the input.
    """

    def block(wide: int, out: int, hidden: int, stride: int = 1) -> InvertedResidual:
        return InvertedResidual(wide, out, hidden, stride, nn.ReLU)

    stages: list[nn.Module] = [
        conv_norm(channels, 16, 3, 2),
        block(16, 16, 16, 2),
        nn.Sequential(block(16, 24, 72, 2), block(24, 24, 88)),
        nn.Sequential(
            block(24, 40, 96, 2), block(40, 40, 240), block(40, 40, 240), block(40, 48, 120), block(48, 48, 144)
        ),
        nn.Sequential(block(48, 96, 288, 2), block(96, 96, 576), block(96, 96, 576), conv_norm(96, 576, 1)),
    ]
    return Encoder(stages, (16, 16, 24, 48, 576))
