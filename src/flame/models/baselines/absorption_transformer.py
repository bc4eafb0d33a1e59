"""A small transformer whose queries are refined by methane's absorption, after MethaneMapper (Kumar et al. 2023).

A re-creation of the idea, not of the network: MethaneMapper's weights are withheld and it is many times larger. Kept
are its three parts: candidates from a spectral matched filter beside the image's own features, queries refined by these
candidates, and a mask read off what the queries attend to. It is no row of the paper's tables.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.baselines.layers import conv_norm, start_convolutions

__all__ = ["AbsorptionTransformer"]

_WIDTHS = (32, 64, 128)
_WIDTH = _WIDTHS[-1]
_HEADS = 4
_LAYERS = 2
_QUERIES = 16
_LONGEST_PIXELS = 1000.0


class _Attention(nn.Module):
    """Attention of some tokens to others and a feed-forward layer, each beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.query, self.out = nn.Linear(_WIDTH, _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.key_value = nn.Linear(_WIDTH, 2 * _WIDTH)
        self.feed = nn.Sequential(nn.Linear(_WIDTH, 2 * _WIDTH), nn.GELU(), nn.Linear(2 * _WIDTH, _WIDTH))

    def forward(self, tokens: Tensor, context: Tensor) -> Tensor:
        key, value = self.key_value(context).chunk(2, -1)
        mixed = F.scaled_dot_product_attention(_split(self.query(self.norm1(tokens))), _split(key), _split(value))
        tokens = tokens + self.out(mixed.transpose(1, 2).reshape(int(tokens.shape[0]), -1, _WIDTH))
        fed: Tensor = self.feed(self.norm2(tokens))
        return tokens + fed


def _split(tokens: Tensor) -> Tensor:
    batch, count, width = (int(n) for n in tokens.shape)
    return tokens.reshape(batch, count, _HEADS, width // _HEADS).transpose(1, 2)


def _places(rows: int, cols: int, device: torch.device) -> Float[Tensor, "place width"]:
    """Sines and cosines of each token's row and column, at wavelengths of a few to a thousand pixels."""
    pace = _LONGEST_PIXELS ** (-torch.arange(_WIDTH // 4, device=device) / (_WIDTH // 4))
    row, col = (torch.arange(n, device=device)[:, None] * pace for n in (rows, cols))
    along_rows = torch.cat([row.sin(), row.cos()], 1)[:, None].expand(-1, cols, -1)
    along_cols = torch.cat([col.sin(), col.cos()], 1)[None].expand(rows, -1, -1)
    return torch.cat([along_rows, along_cols], 2).flatten(0, 1)


def _stem(channels: int) -> nn.ModuleList:
    widths = (channels, *_WIDTHS)
    return nn.ModuleList(
        nn.Sequential(conv_norm(widths[n], widths[n + 1], 3, 2), conv_norm(widths[n + 1], widths[n + 1]))
        for n in range(len(_WIDTHS))
    )


class AbsorptionTransformer(nn.Module):
    """Image and candidates to tokens at 1/8 of the resolution, attention, and a mask on the way back.

    Args:
        channels: Channels of the input; the last is the map of a matched filter.
    """

    stride = 8

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.spectral = conv_norm(channels, _WIDTHS[0], 1)
        self.image = _stem(_WIDTHS[0])
        self.candidates = _stem(1)
        self.queries = nn.Parameter(torch.randn(1, _QUERIES, _WIDTH))
        self.encoder = nn.ModuleList(_Attention() for _ in range(_LAYERS))
        self.refiner = _Attention()
        self.decoder = nn.ModuleList(_Attention() for _ in range(_LAYERS))
        wide, middle, narrow = _WIDTHS[::-1]
        skips = ((wide + _QUERIES, middle), (2 * middle, narrow), (2 * narrow, narrow))
        self.back = nn.ModuleList(conv_norm(channels_in, out) for channels_in, out in skips)
        self.logit = nn.Conv2d(2 * narrow, 1, 1)
        start_convolutions(self)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch 1 row col"]:
        """Plume logit; sides are multiples of 8."""
        image, candidates = self.spectral(field), field[:, -1:]
        skips = [image]
        for stage, beside in zip(self.image, self.candidates, strict=True):
            image, candidates = stage(image), beside(candidates)
            skips.append(image)
        rows, cols = (int(n) for n in image.shape[-2:])
        places = _places(rows, cols, field.device)
        tokens, found = (each.flatten(2).transpose(1, 2) + places for each in (skips.pop(), candidates))
        for layer in self.encoder:
            tokens = layer(tokens, tokens)
        queries = self.refiner(self.queries.expand(int(field.shape[0]), -1, -1), found)
        for layer in self.decoder:
            queries = layer(queries, tokens)
        masks = tokens @ queries.transpose(1, 2) / _WIDTH**0.5
        features = torch.cat([tokens, masks], 2).transpose(1, 2).reshape(int(field.shape[0]), -1, rows, cols)
        for layer in self.back:
            features = F.interpolate(layer(features), scale_factor=2.0, mode="nearest")
            features = torch.cat([features, skips.pop()], 1)
        logit: Tensor = self.logit(features)
        return logit
