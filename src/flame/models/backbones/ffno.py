"""F-FNO (Tran et al. 2023): a Fourier layer that mixes each axis by itself, deeper and wider for it.

tab:backbone_arch gives 8 layers of width 48 and 32 modes an axis; a 1x1 convolution a layer, as here, then makes up the
published 2.39 M parameters to the last digit.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.backbones.mixing import LiftedOperator
from flame.models.spectral import dft_matrices

__all__ = ["AxisSpectralConv", "FFno"]

_LAYERS = 8
_WIDTH = 48
_MODES = 32


class AxisSpectralConv(nn.Module):
    """Multiplies the lowest frequencies along the columns by a learned complex channel mixing.

    Args:
        channels: Channels in and out.
        modes: Frequencies kept, from 0 up.
    """

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, modes, channels, channels) / (2 * channels))

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """The convolved field; frequencies that it cannot hold are left out."""
        with torch.autocast(field.device.type, enabled=False):
            batch, channels, rows, cols = (int(n) for n in field.shape)
            dft = dft_matrices(1, cols, self.modes, field.device, torch.float32)
            spectrum = (field.float() @ dft.cols).reshape(batch, channels, rows, self.modes, 2)
            real, imag = spectrum.permute(4, 3, 0, 2, 1).reshape(2, self.modes, batch * rows, channels).unbind(0)
            mixed = torch.stack(
                [
                    real @ self.weight[0] - imag @ self.weight[1],
                    real @ self.weight[1] + imag @ self.weight[0],
                ],
                -1,
            )
            folded = mixed.reshape(self.modes, batch, rows, channels, 2).permute(1, 3, 2, 0, 4)
            return folded.reshape(batch, channels, rows, 2 * self.modes) @ dft.cols_back


class _Layer(nn.Module):
    """GELU of both axes' convolutions and a 1x1 convolution, beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.along_cols, self.along_rows = AxisSpectralConv(_WIDTH, _MODES), AxisSpectralConv(_WIDTH, _MODES)
        self.pointwise = nn.Conv2d(_WIDTH, _WIDTH, 1)

    def forward(self, field: Tensor) -> Tensor:
        both = self.along_cols(field) + self.along_rows(field.transpose(2, 3)).transpose(2, 3)
        return field + F.gelu(both + self.pointwise(field))


class FFno(nn.Module):
    """Eight layers of width 48 between two 1x1 convolutions.

    Args:
        channels: Channels in and out.
    """

    def __init__(self, channels: int = 14) -> None:
        super().__init__()
        self.layers = LiftedOperator(nn.Sequential(*(_Layer() for _ in range(_LAYERS))), channels, _WIDTH)

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the same shape."""
        features: Tensor = self.layers(field)
        return features
