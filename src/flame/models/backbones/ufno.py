"""U-FNO (Wen et al. 2022): Fourier layers, the later ones with a small U-Net beside them for local structure.

Width, modes and block counts are the paper's (tab:flame_arch). It leaves open the inside of the blocks; here, as the
parameter count of the published network implies, every block ends in squeeze-and-excitation (Hu et al. 2018) and the
U-Net has three stride-2 levels at constant width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.spectral import SpectralConv2d

__all__ = ["MiniUNet", "OperatorBlock", "SqueezeExcite", "UFno"]

_LEAK = 0.1
_POINTWISE_GAIN = 2.0  # GELU halves a small signal: with gates nearly open, features keep their scale through a block
_GATE_START = 2.0
_UNET_STRIDE = 8


class SqueezeExcite(nn.Module):
    """Scales each channel by a gate computed from all channels' means over the field."""

    def __init__(self, channels: int, reduction: int = 4, least: int = 4) -> None:
        super().__init__()
        hidden = max(least, channels // reduction)
        self.squeeze = nn.Linear(channels, hidden)
        self.excite = nn.Linear(hidden, channels)
        nn.init.constant_(self.excite.bias, _GATE_START)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """The field with its channels reweighted."""
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(field.mean((2, 3))))))
        return field * gate[:, :, None, None]


def _down(channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, stride, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.LeakyReLU(_LEAK, inplace=True),
    )


def _up(channels_in: int, channels: int) -> nn.Sequential:
    return nn.Sequential(nn.ConvTranspose2d(channels_in, channels, 4, 2, 1), nn.LeakyReLU(_LEAK, inplace=True))


class MiniUNet(nn.Module):
    """Three stride-2 levels down and up again at constant width; sizes that 8 does not divide are edge-padded."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down1 = _down(channels, 2)
        self.down2 = nn.Sequential(_down(channels, 2), _down(channels, 1))
        self.down3 = nn.Sequential(_down(channels, 2), _down(channels, 1))
        self.up3 = _up(channels, channels)
        self.up2 = _up(2 * channels, channels)
        self.up1 = _up(2 * channels, channels)
        self.out = nn.Conv2d(2 * channels, channels, 3, 1, 1)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Local features of the same size."""
        rows, cols = field.shape[-2:]
        pad_rows, pad_cols = -rows % _UNET_STRIDE, -cols % _UNET_STRIDE
        if pad_rows or pad_cols:
            padded = self._levels(F.pad(field, (0, pad_cols, 0, pad_rows), mode="replicate"))
            return padded[..., :rows, :cols]
        return self._levels(field)

    def _levels(self, field: Tensor) -> Tensor:
        half = self.down1(field)
        quarter = self.down2(half)
        eighth = self.down3(quarter)
        quarter = torch.cat([quarter, self.up3(eighth)], 1)
        half = torch.cat([half, self.up2(quarter)], 1)
        result: Tensor = self.out(torch.cat([field, self.up1(half)], 1))
        return result


class OperatorBlock(nn.Module):
    """GELU of spectral convolution + 1x1 convolution (+ mini-UNet), then squeeze-and-excitation."""

    def __init__(self, channels: int, modes: int, *, local: bool) -> None:
        super().__init__()
        self.spectral = SpectralConv2d(channels, modes)
        self.pointwise = nn.Conv2d(channels, channels, 1)
        nn.init.orthogonal_(self.pointwise.weight, _POINTWISE_GAIN)
        nn.init.zeros_(self.pointwise.bias)  # type: ignore[arg-type]
        self.unet = MiniUNet(channels) if local else None
        self.gate = SqueezeExcite(channels)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """The field after one operator layer."""
        added = self.pointwise(field)
        if self.unet is not None:
            added = added + self.unet(field)
        result: Tensor = self.gate(F.gelu(self.spectral(field, added)))
        return result


class UFno(nn.Module):
    """Three Fourier blocks, then three with a mini-UNet.

    Args:
        channels: Width d of the lifted field and of the features.
        modes: Fourier modes kept per axis, m1 = m2.
        fourier_blocks: L_F of the paper.
        unet_blocks: L_U of the paper.
    """

    def __init__(self, channels: int = 14, modes: int = 12, fourier_blocks: int = 3, unet_blocks: int = 3) -> None:
        super().__init__()
        kinds = [False] * fourier_blocks + [True] * unet_blocks
        self.blocks = nn.Sequential(*(OperatorBlock(channels, modes, local=local) for local in kinds))

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features z of eq:backbone."""
        features: Tensor = self.blocks(field)
        return features
