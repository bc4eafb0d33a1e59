"""Losses of sec:training over valid pixels of the whole minibatch, whichever processes its tiles lie on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from flame.models import FlameOutput, FlameSettings
from flame.models.trained import AnySettings
from flame.training.batches import TrainingBatch
from flame.training.distributed import summed

__all__ = ["LossSettings", "Losses", "auxiliary_loss", "gamma", "retrieval_loss", "segmentation_loss", "training_loss"]

_DICE_SMOOTHING = 1.0
_FAINTEST_SHARE = 0.1


@dataclass(frozen=True)
class LossSettings:
    """Weights of the objective; the defaults are the paper's.

    Attributes:
        beta_max: Largest weight of the cross-entropy, beta = min(N- / N+, beta_max).
        beta_on: Whether beta scales the whole cross-entropy (eq:seg_loss) or its plume pixels only.
        rho: lambda of eq:aux_loss, rho_i = 1 + rho * teacher_i.
        teacher: Map that the score is taught with: MAG1C-SAS (eq:aux_loss), or the true enhancement of simulated tiles
            (`retrieval_loss`).
        teacher_epochs: T of gamma(t).
        teacher_weight: Factor of gamma(t); 0 trains without a teacher.
    """

    beta_max: float = 50.0
    beta_on: Literal["all", "plume"] = "all"
    rho: float = 10.0
    teacher: Literal["mag1c_sas", "truth"] = "mag1c_sas"
    teacher_epochs: float = 10.0
    teacher_weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Losses:
    """The objective of a batch and its parts."""

    total: Float[Tensor, ""]
    segmentation: Float[Tensor, ""]
    auxiliary: Float[Tensor, ""]


def gamma(epoch: int, settings: LossSettings) -> float:
    """Weight of the auxiliary loss: half a cosine from `teacher_weight` to 0 over `teacher_epochs`."""
    return settings.teacher_weight * 0.5 * (1.0 + math.cos(math.pi * min(epoch / settings.teacher_epochs, 1.0)))


def segmentation_loss(
    logit: Float[Tensor, "batch row col"],
    label: Bool[Tensor, "batch row col"],
    valid: Bool[Tensor, "batch row col"],
    settings: LossSettings,
) -> Float[Tensor, ""]:
    """Eq:seg_loss: Dice + beta BCE, beta = min(N- / N+, 50) of the minibatch."""
    seen = valid.to(logit.dtype)
    truth = (label & valid).to(logit.dtype)
    probability = torch.sigmoid(logit) * seen
    cross_entropy = F.binary_cross_entropy_with_logits(logit, truth, weight=seen, reduction="none")
    overlap, found, plume, pixels, on_plume, all_ce = summed(
        torch.stack(
            [
                (probability * truth).sum(),
                probability.sum(),
                truth.sum(),
                seen.sum(),
                (cross_entropy * truth).sum(),
                cross_entropy.sum(),
            ]
        )
    )
    dice = 1.0 - (2.0 * overlap + _DICE_SMOOTHING) / (found + plume + _DICE_SMOOTHING)
    beta = ((pixels - plume) / plume.clamp_min(1e-6)).clamp_max(settings.beta_max)
    weighted = beta * all_ce if settings.beta_on == "all" else all_ce + (beta - 1.0) * on_plume
    loss: Tensor = dice + weighted / pixels.clamp_min(1.0)
    return loss


def auxiliary_loss(
    score: Float[Tensor, "batch row col"],
    teacher: Float[Tensor, "batch row col"],
    valid: Bool[Tensor, "batch row col"],
    rho: float,
) -> Float[Tensor, ""]:
    """Eq:aux_loss: mean over valid pixels of (1 + rho teacher) |score - teacher|, both normalised and clipped."""
    # The teacher is cleared first: a NaN below a zero weight would still poison the gradient.
    target = torch.where(valid, teacher, torch.zeros_like(teacher))
    error = valid * (1.0 + rho * target) * (score - target).abs()
    total, pixels = summed(torch.stack([error.sum(), valid.sum().to(score.dtype)]))
    mean: Tensor = total / pixels.clamp_min(1.0)
    return mean


def retrieval_loss(
    score_ppm_m: Float[Tensor, "batch row col"],
    enhancement_ppm_m: Float[Tensor, "batch row col"],
    valid: Bool[Tensor, "batch row col"],
    tau_ppm_m: float,
) -> Float[Tensor, ""]:
    """Mean absolute error of the score against the truth, in units of tau: half for plume pixels, half for the others.

    Unlike eq:aux_loss it is taken before the clip and weighs both kinds of pixels alike. A score of zero is no refuge
    then, neither as the best answer for a mostly empty tile nor as a place without gradient.
    """
    truth = torch.where(valid, enhancement_ppm_m, torch.zeros_like(enhancement_ppm_m)) / tau_ppm_m
    error = (score_ppm_m / tau_ppm_m - truth).abs()
    plume = valid & (truth > _FAINTEST_SHARE)
    ground = valid & ~plume
    on_plume, plume_pixels, on_ground, ground_pixels = summed(
        torch.stack(
            [
                (error * plume).sum(),
                plume.sum().to(error.dtype),
                (error * ground).sum(),
                ground.sum().to(error.dtype),
            ]
        )
    )
    loss: Tensor = 0.5 * on_plume / plume_pixels.clamp_min(1.0) + 0.5 * on_ground / ground_pixels.clamp_min(1.0)
    return loss


def training_loss(
    output: FlameOutput, batch: TrainingBatch, model: AnySettings, settings: LossSettings, epoch: int
) -> Losses:
    """Eq:total_loss. Without a score, or without a teacher map, the auxiliary part is zero."""
    segmentation = segmentation_loss(output.logit.float(), batch.label, batch.usable, settings)
    weight = gamma(epoch, settings)
    teacher_ppm_m = batch.teacher_ppm_m if settings.teacher == "mag1c_sas" else batch.enhancement_ppm_m
    if output.score is None or output.score_ppm_m is None or teacher_ppm_m is None or weight == 0.0:
        return Losses(segmentation, segmentation.detach(), torch.zeros_like(segmentation))
    assert isinstance(model, FlameSettings)  # only FLAME has a score
    if settings.teacher == "truth":
        auxiliary = retrieval_loss(output.score_ppm_m.float(), teacher_ppm_m, batch.usable, model.tau_ppm_m)
    else:
        teacher = (teacher_ppm_m / model.tau_ppm_m).clamp(0.0, model.tau_max)
        auxiliary = auxiliary_loss(output.score.float(), teacher, batch.usable, settings.rho)
    return Losses(segmentation + weight * auxiliary, segmentation.detach(), auxiliary.detach())
