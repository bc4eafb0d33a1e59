"""FLAME: prepared tiles to plume probability through a neural operator and the physics-guided score (sec:flame)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.backbones import make_backbone
from flame.models.heads import PhysicsHeads, SegmentationHead, leaky_clamp
from flame.models.pointwise import pointwise
from flame.models.settings import FlameSettings, ModelSettingsError
from flame.models.statistics import SpectralStatistics
from flame.physics import ABSORPTION_UNIT_PPM_M
from flame.prepare import inverse_root

__all__ = ["Coordinates", "Flame", "FlameOutput"]

_TRAINING_FLOOR = 1e-8
_MANY = 1e12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Prepared spectra in the coordinates of the lift and of the score.

    Attributes:
        lifted: Input of the 1x1 lift (whitening by training statistics is folded into the lift's weights).
        basis: What `lifted` has to be multiplied by to be the lift's input, if it is not yet: the lift's weights are,
            which is less work. One for all, or one for each tile.
        scored: Spectra in the score's coordinates.
        direction: The absorption spectrum in those coordinates, scaled so that the score is in ppm m.
    """

    lifted: Float[Tensor, "batch band row col"]
    basis: Float[Tensor, "tile band band"] | None
    scored: Float[Tensor, "batch band row col"]
    direction: Float[Tensor, "batch band"]


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


def _times(matrix: Float[Tensor, "band band"], field: Float[Tensor, "batch band row col"]) -> Tensor:
    """A matrix times the spectrum of each pixel."""
    return (matrix @ field.flatten(2)).reshape(field.shape)


class Flame(nn.Module):
    """The network of the paper and, by its settings, its ablations and improvements.

    It takes tiles as `flame.prepare` makes them (`flame.models.inputs.BatchPreparer`), not radiance.

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
        covariance = statistics.covariance.astype(np.float64)
        leading = np.linalg.eigh(covariance).eigenvectors[:, p - min(settings.projected_directions, p - 1) :]
        for name, value in (
            ("mean", statistics.mean),
            ("whitening", inverse_root(covariance, _MANY, _TRAINING_FLOOR)),
            ("projection", np.eye(p) - leading @ leading.T),
            ("variance", covariance.diagonal()),
            ("unit_spectrum", unit_spectrum),
        ):
            self.register_buffer(name, torch.tensor(np.array(value), dtype=torch.float32))
        self.lift = nn.Conv2d(p + len(settings.prepare.pixel_fields), settings.width, 1)
        if settings.lift_start == "matched_filter":
            self._start_lift_as_matched_filter()
        self.backbone = make_backbone(settings.backbone, settings.width, settings.modes)
        start = self.mean if settings.score_space == "log" else torch.zeros(p)
        self.heads = None if settings.score == "none" else PhysicsHeads(settings.score, settings.width, start)
        channels = settings.width + (settings.score != "none") + 3 * ("rgb" in settings.inputs)
        self.segmentation = SegmentationHead(channels, prior=settings.plume_prior)

    @torch.no_grad()
    def _start_lift_as_matched_filter(self) -> None:
        """The first feature starts as the matched filter of the lift's coordinates, in standard deviations."""
        whitened = self.settings.conditioning != "none"
        target = self.whitening @ self.unit_spectrum if whitened else self.unit_spectrum / self.variance
        self.lift.weight[0] = 0.0
        self.lift.weight[0, : self.settings.bands, 0, 0] = target / target.norm()

    def forward(self, inputs: Mapping[str, Float[Tensor, "batch ..."]]) -> FlameOutput:
        """Plume logits and score of a batch of prepared tiles of any size.

        Args:
            inputs: What `settings.inputs` names, as `PreparedBatch.inputs` holds it.
        """
        coordinates = self.coordinates(inputs)
        z = self.backbone(self.lifted(coordinates, inputs.get("pixel_fields")))
        parts = [z]
        score = score_ppm_m = None
        if self.heads is not None:
            score_ppm_m = self.heads(coordinates.scored, z, coordinates.direction)
            leak = self.settings.clamp_leak if self.training else 0.0
            score = leaky_clamp(score_ppm_m / self.settings.tau_ppm_m, self.settings.tau_max, leak)
            parts.append(score[:, None])
        if "rgb" in self.settings.inputs:
            parts.append(inputs["rgb"])
        return FlameOutput(self.segmentation(torch.cat(parts, 1)), score, score_ppm_m)

    @torch.no_grad()
    def coordinates(self, inputs: Mapping[str, Float[Tensor, "batch ..."]]) -> Coordinates:
        """Spectra in the coordinates of lift and score; always in single precision: half would round methane away.

        What the tile's background gives may stand once for several blocks of spectra, as in exported graphs.
        """
        with torch.autocast(self.mean.device.type, enabled=False):
            spectra = inputs[self.settings.spectra]
            lifted, basis = self._lift_space(spectra, inputs)
            scored, direction = self._score_space(spectra, inputs)
            return Coordinates(lifted, basis, scored, direction.expand(int(spectra.shape[0]), -1))

    def _lift_space(self, spectra: Tensor, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        kind = self.settings
        if kind.spectra == "whitened":
            basis = self.whitening @ inputs["unwhitening"] if kind.lift_space == "training" else None
            return spectra, basis
        if kind.conditioning != "tile":
            return spectra, None
        # Centred before the product: the whitening's entries are in the hundreds and would magnify rounding.
        centred = spectra - inputs["background_mean"][:, :, None, None]
        return centred, inputs["whitening"] if kind.lift_space == "tile" else self.whitening[None]

    def _score_space(self, spectra: Tensor, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        kind = self.settings
        if kind.spectra == "whitened":
            target = inputs["target"] if kind.score != "none" else self.unit_spectrum[None]
            return spectra, per_ppm_m(target)
        if kind.score_space == "log":
            return spectra, self.log_direction()
        matrix = self.projection if kind.score_space == "projected" else self.whitening
        centred = spectra - self.mean[None, :, None, None]
        return _times(matrix, centred), per_ppm_m((matrix @ self.unit_spectrum)[None])

    def log_direction(self) -> Float[Tensor, "1 band"]:
        """Direction of the score in log-radiance, each band weighed by its variance in training if the model does."""
        weight = 1.0 / self.variance.clamp_min(1e-12) if self.settings.band_variance else None
        return per_ppm_m(self.unit_spectrum[None], weight)

    def folded_lift(self) -> tuple[Float[Tensor, "width channel"], Float[Tensor, " width"]]:
        """Weight and bias of the lift on spectra and pixel fields, whitening by training statistics folded in."""
        weight, bias = self.lift.weight[:, :, 0, 0], self.lift.bias
        assert bias is not None
        if self.settings.conditioning == "training":
            weight = weight @ self.whitening
            bias = bias - weight @ self.mean
        return weight, bias

    def lifted(
        self, coordinates: Coordinates, pixel_fields: Float[Tensor, "batch field row col"] | None
    ) -> Float[Tensor, "batch width row col"]:
        """The field that the backbone takes, in single precision too: the folded weights are in the hundreds."""
        with torch.autocast(self.mean.device.type, enabled=False):
            weight, bias = self.folded_lift()
            bands = self.settings.bands
            spectral = weight[:, :bands] if coordinates.basis is None else weight[:, :bands] @ coordinates.basis
            field = pointwise(coordinates.lifted, spectral, bias)
            if pixel_fields is not None:
                field = field + pointwise(pixel_fields, weight[:, bands:], torch.zeros_like(bias))
            return field
