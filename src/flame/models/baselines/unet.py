"""U-Net (Ronneberger et al. 2015) on a pretrainable encoder, the decoder of HyperSTARCOP (Růžička et al. 2023).

Nearest-neighbour doubling, the encoder's features beside it, two 3x3 convolutions, five times, at 256, 128, 64, 32 and
16 channels: the decoder of segmentation_models.pytorch (Iakubovskii 2019), which HyperSTARCOP uses.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.baselines.layers import conv_norm, start_convolutions
from flame.models.baselines.mobilenet import Encoder

__all__ = ["UNet"]

_DECODER = (256, 128, 64, 32, 16)


class UNet(nn.Module):
    """Encoder, decoder and a 3x3 convolution to one logit.

    Args:
        encoder: Five stages that halve the resolution each.
    """

    stride = 32

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        deepest, *skips = reversed(encoder.channels)
        blocks = []
        for skip, channels in zip([*skips, 0], _DECODER, strict=True):
            blocks.append(nn.Sequential(conv_norm(deepest + skip, channels), conv_norm(channels, channels)))
            deepest = channels
        self.decoder = nn.ModuleList(blocks)
        self.logit = nn.Conv2d(deepest, 1, 3, padding=1)
        start_convolutions(self)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch 1 row col"]:
        """Plume logit; sides are multiples of 32."""
        *skips, features = self.encoder(field)
        for block in self.decoder:
            features = F.interpolate(features, scale_factor=2.0, mode="nearest")
            if skips:
                features = torch.cat([features, skips.pop()], 1)
            features = block(features)
        logit: Tensor = self.logit(features)
        return logit
