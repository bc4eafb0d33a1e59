"""A trained FLAME as an ONNX graph: everything learned, with whitening and batch norms folded, and nothing else.

Logarithm, hole filling and the tile's statistics stay outside; the runtime does them in NumPy (`flame.onboard`). The
graph has a fixed tile size, is made of matrix products, convolutions and elementwise operators only, and takes a subset
of the inputs `log_radiance`, `rgb` (normalised), `background_mean`, `whitening` and `brightness_median`.
"""

from __future__ import annotations

import copy
import io
import warnings

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from flame.models.conditioning import Background
from flame.models.flame import Conditioned, Flame
from flame.models.noise_inputs import WhitenedTile, noise_inputs

__all__ = ["OPSET", "DeployedFlame", "to_onnx"]

OPSET = 17
"""Accepted by onnxruntime from 1.13, OpenVINO from 2022.3 and TensorRT from 8.5."""


class DeployedFlame(nn.Module):
    """FLAME from log-radiance on, for one tile.

    Args:
        model: A trained network; it is copied.
    """

    def __init__(self, model: Flame) -> None:
        super().__init__()
        self.flame = copy.deepcopy(model).eval().requires_grad_(False)
        _fold_batch_norms(self.flame)
        kind = model.settings
        self.inputs: tuple[str, ...] = ("log_radiance",)
        if kind.rgb != "none":
            self.inputs += ("rgb",)
        if kind.conditioning == "tile":
            self.inputs += ("background_mean", "whitening")
        if "brightness" in kind.noise_inputs:
            self.inputs += ("brightness_median",)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Probability and score / tau, both (1, row, col), from the inputs in the order of `inputs`."""
        given = dict(zip(self.inputs, tensors, strict=True))
        out = self.flame.network(self._conditioned(given))
        score_ppm_m = out.logit * 0.0 if out.score_ppm_m is None else out.score_ppm_m
        return torch.sigmoid(out.logit), score_ppm_m / self.flame.settings.tau_ppm_m
