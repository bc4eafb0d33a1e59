"""Spectral convolution of the Fourier neural operator (Li et al. 2021) as a truncated DFT in real matrix products.

Only a few low frequencies are kept, so the transform is four thin products with fixed real matrices: exact, faster
than an FFT of the whole field, and made of nothing but MatMul when exported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["DftMatrices", "SpectralConv2d", "dft_matrices", "to_columns", "to_modes"]


@dataclass(frozen=True)
class DftMatrices:
    """Real matrices of the truncated transform of a real (row, col) field; `m` modes a side, `2m` row frequencies.

    Pairs of real and imaginary part stand side by side, so that a complex product over rows is one real product.
    Frequencies that a small field cannot hold have zero rows.

    Attributes:
        cols: Columns to frequencies 0 to m-1.
        rows: (real and imaginary, row) to (frequency, real and imaginary), frequencies 0 to m-1 then -m to -1.
        rows_back: The inverse of `rows`, with the factor 1 / rows.
        cols_back: Frequencies to columns, with the factor 1 / columns and the mirrored half spectrum folded in.
    """

    cols: Float[Tensor, "col col_part"]
    rows: Float[Tensor, "part_row row_part"]
    rows_back: Float[Tensor, "row_part part_row"]
    cols_back: Float[Tensor, "col_part col"]


def _complex_as_real(matrix: np.ndarray) -> np.ndarray:
    """The real matrix of `row vector @ complex matrix`, its axes being (in, part) and (out, part)."""
    real, imag = matrix.real, matrix.imag
    blocks = np.stack([np.stack([real, imag], -1), np.stack([-imag, real], -1)], 1)
    return np.asarray(blocks.reshape(2 * matrix.shape[0], 2 * matrix.shape[1]))


@lru_cache(maxsize=64)
def dft_matrices(
    height: int, width: int, modes: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> DftMatrices:
    """The matrices for one field size, built in double precision and kept."""
    row_frequency = np.concatenate([np.arange(modes), np.arange(-modes, 0)])
    col_frequency = np.arange(modes)
    has_row = (row_frequency < (height + 1) // 2) & (row_frequency >= -(height // 2))
    has_col = col_frequency <= width // 2
    # Every frequency but 0 and Nyquist stands for itself and its mirror image.
    fold = np.where((col_frequency == 0) | (2 * col_frequency == width), 1.0, 2.0) * has_col

    turns = np.exp(-2j * np.pi * np.outer(np.arange(width), col_frequency) / width) * has_col
    cols = np.stack([turns.real, turns.imag], -1).reshape(width, 2 * modes)
    back = np.conj(turns) * fold / width
    cols_back = np.stack([back.real, -back.imag], -1).reshape(width, 2 * modes).T

    turns = np.exp(-2j * np.pi * np.outer(np.arange(height), row_frequency) / height) * has_row
    # The row axis comes as (part, row) from the column transform: reorder the real embedding's input to match.
    rows = _complex_as_real(turns).reshape(height, 2, 4 * modes).swapaxes(0, 1).reshape(2 * height, 4 * modes)
    embedded = _complex_as_real(np.conj(turns).T / height).reshape(4 * modes, height, 2)
    rows_back = embedded.swapaxes(1, 2).reshape(4 * modes, 2 * height)

    with torch.inference_mode(False):
        tensors = [torch.tensor(m, device=device, dtype=dtype) for m in (cols, rows, rows_back, cols_back)]
    return DftMatrices(*tensors)


def to_modes(field: Tensor, cols: Tensor, rows: Tensor) -> Tensor:
    """(batch, channel, row, col) to (mode, batch, part and channel), modes ordered (column, row frequency)."""
    batch, channels, height, width = (int(n) for n in field.shape)  # constants in an exported graph
    m = cols.shape[1] // 2
    columns = (field.reshape(-1, width) @ cols).reshape(-1, height, 2 * m).transpose(1, 2)
    spectrum = columns.reshape(-1, 2 * height) @ rows
    return spectrum.reshape(batch, channels, 2 * m * m, 2).permute(2, 0, 3, 1).reshape(2 * m * m, batch, 2 * channels)


def to_columns(modes: Tensor, rows_back: Tensor) -> Tensor:
    """(mode, batch, part and channel) to (batch channel row, column frequency and part)."""
    count, batch, double = (int(n) for n in modes.shape)
    m, height = rows_back.shape[0] // 4, rows_back.shape[1] // 2
    spectrum = modes.reshape(count, batch, 2, double // 2).permute(1, 3, 0, 2).reshape(-1, 4 * m)
    return (spectrum @ rows_back).reshape(-1, 2 * m, height).transpose(1, 2).reshape(-1, 2 * m)


class _SpectralProduct(torch.autograd.Function):
    """Transform, channel mixing and inverse, added to another field; keeps nothing but the few modes."""

    @staticmethod
    def forward(ctx: Any, field: Tensor, mixing: Tensor, onto: Tensor, dft: DftMatrices) -> Tensor:
        modes = to_modes(field, dft.cols, dft.rows)
        columns = to_columns(torch.bmm(modes, mixing), dft.rows_back)
        ctx.save_for_backward(modes, mixing)
        ctx.dft = dft
        return torch.addmm(onto.reshape(-1, onto.shape[-1]), columns, dft.cols_back).view(field.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        modes, mixing = ctx.saved_tensors
        dft = ctx.dft
        pulled = to_modes(grad, dft.cols_back.T, dft.rows_back.T)
        columns = to_columns(torch.bmm(pulled, mixing.mT), dft.rows.T)
        return (columns @ dft.cols.T).view(grad.shape), torch.bmm(modes.mT, pulled), grad, None


class SpectralConv2d(nn.Module):
    """Multiplies the `2m x m` lowest frequencies of each channel by a learned complex channel mixing.

    The kept modes are those of `rfft2`: columns 0 to m-1, rows 0 to m-1 and -m to -1. Fields of any size are taken.

    Args:
        channels: Channels in and out.
        modes: `m`, the paper's m1 = m2.
    """

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.channels = channels
        self.modes = modes
        # (part, mode, in, out), modes ordered (column frequency, row frequency).
        self.weight = nn.Parameter(torch.randn(2, 2 * modes * modes, channels, channels) / (2 * channels))

    def _mixing(self) -> Float[Tensor, "mode part_in part_out"]:
        real, imag = self.weight[0], self.weight[1]
        return torch.cat([torch.cat([real, imag], -1), torch.cat([-imag, real], -1)], 1)

    def _mixed(self, modes: Float[Tensor, "mode batch part_in"]) -> Float[Tensor, "mode batch part_out"]:
        """`modes @ _mixing()` without that matrix, which would store each weight twice in an exported graph."""
        count, batch, _ = (int(n) for n in modes.shape)
        split = modes.reshape(count, 2 * batch, self.channels)
        both = torch.bmm(split, torch.cat([self.weight[0], self.weight[1]], -1))
        of_real, of_imag = both.reshape(count, batch, 2, 2, self.channels).unbind(2)
        real, imag = of_real[:, :, 0] - of_imag[:, :, 1], of_real[:, :, 1] + of_imag[:, :, 0]
        return torch.cat([real, imag], -1)

    def forward(
        self, field: Float[Tensor, "batch channel row col"], onto: Float[Tensor, "batch channel row col"] | None = None
    ) -> Float[Tensor, "batch channel row col"]:
        """The convolved field, added to `onto`, the block's other branch, if given."""
        with torch.autocast(field.device.type, enabled=False):
            field = field if field.dtype == torch.float64 else field.float()
            height, width = (int(n) for n in field.shape[-2:])
            dft = dft_matrices(height, width, self.modes, field.device, field.dtype)
            onto = torch.zeros_like(field) if onto is None else onto.to(field.dtype)
            if torch.onnx.is_in_onnx_export():
                modes = self._mixed(to_modes(field, dft.cols, dft.rows))
                return onto + (to_columns(modes, dft.rows_back) @ dft.cols_back).reshape(field.shape)
            mixing = self._mixing().to(field.dtype)
            summed: Tensor = _SpectralProduct.apply(field, mixing, onto, dft)  # type: ignore[no-untyped-call]
            return summed
