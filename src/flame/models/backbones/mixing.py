"""Channel mixing of the lowest frequencies with any weights, between any two grids, in real arithmetic.

Complex weights are pairs of real ones, (part, ...): the optimiser, checkpoints and ONNX know real numbers only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.spectral import dft_matrices, to_columns, to_modes

__all__ = ["LiftedOperator", "complex_product", "mix_spectrum"]


def complex_product(first: Float[Tensor, 2 * any], second: Float[Tensor, 2 * other]) -> Tensor:
    """Matrix product of complex tensors given as pairs of real and imaginary part."""
    (a, b), (c, d) = first.unbind(0), second.unbind(0)
    return torch.stack([a @ c - b @ d, a @ d + b @ c])


def mix_spectrum(
    field: Float[Tensor, "batch channel row col"],
    mix: Callable[[Float[Tensor, "2 mode batch channel"]], Float[Tensor, "2 mode batch out"]],
    modes: int,
    grid: tuple[int, int] | None = None,
) -> Float[Tensor, "batch out rows cols"]:
    """The field with its `2m x m` lowest frequencies mixed and the others left out.

    Args:
        field: What to convolve.
        mix: Maps the spectrum, modes ordered (column frequency, row frequency) as in `SpectralConv2d`.
        modes: `m`. Frequencies that either grid cannot hold are left out.
        grid: Rows and columns of the result; those of the field if None.
    """
    with torch.autocast(field.device.type, enabled=False):
        batch, _, height, width = (int(n) for n in field.shape)
        rows, cols = grid or (height, width)
        here = dft_matrices(height, width, modes, field.device, torch.float32)
        there = dft_matrices(rows, cols, modes, field.device, torch.float32)
        spectrum = to_modes(field.float(), here.cols, here.rows)
        real, imag = mix(spectrum.reshape(2 * modes * modes, batch, 2, -1).movedim(2, 0)).unbind(0)
        # The transform sums over pixels and its inverse divides by their number, which is another on each grid.
        columns = to_columns(torch.cat([real, imag], -1), there.rows_back)
        return (columns @ there.cols_back * (rows * cols / (height * width))).reshape(batch, -1, rows, cols)


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
