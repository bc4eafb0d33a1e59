"""FNO (Li et al. 2021) and Tucker-FNO (Kossaifi et al. 2023) as the neuraloperator package has them."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.plugins import MissingExtraError

__all__ = ["LiftedOperator", "fno", "tucker_fno"]

_LAYERS = 4
_FNO_MODES = (31, 31)
_TUCKER_MODES = (32, 32)
_TUCKER_WIDTH = 64
_TUCKER_RANKS = (64, 64, 9, 7)


class LiftedOperator(nn.Module):
    """An operator of another width than the features, between two 1x1 convolutions.

    Args:
        operator: Maps `width` channels to as many.
        channels: Channels in and out.
        width: Channels of the operator.
    """

    def __init__(self, operator: nn.Module, channels: int, width: int) -> None:
        super().__init__()
        self.lift = nn.Conv2d(channels, width, 1)
        self.operator = operator
        self.project = nn.Conv2d(width, channels, 1)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the same shape."""
        features: Tensor = self.project(self.operator(self.lift(field)))
        return features


class _Blocks(nn.Module):
    """All layers of the library's `FNOBlocks`, which are otherwise called one by one."""

    def __init__(self, what: str, **settings: Any) -> None:
        super().__init__()
        try:
            from neuralop.layers.fno_block import FNOBlocks
        except ImportError as failure:
            raise MissingExtraError(f"backbone '{what}'", "operators", failure) from failure
        self.blocks = FNOBlocks(n_layers=_LAYERS, fno_skip="linear", use_channel_mlp=False, **settings)

    def forward(self, field: Tensor) -> Tensor:
        # Fourier transforms of half precision do not exist on every device, nor for every size.
        with torch.autocast(field.device.type, enabled=False):
            field = field.float()
            for layer in range(_LAYERS):
                field = self.blocks(field, layer)
            return field


def fno(channels: int = 14) -> nn.Module:
    """Four Fourier layers (tab:backbone_arch).

    The published 0.79 M parameters are those of 31 x 16 complex weights for a pair of channels: wave numbers -15 to 15
    of rows and 0 to 15 of columns. The library's own 32 x 17 would give 0.87 M, and 32 modes a corner 3.2 M.

    Args:
        channels: Channels in and out.
    """
    return _Blocks("fno", in_channels=channels, out_channels=channels, n_modes=_FNO_MODES)


def tucker_fno(channels: int = 14) -> nn.Module:
    """Four Fourier layers of width 64 whose weights are Tucker-decomposed (tab:backbone_arch: rank 64).

    Rank 64 is read as that of both channel axes. The ranks of the frequency axes are not published; 9 and 7 are those
    nearest to a square with the published 2.16 M parameters.

    Args:
        channels: Channels in and out.
    """
    operator = _Blocks(
        "tucker-fno",
        in_channels=_TUCKER_WIDTH,
        out_channels=_TUCKER_WIDTH,
        n_modes=_TUCKER_MODES,
        factorization="tucker",
        implementation="factorized",
        rank=list(_TUCKER_RANKS),
    )
    return LiftedOperator(operator, channels, _TUCKER_WIDTH)
