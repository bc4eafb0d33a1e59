"""FLAME as operators are usually written: torch.fft, complex weights, whole heads, plain layout, norms by themselves.

The benchmarks measure against it; it shares its weights with `flame.models.Flame`, and must give the same.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
from fft_reference import fft_spectral

from flame.models import Flame, FlameOutput
from flame.models.backbones.ufno import MiniUNet, OperatorBlock
from flame.models.flame import Coordinates
from flame.models.heads import leaky_clamp


class PlainFlame(nn.Module):
    """The weights of a `Flame`, run as the paper's equations read."""

    def __init__(self, flame: Flame) -> None:
        super().__init__()
        self.flame = copy.deepcopy(flame)

    def lifted(self, at: Coordinates, pixel_fields: Tensor | None) -> Tensor:
        weight, bias = self.flame.folded_lift()
        spectra = at.lifted if at.basis is None else torch.einsum("nij,njrc->nirc", at.basis, at.lifted)
        channels = spectra if pixel_fields is None else torch.cat([spectra, pixel_fields], 1)
        return F.conv2d(channels, weight[:, :, None, None], bias)

    def block(self, block: OperatorBlock, field: Tensor) -> Tensor:
        mixed = fft_spectral(block.spectral, field) + block.pointwise(field)
        if block.unet is not None:
            mixed = mixed + self.local(block.unet, field)
        return block.gate(F.gelu(mixed))

    def local(self, unet: MiniUNet, field: Tensor) -> Tensor:
        half = unet.down1(field)
        quarter = unet.down2(half)
        quarter = torch.cat([quarter, unet.up3(unet.down3(quarter))], 1)
        half = torch.cat([half, unet.up2(quarter)], 1)
        return unet.out(torch.cat([field, unet.up1(half)], 1))

    def score(self, at: Coordinates, z: Tensor) -> Tensor:
        heads = self.flame.heads
        background = F.conv2d(z, heads.w_bg[:, :, None, None], heads.b_bg)
        weight = F.softplus(F.conv2d(z, heads.w_sw[:, :, None, None], heads.b_sw))
        return ((at.scored - background) * weight * at.direction[:, :, None, None]).sum(1)

    def forward(self, inputs: Mapping[str, Tensor]) -> FlameOutput:
        flame = self.flame
        at = flame.coordinates(inputs)
        z = self.lifted(at, inputs.get("pixel_fields"))
        for block in flame.backbone.blocks:
            z = self.block(block, z)
        score_ppm_m = self.score(at, z)
        score = leaky_clamp(score_ppm_m / flame.settings.tau_ppm_m, flame.settings.tau_max, flame.settings.clamp_leak)
        head = flame.segmentation
        logit = head.project(head.layers(torch.cat([z, score[:, None], inputs["rgb"]], 1)))[:, 0]
        return FlameOutput(logit, score, score_ppm_m)
