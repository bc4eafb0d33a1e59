"""FNO (Li et al. 2021) and Tucker-FNO (Kossaifi et al. 2023).

Both are those of the neuraloperator package, layer by layer (a test holds them against it), in real arithmetic: its
complex weights can neither be exported nor trained by torch's fused optimisers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.backbones.mixing import LiftedOperator, complex_product, mix_spectrum

__all__ = ["DenseWeights", "Fno", "FourierLayers", "TuckerFno", "TuckerWeights"]

_LAYERS = 4
_MODES = 16
_TUCKER_WIDTH = 64
_TUCKER_RANKS = (64, 64, 9, 7)


class DenseWeights(nn.Module):
    """A weight for each pair of channels and each wave number from -m+1 to m-1 of rows and 0 to m-1 of columns.

    Args:
        channels: Channels in and out.
        modes: `m`.
    """

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, modes, 2 * modes - 1, channels, channels) / (2 * channels))

    def forward(self, spectrum: Float[Tensor, "2 mode batch channel"]) -> Float[Tensor, "2 mode batch channel"]:
        """The spectrum, mixed; of `2m x m` modes those of row frequency -m, which has no mirror image, become zero."""
        first, last = self.weight[:, :, : self.modes], self.weight[:, :, self.modes :]
        weight = torch.cat([first, torch.zeros_like(first[:, :, :1]), last], 2)
        return complex_product(spectrum, weight.flatten(1, 2))


class TuckerWeights(nn.Module):
    """Weights of `2m x m` modes as a small core and a factor for each of the four axes.

    Args:
        channels: Channels in and out.
        modes: `m`.
        ranks: Size of the core: channels in, channels out, row and column frequencies.
    """

    def __init__(self, channels: int, modes: int, ranks: tuple[int, int, int, int]) -> None:
        super().__init__()
        sizes = (channels, channels, 2 * modes, modes)
        # Unitary on average, so that the weights start as large as the core.
        self.factors = nn.ParameterList(
            torch.randn(2, size, rank) / (2 * max(size, rank)) ** 0.5 for size, rank in zip(sizes, ranks, strict=True)
        )
        self.core = nn.Parameter(torch.randn(2, *ranks) / (2 * channels))

    def forward(self, spectrum: Float[Tensor, "2 mode batch channel"]) -> Float[Tensor, "2 mode batch channel"]:
        """The spectrum, mixed factor by factor; the weights of all channels and modes are never made."""
        into, out, row, col = self.factors
        # (row, in, out, column) of the core's ranks to frequencies: the last axis first, then rows.
        core = complex_product(self.core.permute(0, 3, 1, 2, 4), col.transpose(1, 2)[:, None, None])
        core = complex_product(row, core.flatten(2)).reshape(2, -1, *core.shape[2:])
        by_mode = core.permute(0, 4, 1, 2, 3).flatten(1, 2)
        narrow = complex_product(complex_product(spectrum, into[:, None]), by_mode)
        return complex_product(narrow, out.transpose(1, 2)[:, None])


class _FourierLayer(nn.Module):
    """Spectral convolution beside a 1x1 convolution."""

    def __init__(self, channels: int, modes: int, weights: nn.Module) -> None:
        super().__init__()
        self.modes, self.weights = modes, weights
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, field: Tensor) -> Tensor:
        beside: Tensor = self.pointwise(field)
        return mix_spectrum(field, self.weights, self.modes) + beside


class FourierLayers(nn.Module):
    """Fourier layers with GELU between them.

    Args:
        channels: Channels in and out.
        modes: `m`.
        weights: Of each layer.
    """

    def __init__(self, channels: int, modes: int, weights: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_FourierLayer(channels, modes, each) for each in weights)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the same shape."""
        for number, layer in enumerate(self.layers):
            field = layer(F.gelu(field) if number else field)
        return field


class Fno(nn.Module):
    """Four Fourier layers (tab:backbone_arch).

    The published 0.79 M parameters are those of 31 x 16 complex weights for a pair of channels: wave numbers -15 to 15
    of rows and 0 to 15 of columns. 32 modes in each corner would be 3.2 M.

    Args:
        channels: Channels in and out.
    """

    def __init__(self, channels: int = 14) -> None:
        super().__init__()
        self.operator = FourierLayers(channels, _MODES, [DenseWeights(channels, _MODES) for _ in range(_LAYERS)])

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the same shape."""
        features: Tensor = self.operator(field)
        return features


class TuckerFno(nn.Module):
    """Four Fourier layers of width 64 whose weights are Tucker-decomposed (tab:backbone_arch: rank 64).

    Rank 64 is read as that of both channel axes. The ranks of the frequency axes are not published; 9 and 7 are those
    nearest to a square with the published 2.16 M parameters.

    Args:
        channels: Channels in and out.
    """

    def __init__(self, channels: int = 14) -> None:
        super().__init__()
        weights: list[nn.Module] = [TuckerWeights(_TUCKER_WIDTH, _MODES, _TUCKER_RANKS) for _ in range(_LAYERS)]
        self.operator = LiftedOperator(FourierLayers(_TUCKER_WIDTH, _MODES, weights), channels, _TUCKER_WIDTH)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the same shape."""
        features: Tensor = self.operator(field)
        return features
