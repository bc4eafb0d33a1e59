"""U-NO (Rahman et al. 2023): Fourier layers between grids of different resolution, with shortcuts, as a U.

Seven layers on 3/4, 1/2, 1/4, 1/4, 1/2, 3/4 and all of the resolution, from w = 8 channels to 2fw, 4fw, 8fw with
f = 0.75 and back. tab:backbone_arch prints modes 24, 14, 8, 8, 8, 14, 22; the published 2.54 M parameters are those of
24 in the last layer as in the first (22 gives 2.47 M), so 24 stands here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.backbones.mixing import complex_product, mix_spectrum

__all__ = ["Uno"]

_WIDTH = 8
_MODES = (24, 14, 8, 8, 8, 14, 24)
_GRIDS = (0.75, 0.5, 0.25, 0.25, 0.5, 0.75, 1.0)


class _Layer(nn.Module):
    """GELU of a spectral convolution and a 1x1 convolution, both on the new grid."""

    def __init__(self, channels_in: int, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        spread = 0.5 / (channels_in * channels) ** 0.5
        self.weight = nn.Parameter(spread * torch.randn(2, 2 * modes * modes, channels_in, channels))
        self.pointwise = nn.Conv2d(channels_in, channels, 1)

    def _mix(self, spectrum: Tensor) -> Tensor:
        return complex_product(spectrum, self.weight)

    def forward(self, field: Tensor, rows: int, cols: int) -> Tensor:
        beside = F.interpolate(self.pointwise(field), (rows, cols), mode="bilinear", align_corners=False)
        return F.gelu(mix_spectrum(field, self._mix, self.modes, (rows, cols)) + beside)


class Uno(nn.Module):
    """Seven layers as a U, between pointwise layers.

    Args:
        channels: Channels in and out.
        layer_modes: Modes a side of each layer.
    """

    def __init__(self, channels: int = 14, layer_modes: tuple[int, ...] = _MODES) -> None:
        super().__init__()
        w, a, b, c = _WIDTH, 3 * _WIDTH // 2, 3 * _WIDTH, 6 * _WIDTH
        widths = ((w, a), (a, b), (b, c), (c, c), (c, b), (2 * b, a), (2 * a, w))
        self.lift = nn.Sequential(nn.Conv2d(channels, w // 2, 1), nn.GELU(), nn.Conv2d(w // 2, w, 1), nn.GELU())
        self.layers = nn.ModuleList(
            _Layer(wide, out, modes) for (wide, out), modes in zip(widths, layer_modes, strict=True)
        )
        self.project = nn.Sequential(nn.Conv2d(2 * w, 4 * w, 1), nn.GELU(), nn.Conv2d(4 * w, channels, 1))

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """Features of the same shape."""
        rows, cols = (int(n) for n in field.shape[-2:])
        features = self.lift(field)
        passed = [features]
        for number, (layer, grid) in enumerate(zip(self.layers, _GRIDS, strict=True)):
            features = layer(features, max(1, round(rows * grid)), max(1, round(cols * grid)))
            if number < 2:
                passed.append(features)
            elif number > 3:
                features = torch.cat([features, passed.pop()], 1)
        out: Tensor = self.project(features)
        return out
