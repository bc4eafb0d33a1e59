"""EfficientViT-B1 (Cai et al. 2023) for segmentation, and its adaptations to spectra (Růžička & Markham 2025).

Multi-scale linear attention: ReLU of queries and keys makes attention a product of small matrices, and keys gathered
from 5x5 neighbourhoods beside those of single pixels make it see several scales. The adaptations are those of
SegFormer: 1x1 convolutions before the stages, a learned doubling before the classifier, and a head at 1/4 instead of
1/8 of the resolution.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.baselines.layers import InvertedResidual, Upscale, conv_norm, resize_to, start_convolutions
from flame.models.baselines.segformer import Adaptations

__all__ = ["EfficientViT"]

_WIDTHS = (16, 32, 64, 128, 256)
_BLOCKS = (1, 2, 3, 3, 4)
_EXPANSION = 4
_HEAD_DIM = 16
_HEAD_WIDTH = 64
_HEAD_BLOCKS = 3
_TINY = 1e-15


class _LinearAttention(nn.Module):
    """Attention with ReLU instead of softmax, at the scale of a pixel and of 5x5 pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        triple = 3 * width
        self.project = nn.Conv2d(width, triple, 1, bias=False)
        self.gather = nn.Sequential(
            nn.Conv2d(triple, triple, 5, padding=2, groups=triple, bias=False),
            nn.Conv2d(triple, triple, 1, groups=triple // _HEAD_DIM, bias=False),
        )
        self.out = conv_norm(2 * width, width, 1, activation=None)

    def forward(self, field: Tensor) -> Tensor:
        batch, width, rows, cols = (int(n) for n in field.shape)
        pixels = self.project(field)
        both = torch.cat([pixels, self.gather(pixels)], 1).float()
        query, key, value = both.reshape(batch, -1, 3, _HEAD_DIM, rows * cols).unbind(2)
        query, key = F.relu(query), F.relu(key)
        # The product over pixels comes first, so nothing of size pixels x pixels is ever made.
        total = key.sum(-1, keepdim=True)
        mixed = (value @ key.transpose(2, 3)) @ query / (total.transpose(2, 3) @ query + _TINY)
        attended: Tensor = self.out(mixed.reshape(batch, 2 * width, rows, cols).to(field.dtype))
        return attended


class _BiasedResidual(nn.Module):
    """The inverted residual whose first two convolutions have a bias instead of a batch norm."""

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        hidden = _EXPANSION * channels_in
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, hidden, 1),
            nn.Hardswish(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden),
            nn.Hardswish(),
            conv_norm(hidden, channels, 1, activation=None),
        )

    def forward(self, field: Tensor) -> Tensor:
        filtered: Tensor = self.layers(field)
        return filtered


class _AttentionBlock(nn.Module):
    """Linear attention and a local filter, each beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.context = _LinearAttention(width)
        self.local = _BiasedResidual(width, width)

    def forward(self, field: Tensor) -> Tensor:
        field = field + self.context(field)
        local: Tensor = self.local(field)
        return field + local


def _residual(channels_in: int, channels: int, stride: int = 1, expansion: int = _EXPANSION) -> InvertedResidual:
    return InvertedResidual(channels_in, channels, expansion * channels_in, stride, nn.Hardswish)


def _stages(channels: int, convolve: bool) -> list[nn.Module]:
    """The stem and four stages, each halving the resolution."""
    stages: list[nn.Module] = []
    for number, (width, blocks) in enumerate(zip(_WIDTHS, _BLOCKS, strict=True)):
        wide = _WIDTHS[number - 1] if number else channels
        layers: list[nn.Module] = [nn.Conv2d(wide, wide, 1)] if convolve else []
        if number == 0:
            layers += [conv_norm(wide, width, 3, 2, activation=nn.Hardswish), _residual(width, width, expansion=1)]
        elif number < 3:
            layers += [_residual(wide, width, 2), *(_residual(width, width) for _ in range(blocks - 1))]
        else:
            layers += [_BiasedResidual(wide, width, 2), *(_AttentionBlock(width) for _ in range(blocks))]
        stages.append(nn.Sequential(*layers))
    return stages


class EfficientViT(nn.Module):
    """Encoder, and a head that adds the last three stages' features at one resolution.

    Args:
        channels: Channels of the input.
        adaptations: Which adaptations to spectra it has.
    """

    stride = 32

    def __init__(self, channels: int, adaptations: Adaptations | None = None) -> None:
        super().__init__()
        kind = adaptations or Adaptations()
        self.head_stride = 4 if kind.finer else 8
        self.stages = nn.ModuleList(_stages(channels, kind.convolve))
        self.unify = nn.ModuleList(conv_norm(width, _HEAD_WIDTH, 1, activation=None) for width in _WIDTHS[2:])
        self.middle = nn.Sequential(*(_residual(_HEAD_WIDTH, _HEAD_WIDTH) for _ in range(_HEAD_BLOCKS)))
        self.upscale = Upscale(_HEAD_WIDTH) if kind.upscale else nn.Identity()
        width = _HEAD_WIDTH // 2 if kind.upscale else _HEAD_WIDTH
        hidden = _EXPANSION * width
        self.logit = nn.Sequential(conv_norm(width, hidden, 1, activation=nn.Hardswish), nn.Conv2d(hidden, 1, 1))
        start_convolutions(self)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch 1 row col"]:
        """Plume logit, bilinear from the head's resolution; sides are multiples of 32."""
        image, features = field, []
        for stage in self.stages:
            image = stage(image)
            features.append(image)
        grid = features[1] if self.head_stride == 4 else features[2]
        joined = sum(
            resize_to(unify(feature), grid, "bicubic") for unify, feature in zip(self.unify, features[2:], strict=True)
        )
        return resize_to(self.logit(self.upscale(self.middle(joined))), field)
