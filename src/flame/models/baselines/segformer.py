"""SegFormer (Xie et al. 2021) with a MiT-B0 encoder, and its adaptations to spectra (Růžička & Markham 2025).

The adaptations, which the paper calls ConvUp (C, U) and ConvUpStride (C, U, S):

- C: a 1x1 convolution, channels kept, before each stage's patch embedding; before the first it mixes bands pixel by
  pixel at full resolution.
- U: a learned doubling of the resolution before the classifier.
- S: strides 2, 2, 2, 2 instead of 4, 2, 2, 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.baselines.layers import Upscale, resize_to

__all__ = ["Adaptations", "SegFormer"]

_WIDTHS = (32, 64, 160, 256)
_HEADS = (1, 2, 5, 8)
_REDUCTIONS = (8, 4, 2, 1)
_BLOCKS = 2
_WIDENING = 4
_DECODER = 256
_DROP_PATH = 0.1
_DROPOUT = 0.1
_START_SPREAD = 0.02


@dataclass(frozen=True)
class Adaptations:
    """Which of the three adaptations to spectra a vision transformer has.

    Attributes:
        convolve: C, 1x1 convolutions before the stages.
        upscale: U, a learned doubling before the classifier.
        finer: S, features at twice the resolution.
    """

    convolve: bool = False
    upscale: bool = False
    finer: bool = False


class _Attention(nn.Module):
    """Multi-head attention whose keys and values stand on a coarser grid."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.coarsen = nn.Conv2d(width, width, reduction, reduction) if reduction > 1 else None
        self.norm = nn.LayerNorm(width) if reduction > 1 else None

    def _split(self, tokens: Tensor) -> Tensor:
        batch, count, width = (int(n) for n in tokens.shape)
        return tokens.reshape(batch, count, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, tokens: Tensor, rows: int, cols: int) -> Tensor:
        batch, count, width = (int(n) for n in tokens.shape)
        context = tokens
        if self.coarsen is not None and self.norm is not None:
            image = tokens.transpose(1, 2).reshape(batch, width, rows, cols)
            context = self.norm(self.coarsen(image).flatten(2).transpose(1, 2))
        mixed = F.scaled_dot_product_attention(
            self._split(self.query(tokens)), self._split(self.key(context)), self._split(self.value(context))
        )
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, count, width))
        return out


class _Block(nn.Module):
    """Attention and a feed-forward layer with a 3x3 depthwise convolution inside, each beside a shortcut."""

    def __init__(self, width: int, heads: int, reduction: int, drop: float) -> None:
        super().__init__()
        hidden = _WIDENING * width
        self.norm1 = nn.LayerNorm(width)
        self.attention = _Attention(width, heads, reduction)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.narrow = nn.Linear(hidden, width)
        self.drop = drop

    def _kept(self, branch: Tensor) -> Tensor:
        """Stochastic depth: in training the branch of some samples is left out."""
        if not self.training or self.drop == 0.0:
            return branch
        keep = torch.rand(branch.shape[0], 1, 1, device=branch.device) >= self.drop
        return branch * keep / (1.0 - self.drop)

    def forward(self, tokens: Tensor, rows: int, cols: int) -> Tensor:
        tokens = tokens + self._kept(self.attention(self.norm1(tokens), rows, cols))
        hidden = self.widen(self.norm2(tokens)).transpose(1, 2)
        image = self.depthwise(hidden.reshape(int(hidden.shape[0]), int(hidden.shape[1]), rows, cols))
        return tokens + self._kept(self.narrow(F.gelu(image.flatten(2).transpose(1, 2))))


class _Stage(nn.Module):
    """Overlapping patches, then two blocks."""

    def __init__(self, channels: int, number: int, stride: int, convolve: bool) -> None:
        super().__init__()
        width = _WIDTHS[number]
        kernel = 7 if number == 0 else 3
        self.spectral = nn.Conv2d(channels, channels, 1) if convolve else nn.Identity()
        self.embed = nn.Conv2d(channels, width, kernel, stride, kernel // 2)
        self.norm = nn.LayerNorm(width)
        total = _BLOCKS * len(_WIDTHS) - 1
        drops = [_DROP_PATH * (_BLOCKS * number + block) / total for block in range(_BLOCKS)]
        self.blocks = nn.ModuleList(_Block(width, _HEADS[number], _REDUCTIONS[number], drop) for drop in drops)
        self.last_norm = nn.LayerNorm(width)

    def forward(self, field: Tensor) -> Tensor:
        patches = self.embed(self.spectral(field))
        batch, width, rows, cols = (int(n) for n in patches.shape)
        tokens = self.norm(patches.flatten(2).transpose(1, 2))
        for block in self.blocks:
            tokens = block(tokens, rows, cols)
        image: Tensor = self.last_norm(tokens).transpose(1, 2).reshape(batch, width, rows, cols)
        return image


class SegFormer(nn.Module):
    """Four stages, all brought to the first one's resolution by linear layers, fused and classified.

    Args:
        channels: Channels of the input.
        adaptations: Which adaptations to spectra it has.
    """

    stride = 32

    def __init__(self, channels: int, adaptations: Adaptations | None = None) -> None:
        super().__init__()
        kind = adaptations or Adaptations()
        widths = (channels, *_WIDTHS[:-1])
        first = 2 if kind.finer else 4
        self.stages = nn.ModuleList(
            _Stage(wide, number, 2 if number else first, kind.convolve) for number, wide in enumerate(widths)
        )
        self.unify = nn.ModuleList(nn.Conv2d(width, _DECODER, 1) for width in _WIDTHS)
        self.fuse = nn.Sequential(
            nn.Conv2d(_DECODER * len(_WIDTHS), _DECODER, 1, bias=False),
            nn.BatchNorm2d(_DECODER),
            nn.ReLU(),
            nn.Dropout(_DROPOUT),
        )
        self.upscale = Upscale(_DECODER) if kind.upscale else nn.Identity()
        self.logit = nn.Conv2d(_DECODER // 2 if kind.upscale else _DECODER, 1, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                nn.init.trunc_normal_(layer.weight, std=_START_SPREAD)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch 1 row col"]:
        """Plume logit, bilinear from the decoder's resolution; sides are multiples of 32."""
        features: list[Tensor] = []
        image = field
        for stage, unify in zip(self.stages, self.unify, strict=True):
            image = stage(image)
            features.append(resize_to(unify(image), features[0] if features else image))
        fused = self.fuse(torch.cat(features[::-1], 1))
        return resize_to(self.logit(self.upscale(fused)), field)
