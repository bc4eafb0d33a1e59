"""WNO (Tripura & Chakraborty 2023): learned weights on the coarsest sub-bands of a wavelet transform.

Three layers of width 14, db6, level 6 (tab:backbone_arch). The published 0.77 M parameters are those of one weight for
each pair of channels and each of the 18 x 18 coefficients that a 512-pixel tile has at level 6, for the approximation
and its three details. Finer details pass unchanged. On tiles of another size the 18 x 18 weights are resampled.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.plugins import MissingExtraError

__all__ = ["SubBandWeights", "Wno"]

_LAYERS = 3
_WAVELET = "db6"
_LEVEL = 6
_COEFFICIENTS = 18
_SUB_BANDS = 4
_MODE = "zero"


def _ptwt() -> Any:
    try:
        import ptwt
    except ImportError as failure:
        raise MissingExtraError("backbone 'wno'", "operators", failure) from failure
    return ptwt


class SubBandWeights(nn.Module):
    """Channel mixing of the coarsest four sub-bands, a matrix for each coefficient.

    Args:
        channels: Channels in and out.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        _ptwt()
        size = (_SUB_BANDS, channels, channels, _COEFFICIENTS, _COEFFICIENTS)
        self.weight = nn.Parameter(torch.rand(size) / channels)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """The field with its coarse structure mixed and its fine structure kept."""
        with torch.autocast(field.device.type, enabled=False):
            rows, cols = (int(n) for n in field.shape[-2:])
            coarse, level, *finer = _ptwt().wavedec2(field.float(), _WAVELET, level=_LEVEL, mode=_MODE)
            bands = torch.stack([coarse, *level])
            weight: Tensor = self.weight
            size = tuple(int(n) for n in coarse.shape[-2:])
            if size != (_COEFFICIENTS, _COEFFICIENTS):
                weight = F.interpolate(weight.flatten(0, 1), size, mode="bilinear", align_corners=False)
                weight = weight.reshape(*self.weight.shape[:3], *size)
            coarse, *level = torch.einsum("sbirc,siorc->sborc", bands, weight).unbind(0)
            field = _ptwt().waverec2((coarse, tuple(level), *finer), _WAVELET)
            return field[..., :rows, :cols]


class Wno(nn.Module):
    """Three layers, each GELU of weighted sub-bands and a 1x1 convolution.

    Args:
        channels: Channels in and out.
    """

    def __init__(self, channels: int = 14) -> None:
        super().__init__()
        self.sub_bands = nn.ModuleList(SubBandWeights(channels) for _ in range(_LAYERS))
        self.pointwise = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(_LAYERS))

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the same shape."""
        for sub_bands, pointwise in zip(self.sub_bands, self.pointwise, strict=True):
            field = F.gelu(sub_bands(field) + pointwise(field))
        return field
