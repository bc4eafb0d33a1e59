"""The physics heads with the score of eq:flame_score, and the segmentation head (sec:heads)."""

from __future__ import annotations

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


def _fields(x: Tensor, z: Tensor, w_bg: Tensor | None, b_bg: Tensor, w_sw: Tensor, b_sw: Tensor) -> tuple[Tensor, ...]:
    """Residual and weight logits of one chunk, both (band, pixel)."""
    residual = x - b_bg[:, None] if w_bg is None else (x - torch.addmm(b_bg[:, None], w_bg, z))
    return residual, torch.addmm(b_sw[:, None], w_sw, z)


class _ChunkedScore(torch.autograd.Function):
    """sum_j (x - W_bg z - b_bg)_j softplus(W_sw z + b_sw)_j d_j, its two band-wide fields made chunk by chunk only.

    Backward makes them again, so nothing with `band` channels is kept between the two.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, direction: Tensor, *heads: Tensor | None) -> Tensor:
        w_bg, b_bg, w_sw, b_sw = heads
        assert b_bg is not None
        assert w_sw is not None
        assert b_sw is not None
        ctx.save_for_backward(x, z, direction, *heads)
        score = x.new_empty(x.shape[0], x.shape[2])
        for tile in range(x.shape[0]):
            for start in range(0, x.shape[2], _CHUNK_PIXELS):
                part = slice(start, start + _CHUNK_PIXELS)
                residual, logit = _fields(x[tile, :, part], z[tile, :, part], w_bg, b_bg, w_sw, b_sw)
                torch.mv(residual.mul_(F.softplus(logit)).T, direction[tile], out=score[tile, part])
        return score

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, z, direction, w_bg, b_bg, w_sw, b_sw = ctx.saved_tensors
        grad_z = torch.zeros_like(z)
        d_w_bg, d_b_bg = (None, None) if w_bg is None else (torch.zeros_like(w_bg), torch.zeros_like(b_bg))
        d_w_sw, d_b_sw = torch.zeros_like(w_sw), torch.zeros_like(b_sw)
        for tile in range(x.shape[0]):
            for start in range(0, x.shape[2], _CHUNK_PIXELS):
                part = slice(start, start + _CHUNK_PIXELS)
                here = z[tile, :, part]
                residual, logit = _fields(x[tile, :, part], here, w_bg, b_bg, w_sw, b_sw)
                cotangent = direction[tile][:, None] * grad[tile, part]
                if w_bg is not None and d_w_bg is not None and d_b_bg is not None:
                    d_background = F.softplus(logit).mul_(cotangent)  # with the sign turned
                    d_w_bg.addmm_(d_background, here.T, alpha=-1)
                    d_b_bg.sub_(d_background.sum(1))
                    grad_z[tile, :, part].addmm_(w_bg.T, d_background, alpha=-1)
                d_logit = residual.mul_(cotangent).mul_(logit.sigmoid_())
                d_w_sw.addmm_(d_logit, here.T)
                d_b_sw.add_(d_logit.sum(1))
                grad_z[tile, :, part].addmm_(w_sw.T, d_logit)
        return None, grad_z, None, d_w_bg, d_b_bg, d_w_sw, d_b_sw


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
        batch, _, rows, cols = x.shape
        flat_x, flat_z = x.flatten(2), z.flatten(2).to(x.dtype)
        if self.kind == "fixed":
            offset = direction @ self.b_bg
            score = torch.bmm(direction[:, None], flat_x)[:, 0] - offset[:, None]
        elif torch.onnx.is_in_onnx_export():
            score = self._plain(flat_x, flat_z, direction)
        else:
            with torch.autocast(x.device.type, enabled=False):
                score = _ChunkedScore.apply(  # type: ignore[no-untyped-call]
                    flat_x, flat_z, direction, self.w_bg, self.b_bg, self.w_sw, self.b_sw
                )
        return score.reshape(batch, rows, cols)

    def _plain(self, x: Tensor, z: Tensor, direction: Tensor) -> Tensor:
        """The same in operators that export; chunks stay, because they also save the runtime's memory."""
        chunks = []
        for start in range(0, int(x.shape[2]), _CHUNK_PIXELS * 4):
            part = slice(start, start + _CHUNK_PIXELS * 4)
            weight = F.softplus(self.w_sw @ z[:, :, part] + self.b_sw[:, None]) * direction[:, :, None]
            background = self.b_bg[:, None] if self.w_bg is None else self.w_bg @ z[:, :, part] + self.b_bg[:, None]
            chunks.append(((x[:, :, part] - background) * weight).sum(1))
        return torch.cat(chunks, 1)


class SegmentationHead(nn.Module):
    """Two 3x3 convolutions with batch norm and ReLU, then a 1x1 projection to one logit.

    Args:
        channels: Channels of [z, score, RGB].
        hidden: Width after the first and the second convolution.
        prior: Probability of plume that the untrained head answers.
    """

    def __init__(self, channels: int, hidden: tuple[int, int] = (28, 14), prior: float = 0.5) -> None:
        super().__init__()
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
        logit: Tensor = self.project(self.layers(inputs))
        return logit[:, 0]
