"""The spectral convolution written with torch.fft, as the operator is usually given: what the real form must equal."""

import torch
from torch import Tensor

from flame.models.spectral import SpectralConv2d


def fft_spectral(layer: SpectralConv2d, field: Tensor, added: Tensor | None = None) -> Tensor:
    """`layer(field)` by rfft2, truncation, channel mixing per mode, irfft2."""
    m, c = layer.modes, layer.channels
    height, width = field.shape[-2:]
    weight = (
        torch.complex(layer.weight[0], layer.weight[1])
        .to(torch.complex128 if field.dtype == torch.float64 else torch.complex64)
        .reshape(m, 2 * m, c, c)
    )
    spectrum = torch.fft.rfft2(field)
    out = torch.zeros(*field.shape[:2], height, width // 2 + 1, dtype=spectrum.dtype)
    cols = min(m, width // 2 + 1)
    up, down = min(m, (height + 1) // 2), min(m, height // 2)
    out[:, :, :up, :cols] = torch.einsum("birc,crio->borc", spectrum[:, :, :up, :cols], weight[:cols, :up])
    lower = weight[:cols, 2 * m - down :]
    out[:, :, height - down :, :cols] = torch.einsum("birc,crio->borc", spectrum[:, :, height - down :, :cols], lower)
    result = torch.fft.irfft2(out, s=(height, width))
    return result if added is None else result + added
