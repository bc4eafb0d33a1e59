"""LinkNet (Chaurasia & Culurciello 2017), with which Herec et al. (2025) follow MAG1C-SAS on board.

The decoder is that of segmentation_models.pytorch (Iakubovskii 2019): 1x1 to a quarter of the channels, 4x4 transposed
convolution, 1x1 to the channels of the encoder's features, which are added.
"""

from __future__ import annotations

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from flame.models.baselines.layers import conv_norm, start_convolutions
from flame.models.baselines.mobilenet import Encoder

__all__ = ["LinkNet"]

_LAST = 32


def _doubled(channels_in: int, channels: int) -> nn.Sequential:
    quarter = channels_in // 4
    return nn.Sequential(
        conv_norm(channels_in, quarter, 1),
        nn.ConvTranspose2d(quarter, quarter, 4, 2, 1),
        nn.BatchNorm2d(quarter),
        nn.ReLU(),
        conv_norm(quarter, channels, 1),
    )


class LinkNet(nn.Module):
    """Encoder, decoder and a 1x1 convolution to one logit.

    Args:
        encoder: Five stages that halve the resolution each.
    """

    stride = 32

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        widths = [*reversed(encoder.channels), _LAST]
        self.decoder = nn.ModuleList(_doubled(wide, out) for wide, out in pairwise(widths))
        self.logit = nn.Conv2d(_LAST, 1, 1)
        start_convolutions(self)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch 1 row col"]:
        """Plume logit; sides are multiples of 32."""
        *skips, features = self.encoder(field)
        for block in self.decoder:
            features = block(features)
            if skips:
                features = features + skips.pop()
        logit: Tensor = self.logit(features)
        return logit
