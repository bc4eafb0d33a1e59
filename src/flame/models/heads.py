"""The physics heads with the score of eq:flame_score, and the segmentation head (sec:heads)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["PhysicsHeads", "ScoreKind", "SegmentationHead", "leaky_clamp", "softplus_inverse"]

ScoreKind = Literal["none", "fixed", "weights", "full"]
"""tab:component_ablation: no score; fixed background and weights; fixed background, learned weights; both learned."""

_CHUNK_PIXELS = 4096
_EXACT_LOGIT = 80.0


def softplus_inverse(value: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """The argument whose softplus is `value` > 0: eq:app_construction."""
    return value + torch.log(-torch.expm1(-value))


def leaky_clamp(value: Float[Tensor, "*any"], high: float, leak: float) -> Float[Tensor, "*any"]:
    """`value` clipped to [0, high]; where it was clipped the gradient is `leak` instead of zero."""
    clipped = value.clamp(0.0, high)
    if leak == 0.0 or not value.requires_grad:
        return clipped
    beyond = value - clipped
    return clipped + leak * (beyond - beyond.detach())


def _log_sigmoid(negated: Tensor) -> tuple[Tensor, Tensor]:
    """Sigmoid of the negated weight logit and its logarithm, which is minus the softplus of the logit.

    On CPUs several times faster than softplus, and exact until the sigmoid underflows.
    """
    sigmoid = torch.sigmoid(negated)
    if negated.device.type != "cpu" or bool(negated.amin() < -_EXACT_LOGIT):
        return sigmoid, -F.softplus(-negated)
    return sigmoid, sigmoid.log()


class _ChunkedScore(torch.autograd.Function):
    """sum_j (x - B z)_j softplus(S z)_j d_j, its two band-wide fields made chunk by chunk only.

    `z` ends with a channel of ones, so that B and S hold the biases too. The background is never made: with weights
    w = softplus(S z) its share is z . B^T (d w). Backward makes the weights again, so nothing with `band` channels is
    kept; d and the incoming gradient are folded into small matrices.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, direction: Tensor, background: Tensor, weight: Tensor) -> Tensor:
        score, pulled = x.new_empty(x.shape[0], x.shape[2]), torch.empty_like(z)
        negated = -weight
        for tile, part in _chunks(x):
            here = z[tile, :, part]
            log = _log_sigmoid(negated @ here)[1]
            torch.mm((background * direction[tile][:, None]).T, log, out=pulled[tile, :, part])
            own = (pulled[tile, :, part] * here).sum(0)
            torch.sub(own, direction[tile] @ log.mul_(x[tile, :, part]), out=score[tile, part])
        ctx.save_for_backward(x, z, direction, background, weight, pulled)
        return score

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, z, direction, background, weight, grad_z = ctx.saved_tensors
        d_background, d_weight = torch.zeros_like(background), torch.zeros_like(weight)
        negated = -weight
        for tile, part in _chunks(x):
            here, scale = z[tile, :, part], direction[tile][:, None]
            scaled = (here * grad[tile, part]).T
            sigmoid, log = _log_sigmoid(negated @ here)
            if ctx.needs_input_grad[3]:
                d_background.add_(scale * (log @ scaled))
            residual = torch.addmm(x[tile, :, part], background, here, alpha=-1)
            slope = residual.addcmul_(residual, sigmoid, value=-1)
            d_weight.add_(scale * (slope @ scaled))
            grad_z[tile, :, part].addmm_((weight * scale).T, slope).mul_(grad[tile, part])
        return None, grad_z, None, d_background if ctx.needs_input_grad[3] else None, d_weight


def _chunks(x: Tensor) -> Iterator[tuple[int, slice]]:
    """Tiles and pixel ranges whose fields stay in a core's cache; on a GPU fewer and larger ones."""
    pixels = _CHUNK_PIXELS if x.device.type == "cpu" else 64 * _CHUNK_PIXELS
    for tile in range(x.shape[0]):
        for start in range(0, x.shape[2], pixels):
            yield tile, slice(start, start + pixels)


class PhysicsHeads(nn.Module):
    """Log-background and spectral-weight heads, joined in the physics-guided score.

    The weight head starts at one and the background head at `background`, so the score starts as the linear filter
    `(x - background) . direction`; with eq:flame_score's own coordinates (log-radiance) and direction (the absorption
    spectrum up to scale) that is the log-domain matched filter with diagonal covariance, in whitened coordinates the
    one with full covariance.

    Args:
        kind: Which of the two fields are learned.
        width: Feature channels d.
        background: Where the background head starts, the training set's mean in the score's coordinates.
    """

    w_bg: nn.Parameter | None

    def __init__(self, kind: ScoreKind, width: int, background: Float[Tensor, " band"]) -> None:
        super().__init__()
        if kind == "none":
            raise ValueError("a model without score has no physics heads")
        bands = background.shape[0]
        self.kind = kind
        learned = kind == "full"
        self.w_bg = nn.Parameter(torch.zeros(bands, width)) if learned else None
        self.b_bg = nn.Parameter(background.clone(), requires_grad=learned)
        if kind != "fixed":
            self.w_sw = nn.Parameter(torch.zeros(bands, width))
            self.b_sw = nn.Parameter(softplus_inverse(torch.ones(bands)))

    def forward(
        self,
        x: Float[Tensor, "batch band row col"],
        z: Float[Tensor, "batch width row col"],
        direction: Float[Tensor, "batch band"],
    ) -> Float[Tensor, "batch row col"]:
        """The score of eq:flame_score in the unit of 1 / `direction`.

        Args:
            x: Log-radiance, or its whitened form.
            z: Backbone features.
            direction: The fixed physical prior: the absorption spectrum in the coordinates of `x`, scaled.
        """
        with torch.autocast(x.device.type, enabled=False):
            flat_x, flat_z = x.flatten(2), z.flatten(2).to(x.dtype)
            if self.kind == "fixed":
                score = torch.bmm(direction[:, None], flat_x)[:, 0] - (direction @ self.b_bg)[:, None]
            elif torch.onnx.is_in_onnx_export():
                score = self._plain(flat_x, flat_z, direction)
            else:
                score = self._chunked(flat_x, flat_z, direction)
            return score.reshape(x.shape[0], *x.shape[2:])

    def _chunked(self, x: Tensor, z: Tensor, direction: Tensor) -> Tensor:
        """The score without either band-wide field in memory."""
        ones = torch.ones_like(z[:, :1])
        slope = torch.zeros_like(self.w_sw) if self.w_bg is None else self.w_bg
        background = torch.cat([slope, self.b_bg[:, None]], 1)
        weight = torch.cat([self.w_sw, self.b_sw[:, None]], 1)
        score: Tensor = _ChunkedScore.apply(  # type: ignore[no-untyped-call]
            x, torch.cat([z, ones], 1), direction, background, weight
        )
        return score

    def _plain(self, x: Tensor, z: Tensor, direction: Tensor) -> Tensor:
        """The same in operators that export; chunks stay, because they also save the runtime's memory."""
        tiles = []
        for tile in range(int(x.shape[0])):
            chunks = []
            for start in range(0, int(x.shape[2]), _CHUNK_PIXELS * 4):
                part = slice(start, start + _CHUNK_PIXELS * 4)
                here = z[tile, :, part]
                # Softplus spelled out: onnxruntime's own is not vectorised, and OpenVINO finds it again.
                logit = (self.w_sw @ here + self.b_sw[:, None]).clamp_max(_EXACT_LOGIT)
                weight = torch.log(torch.exp(logit) + 1.0)
                background = self.b_bg[:, None] if self.w_bg is None else self.w_bg @ here + self.b_bg[:, None]
                chunks.append(direction[tile : tile + 1] @ ((x[tile, :, part] - background) * weight))
            tiles.append(torch.cat(chunks, 1))
        return torch.cat(tiles)


class SegmentationHead(nn.Module):
    """Two 3x3 convolutions with batch norm and ReLU, then a 1x1 projection to one logit.

    Args:
        channels: Channels of [z, score, RGB].
        hidden: Width after the first and the second convolution.
        prior: Probability of plume that the untrained head answers.
    """

    def __init__(self, channels: int, hidden: tuple[int, int] = (28, 14), prior: float = 0.5) -> None:
        super().__init__()
        self.hidden = hidden
        first, second = hidden
        self.layers = nn.Sequential(
            nn.Conv2d(channels, first, 3, 1, 1, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(inplace=True),
            nn.Conv2d(first, second, 3, 1, 1, bias=False),
            nn.BatchNorm2d(second),
            nn.ReLU(inplace=True),
        )
        self.project = nn.Conv2d(second, 1, 1)
        nn.init.constant_(self.project.bias, float(torch.logit(torch.tensor(prior))))  # type: ignore[arg-type]

    def forward(self, inputs: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch row col"]:
        """Plume logit of each pixel."""
        logit: Tensor = self.project(self.layers(inputs.contiguous(memory_format=torch.channels_last)))
        return logit[:, 0]
