"""Whitening of log-radiance: by the training set's statistics, or by those of the tile itself.

The log-radiance of a tile has a condition number near 1e5 (brightness varies by 1, methane by 0.01). Whitened,
`y = C^-1/2 (l - mu)` and `t = C^-1/2 s`, every direction counts by what it stands out from the background, and
`t.y / t.t` is the log-domain matched filter with full covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["Background", "BackgroundSettings", "SpectralStatistics", "symmetric_whitening", "tile_background"]


@dataclass(frozen=True, eq=False)
class SpectralStatistics:
    """Mean and covariance of log-radiance over the valid pixels of a training set."""

    mean: Float[np.ndarray, " band"]
    covariance: Float[np.ndarray, "band band"]

    @classmethod
    def standard(cls, bands: int) -> SpectralStatistics:
        """Zero mean and unit covariance: no conditioning."""
        return cls(np.zeros(bands), np.eye(bands))


@dataclass(frozen=True)
class BackgroundSettings:
    """How a tile's background is estimated.

    Attributes:
        samples: About how many pixels of a regular grid are looked at.
        passes: Estimates made; each after the first leaves out pixels that look like plume and weighs down pixels that
            are far from the background, such as dark ones, whose noise is many times larger.
        plume_sigma: Matched-filter response, in standard deviations, from which on a pixel is left out.
        floor: Least variance of log-radiance in any direction; (0.03 %)^2 keeps a constant tile finite.
    """

    samples: int = 4096
    passes: int = 1
    plume_sigma: float = 3.0
    floor: float = 1e-7


@dataclass(frozen=True, eq=False)
class Background:
    """Mean log-spectrum and whitening matrix, one of each for a tile or one for all (batch of 1)."""

    mean: Float[Tensor, "batch band"]
    whitening: Float[Tensor, "batch band band"]

    def whiten(self, log: Float[Tensor, "batch2 band row col"]) -> Float[Tensor, "batch2 band row col"]:
        """`y = C^-1/2 (l - mu)`."""
        batch, bands = log.shape[:2]
        mean, whitening = self.mean.expand(batch, bands), self.whitening.expand(batch, bands, bands)
        # Centred before the product: the whitening's entries are in the hundreds and would magnify rounding.
        if torch.onnx.is_in_onnx_export():
            return torch.bmm(whitening, (log - mean[:, :, None, None]).flatten(2)).reshape(log.shape)
        white = log.new_empty(log.shape)
        for number, tile in enumerate(log):  # one tile at a time: its centred copy stays in the cache
            torch.mm(whitening[number], tile.flatten(1) - mean[number][:, None], out=white[number].view(bands, -1))
        return white

    def target(self, unit_spectrum: Float[Tensor, " band"]) -> Float[Tensor, "batch band"]:
        """`t = C^-1/2 s`, in standard deviations per unit of the spectrum."""
        return self.whitening @ unit_spectrum


def symmetric_whitening(
    covariance: Float[Tensor, "batch band band"], count: Float[Tensor, " batch"], floor: float
) -> Float[Tensor, "batch band band"]:
    """`C^-1/2` of sample covariances, their eigenvalues raised by what so few samples leave unknown.

    Each eigenvalue gains `bands / count` of the median one (the noise level) and `floor`, so a tile with fewer pixels
    than bands, or with one constant value, still has a finite inverse.
    """
    values, vectors = torch.linalg.eigh(covariance.double())
    values = values.clamp_min(0)
    noise = values.median(dim=1, keepdim=True).values
    raised = values + noise * (covariance.shape[1] / count.double().clamp_min(1))[:, None] + floor
    whitening: Tensor = (vectors * raised.rsqrt()[:, None, :]) @ vectors.mT
    return whitening.to(covariance.dtype)


def tile_background(
    log: Float[Tensor, "batch band row col"],
    usable: Bool[Tensor, "batch row col"],
    unit_spectrum: Float[Tensor, " band"],
    settings: BackgroundSettings,
) -> Background:
    """Mean and whitening of each tile from a regular sample of its usable pixels."""
    rows, cols = log.shape[-2:]
    step = max(1, int((rows * cols / settings.samples) ** 0.5))
    sample = log[..., ::step, ::step].flatten(2)
    seen = usable[..., ::step, ::step].flatten(1)
    # A coarse grid may miss the few usable pixels of a tile; then all of them are looked at.
    if step > 1 and bool((seen.sum(1) < 2 * log.shape[1]).any()):
        sample, seen = log.flatten(2), usable.flatten(1)
    weight = seen.to(log.dtype)
    background = _estimate(sample, weight, settings.floor)
    for _ in range(settings.passes - 1):
        white = torch.bmm(background.whitening, sample - background.mean[:, :, None])
        target = background.target(unit_spectrum)
        response = torch.bmm(target[:, None], white)[:, 0] / target.norm(dim=1, keepdim=True).clamp_min(1e-12)
        near = (1.0 / white.square().mean(1).clamp_min(1e-12)).clamp_max(1.0)
        weight = seen * near * (response < settings.plume_sigma)
        background = _estimate(sample, weight, settings.floor)
    return background


def _estimate(sample: Float[Tensor, "batch band n"], weight: Float[Tensor, "batch n"], floor: float) -> Background:
    total = weight.sum(1).clamp_min(1.0)
    mean = torch.bmm(sample, weight[:, :, None])[:, :, 0] / total[:, None]
    centred = sample - mean[:, :, None]
    covariance = torch.bmm(centred * weight[:, None], centred.mT) / total[:, None, None]
    return Background(mean, symmetric_whitening(covariance, weight.sum(1), floor))
