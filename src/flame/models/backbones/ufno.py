"""U-FNO (Wen et al. 2022): Fourier layers, the later ones with a small U-Net beside them for local structure.

Width, modes and block counts are the paper's (tab:flame_arch). It leaves open the inside of the blocks; here, as the
parameter count of the published network implies, every block ends in squeeze-and-excitation (Hu et al. 2018) and the
U-Net has three stride-2 levels at constant width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.pointwise import pointwise
from flame.models.spectral import SpectralConv2d

__all__ = ["MiniUNet", "OperatorBlock", "SqueezeExcite", "UFno"]

_LEAK = 0.1
_POINTWISE_GAIN = 2.0  # GELU halves a small signal: with gates nearly open, features keep their scale through a block
_GATE_START = 2.0
_UNET_STRIDE = 8
_POOL = 8


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
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(_channel_means(field)))))
        return field * gate[:, :, None, None]


def _channel_means(field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel"]:
    """Means over the field; a graph first pools, which engines do several times faster than they reduce images."""
    if torch.onnx.is_in_onnx_export() and all(int(n) % _POOL == 0 for n in field.shape[2:]):
        field = F.avg_pool2d(field, _POOL)
    return field.mean((2, 3))


def _down(channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, stride, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.LeakyReLU(_LEAK, inplace=True),
    )


def _up(channels_in: int, channels: int) -> nn.Sequential:
    return nn.Sequential(nn.ConvTranspose2d(channels_in, channels, 4, 2, 1), nn.LeakyReLU(_LEAK, inplace=True))


class _JoinChannels(torch.autograd.Function):
    """`cat` over channels whose gradients are dense, as everything after it in backward runs faster on."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        ctx.channels = first.shape[1]
        return torch.cat([first, second], 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        first, second = grad[:, : ctx.channels], grad[:, ctx.channels :]
        dense = torch.channels_last
        return first.contiguous(memory_format=dense), second.contiguous(memory_format=dense)


def join_channels(
    first: Float[Tensor, "batch channel row col"], second: Float[Tensor, "batch channel row col"]
) -> Float[Tensor, "batch channels row col"]:
    """Both fields' channels, one after the other."""
    if not torch.is_grad_enabled():
        return torch.cat([first, second], 1)
    joined: Tensor = _JoinChannels.apply(first, second)  # type: ignore[no-untyped-call]
    return joined


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

    def forward(
        self, field: Float[Tensor, "batch channel row col"], beside: nn.Conv2d | None = None
    ) -> Float[Tensor, "batch channel row col"]:
        """Local features of the same size, plus a 1x1 convolution of the field if given.

        The 1x1 convolution is added to the centre of the last convolution's kernel instead of being run by itself.
        """
        field = field.contiguous(memory_format=torch.channels_last)  # in which small convolutions run twice as fast
        rows, cols = field.shape[-2:]
        pad_rows, pad_cols = -rows % _UNET_STRIDE, -cols % _UNET_STRIDE
        if pad_rows or pad_cols:
            padded = F.pad(field, (0, pad_cols, 0, pad_rows), mode="replicate")
            return self._levels(padded, beside)[..., :rows, :cols]
        return self._levels(field, beside)

    def _levels(self, field: Tensor, beside: nn.Conv2d | None) -> Tensor:
        half = self.down1(field)
        quarter = self.down2(half)
        eighth = self.down3(quarter)
        quarter = join_channels(quarter, self.up3(eighth))
        half = join_channels(half, self.up2(quarter))
        if torch.onnx.is_in_onnx_export() and beside is None:
            return self._last_of_parts(field, self.up1(half))
        joined = join_channels(field, self.up1(half))
        if beside is None:
            result: Tensor = self.out(joined)
            return result
        return F.conv2d(joined, *self.merged(beside), padding=1)

    def _last_of_parts(self, field: Tensor, upper: Tensor) -> Tensor:
        """The last convolution as a sum of two: cheaper than joining what it takes at full resolution."""
        channels = int(field.shape[1])
        own, other = self.out.weight[:, :channels].clone(), self.out.weight[:, channels:].clone()
        return F.conv2d(field, own, self.out.bias, padding=1) + F.conv2d(upper, other, padding=1)

    def merged(self, beside: nn.Conv2d) -> tuple[Tensor, Tensor]:
        """Weight and bias of the last convolution with a 1x1 convolution of the field added to it."""
        centre = torch.cat([beside.weight, torch.zeros_like(beside.weight)], 1)
        assert self.out.bias is not None
        assert beside.bias is not None
        return self.out.weight + F.pad(centre, (1, 1, 1, 1)), self.out.bias + beside.bias


class OperatorBlock(nn.Module):
    """GELU of spectral convolution + 1x1 convolution (+ mini-UNet), then squeeze-and-excitation."""

    pointwise: nn.Conv2d | None

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
        beside: Tensor | None = None
        if self.unet is not None:
            beside = self.unet(field, self.pointwise)
        elif torch.onnx.is_in_onnx_export():
            assert self.pointwise is not None
            beside = self.pointwise(field)
        elif self.pointwise is not None:
            assert self.pointwise.bias is not None
            beside = pointwise(field, self.pointwise.weight[:, :, 0, 0], self.pointwise.bias)
        result: Tensor = self.gate(F.gelu(self.spectral(field, beside)))
        return result

    @torch.no_grad()
    def merge_pointwise(self) -> None:
        """Merges the 1x1 convolution into the mini-UNet for good, for export."""
        if self.unet is not None and self.pointwise is not None:
            weight, bias = self.unet.merged(self.pointwise)
            self.unet.out.weight.copy_(weight)
            assert self.unet.out.bias is not None
            self.unet.out.bias.copy_(bias)
            self.pointwise = None


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
