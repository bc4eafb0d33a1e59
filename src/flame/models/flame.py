"""FLAME: log-radiance to plume probability through a neural operator and the physics-guided score (sec:flame)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from flame.models.backbones import make_backbone
from flame.models.conditioning import Background, SpectralStatistics, symmetric_whitening, tile_background
from flame.models.fields import fill_invalid, floored_log, usable_pixels
from flame.models.heads import PhysicsHeads, SegmentationHead, leaky_clamp
from flame.models.noise_inputs import WhitenedTile, noise_inputs
from flame.models.pointwise import pointwise
from flame.models.settings import FlameSettings, ModelSettingsError
from flame.physics import ABSORPTION_UNIT_PPM_M

__all__ = ["Conditioned", "Flame", "FlameOutput"]

_TRAINING_FLOOR = 1e-8


@dataclass(frozen=True, eq=False)
class Conditioned:
    """What the learned part of FLAME takes: fields computed from the tile without any learned weight.

    Attributes:
        lifted: Input of the 1x1 lift (whitening by training statistics is folded into the lift's weights).
        extra: The lift's further inputs, if the model has any.
        scored: Log-radiance in the score's coordinates.
        direction: The absorption spectrum in those coordinates, scaled so that the score is in ppm m.
        rgb: Normalised RGB of the segmentation head.
        basis: What `lifted` has to be multiplied by to be the lift's input, if it is not yet (exported graphs).
    """

    lifted: Float[Tensor, "batch band row col"]
    extra: Float[Tensor, "batch channel row col"] | None
    scored: Float[Tensor, "batch band row col"]
    direction: Float[Tensor, "batch band"]
    rgb: Float[Tensor, "batch rgb row col"] | None
    basis: Float[Tensor, "band band"] | None = None


@dataclass(frozen=True, eq=False)
class FlameOutput:
    """Result of a forward pass; the score is None in the ablation without one.

    Attributes:
        logit: Plume logit; its sigmoid is the probability.
        score: Score divided by tau and clipped to [0, tau_max].
        score_ppm_m: The score before both, in ppm m.
    """

    logit: Float[Tensor, "batch row col"]
    score: Float[Tensor, "batch row col"] | None
    score_ppm_m: Float[Tensor, "batch row col"] | None


def per_ppm_m(target: Float[Tensor, "batch band"], weight: Float[Tensor, " band"] | None = None) -> Tensor:
    """Direction d with `x . d` in ppm m for a residual x: the least-squares filter for `target`."""
    weighted = target if weight is None else target * weight
    return ABSORPTION_UNIT_PPM_M * weighted / (weighted * target).sum(1, keepdim=True).clamp_min(1e-30)


class Flame(nn.Module):
    """The network of the paper and, by its settings, its ablations and improvements.

    Args:
        settings: Architecture.
        unit_spectrum: `flame.physics.unit_absorption` of the sensor's bands, per 100,000 ppm m.
        statistics: Mean and covariance of the training set's log-radiance.
    """

    mean: Tensor
    whitening: Tensor
    projection: Tensor
    variance: Tensor
    unit_spectrum: Tensor

    def __init__(
        self,
        settings: FlameSettings,
        unit_spectrum: Float[np.ndarray, " band"],
        statistics: SpectralStatistics | None = None,
    ) -> None:
        super().__init__()
        p = settings.bands
        statistics = statistics or SpectralStatistics.standard(p)
        if unit_spectrum.shape != (p,) or statistics.mean.shape != (p,):
            raise ModelSettingsError(
                f"the model has {p} bands, but the absorption spectrum {unit_spectrum.shape[0]} and the training "
                f"statistics {statistics.mean.shape[0]}"
            )
        self.settings = settings
        covariance = torch.tensor(statistics.covariance, dtype=torch.float64)
        leading = torch.linalg.eigh(covariance).eigenvectors[:, p - min(settings.projected_directions, p - 1) :]
        whitening = symmetric_whitening(covariance[None], torch.tensor([1e12]), _TRAINING_FLOOR)[0]
        for name, value in (
            ("mean", torch.tensor(statistics.mean)),
            ("whitening", whitening),
            ("projection", torch.eye(p) - leading @ leading.T),
            ("variance", covariance.diagonal()),
            ("unit_spectrum", torch.tensor(np.array(unit_spectrum))),
        ):
            self.register_buffer(name, value.to(torch.float32))
        self.lift = nn.Conv2d(p + len(settings.noise_inputs), settings.width, 1)
        if settings.lift_start == "matched_filter":
            self._start_lift_as_matched_filter()
        self.backbone = make_backbone(settings.backbone, settings.width, settings.modes)
        start = self.mean if settings.score_space == "log" else torch.zeros(p)
        self.heads = None if settings.score == "none" else PhysicsHeads(settings.score, settings.width, start)
        channels = settings.width + (settings.score != "none") + 3 * (settings.rgb != "none")
        self.segmentation = SegmentationHead(channels, prior=settings.plume_prior)

    @torch.no_grad()
    def _start_lift_as_matched_filter(self) -> None:
        """The first feature starts as the matched filter of the lift's coordinates, in standard deviations."""
        whitened = self.settings.conditioning != "none"
        target = self.whitening @ self.unit_spectrum if whitened else self.unit_spectrum / self.variance
        self.lift.weight[0] = 0.0
        self.lift.weight[0, : self.settings.bands, 0, 0] = target / target.norm()

    def forward(
        self,
        radiance: Float[Tensor, "batch band row col"],
        rgb: Float[Tensor, "batch 3 row col"] | None,
        valid: Bool[Tensor, "batch row col"],
    ) -> FlameOutput:
        """Plume logits and score of a batch of tiles of any size.

        Args:
            radiance: SWIR radiance in µW cm-2 nm-1 sr-1; what stands under an invalid pixel is never read.
            rgb: Radiance near 640, 550 and 460 nm; may be None if the model does not use it.
            valid: Pixels that may be used.
        """
        return self.network(self.condition(radiance, rgb, valid))

    @torch.no_grad()
    def condition(
        self,
        radiance: Float[Tensor, "batch band row col"],
        rgb: Float[Tensor, "batch 3 row col"] | None,
        valid: Bool[Tensor, "batch row col"],
    ) -> Conditioned:
        """Everything that is computed from the data alone: logarithm, hole filling, whitening, extra inputs.

        Always in single precision: half of it would round methane away.
        """
        with torch.autocast(radiance.device.type, enabled=False):
            return self._condition(radiance.to(self.mean.dtype), rgb, valid)

    def _condition(self, radiance: Tensor, rgb: Tensor | None, valid: Tensor) -> Conditioned:
        kind = self.settings
        usable = usable_pixels(radiance, valid)
        if kind.rgb != "none":
            if rgb is None:
                raise ModelSettingsError("this model takes RGB, but the scene has none")
            usable = usable_pixels(rgb, usable)
        log = floored_log(radiance, usable)
        if kind.conditioning == "tile":
            background = tile_background(log, usable, self.unit_spectrum, kind.background)
        else:
            background = Background(self.mean[None], self.whitening[None])
        return self.in_coordinates(log, background, self._rgb(rgb, usable))

    def in_coordinates(
        self,
        log: Float[Tensor, "batch band row col"],
        background: Background,
        rgb: Float[Tensor, "batch rgb row col"] | None,
        brightness_median: Float[Tensor, " batch"] | None = None,
    ) -> Conditioned:
        """The second half of `condition`, which is part of an exported graph: whitening, extra inputs, coordinates.

        Args:
            log: Log-radiance without holes.
            background: The tile's or the training set's.
            rgb: Normalised RGB, if the model uses it.
            brightness_median: Median over the tile of its mean log-radiance; found here unless given.
        """
        kind = self.settings
        needs_white = kind.conditioning == "tile" or kind.score_space == "whitened" or bool(kind.noise_inputs)
        white = background.whiten(log) if needs_white else log
        lifted = white if kind.conditioning == "tile" or kind.noise_inputs else log
        if kind.conditioning == "tile" and kind.lift_space == "training":
            everywhere = self.whitening.expand(background.mean.shape[0], -1, -1)
            lifted = Background(background.mean, everywhere).whiten(log)
        target = background.target(self.unit_spectrum)
        extra = None
        if kind.noise_inputs:
            expanded = target.expand(log.shape[0], -1)
            extra = noise_inputs(WhitenedTile(log, white, expanded, brightness_median), kind.noise_inputs)
        if kind.score_space == "whitened":
            scored, direction = white, per_ppm_m(target)
        elif kind.score_space == "projected":
            projection = Background(self.mean[None], self.projection[None])
            scored, direction = projection.whiten(log), per_ppm_m(projection.target(self.unit_spectrum))
        else:
            weight = 1.0 / self.variance.clamp_min(1e-12) if kind.band_variance else None
            scored, direction = log, per_ppm_m(self.unit_spectrum[None], weight)
        return Conditioned(lifted, extra, scored, direction.expand(log.shape[0], -1), rgb)

    def _rgb(self, rgb: Tensor | None, usable: Tensor) -> Tensor | None:
        if self.settings.rgb == "none" or rgb is None:
            return None
        if self.settings.rgb == "fixed":
            return fill_invalid(rgb / self.settings.rgb_scale, usable)
        log = floored_log(rgb, usable)
        return log - log.mean((2, 3), keepdim=True)

    def folded_lift(self) -> tuple[Float[Tensor, "width channel"], Float[Tensor, " width"]]:
        """Weight and bias of the lift on [lifted, extra], whitening by training statistics folded in."""
        weight, bias = self.lift.weight[:, :, 0, 0], self.lift.bias
        assert bias is not None
        if self.settings.conditioning == "training" and not self.settings.noise_inputs:
            weight = weight @ self.whitening
            bias = bias - weight @ self.mean
        return weight, bias

    def lifted(self, inputs: Conditioned) -> Float[Tensor, "batch width row col"]:
        """The field that the backbone takes, in single precision too: the folded weights are in the hundreds."""
        with torch.autocast(inputs.lifted.device.type, enabled=False):
            return self._lifted(inputs)

    def _lifted(self, inputs: Conditioned) -> Tensor:
        weight, bias = self.folded_lift()
        bands = self.settings.bands
        spectral = weight[:, :bands] if inputs.basis is None else weight[:, :bands] @ inputs.basis
        field = pointwise(inputs.lifted, spectral, bias)
        if inputs.extra is not None:
            field = field + pointwise(inputs.extra, weight[:, bands:], torch.zeros_like(bias))
        return field

    def network(self, inputs: Conditioned) -> FlameOutput:
        """The learned part: lift, backbone, heads, score, segmentation."""
        z = self.backbone(self.lifted(inputs))
        parts = [z]
        score = score_ppm_m = None
        if self.heads is not None:
            score_ppm_m = self.heads(inputs.scored, z, inputs.direction)
            leak = self.settings.clamp_leak if self.training else 0.0
            score = leaky_clamp(score_ppm_m / self.settings.tau_ppm_m, self.settings.tau_max, leak)
            parts.append(score[:, None])
        if inputs.rgb is not None:
            parts.append(inputs.rgb)
        return FlameOutput(self.segmentation(torch.cat(parts, 1)), score, score_ppm_m)
