"""The network: functions of wavelength, neural operator, physics-guided score, and what is predicted of each pixel.

The score is eq:flame_score with the pixel's own covariance: (l - l_B)^T (w * C_i^-1 s), the weight w and the background
l_B being functions of wavelength, known at the windows of `flame.prepare.planes`. With w = 1 and l_B the tile's mean it
is the noise-aware filter, and there it starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.backbones import DEFAULT_MODES, make_backbone
from flame.models.heads import softplus_inverse
from flame.models.plus.settings import LEVELS_PPM_M, PlusSettings
from flame.models.pointwise import pointwise
from flame.prepare.planes import (
    FIELD_NAMES,
    GRID_NM,
    LEAST_SPREAD,
    LOG_SPREADS,
    MEANS,
    MOST_LEAD,
    NORMAL_TO_LOGIT,
    WIDTHS_PX,
)
from flame.prepare.planes.wavelengths import WINDOWS_NM

__all__ = ["OUTPUTS", "FlamePlus", "PlaneBatch", "PlusOutput", "SpectralBatch", "compressed"]

OUTPUTS = len(LEVELS_PPM_M) + 3 + len(WIDTHS_PX)
"""Corrections of the levels' logits, logit of the outline, change of the median, log-spread of the enhancement, and how
much each averaged estimate counts beside the pixel's own."""

_FIRST_LOGIT = -4.0
_FIRST_CORRECTION = -2.0


@dataclass(frozen=True, eq=False)
class SpectralBatch:
    """Spectra of tiles of one sensor, as `flame.prepare.planes.SpectralView` holds them.

    Attributes:
        residual: Log-radiance about each tile's mean.
        inverse_brightness: One over the brightness.
        read_out, shot: Noise of each band.
        weights: `flame.prepare.planes.band_weights` of the sensor.
    """

    residual: Float[Tensor, "batch band row col"]
    inverse_brightness: Float[Tensor, "batch row col"]
    read_out: Float[Tensor, "batch band"]
    shot: Float[Tensor, "batch band"]
    weights: Float[Tensor, "cell band"]


@dataclass(frozen=True, eq=False)
class PlaneBatch:
    """Planes of tiles, of any sensors.

    Attributes:
        spectral: Learned functions of wavelength applied to the spectra, in standard deviations.
        fields, windows, estimate_ppm_m, sigma_ppm_m: As in `flame.prepare.planes.PlaneTile`.
    """

    spectral: Float[Tensor, "batch function row col"]
    fields: Float[Tensor, "batch field row col"]
    windows: Float[Tensor, "batch window row col"]
    estimate_ppm_m: Float[Tensor, "batch row col"]
    sigma_ppm_m: Float[Tensor, "batch row col"]


@dataclass(frozen=True, eq=False)
class PlusOutput:
    """What is said of each pixel.

    Attributes:
        level_logits: Logits of the enhancement exceeding each of `LEVELS_PPM_M`.
        outline_logit: Logit of an annotator's outline.
        median: Median of the enhancement: asinh of its number of sigmas.
        log_spread: Log of the standard deviation of that.
        score_sigma: Physics-guided score in standard deviations of the filter's estimate.
    """

    level_logits: Float[Tensor, "batch level row col"]
    outline_logit: Float[Tensor, "batch row col"]
    median: Float[Tensor, "batch row col"]
    log_spread: Float[Tensor, "batch row col"]
    score_sigma: Float[Tensor, "batch row col"]


def compressed(value: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """asinh, spelled out: torch's own is five times slower on CPUs, and no part of ONNX."""
    size = value.abs()
    return torch.sign(value) * torch.log(size + torch.sqrt(size * size + 1.0))


class FlamePlus(nn.Module):
    """The second flame-plus.

    Args:
        settings: Architecture.
        conditioning: Matrix on the wavelength grid after which spectra of the training set have unit variance in every
            direction; the unit matrix if not given.
    """

    conditioning: Tensor

    def __init__(self, settings: PlusSettings, conditioning: Float[np.ndarray, "cell cell"] | None = None) -> None:
        super().__init__()
        self.settings = settings
        cells, windows = len(GRID_NM), len(WINDOWS_NM)
        whole = np.eye(cells) if conditioning is None else conditioning
        self.register_buffer("conditioning", torch.tensor(whole, dtype=torch.float32))
        self.functions = nn.Parameter(torch.randn(settings.functions, cells))
        given = len(FIELD_NAMES) + windows if settings.fields else 0
        self.lift = nn.Conv2d(settings.functions + given, settings.width, 1)
        self.backbone = make_backbone(settings.backbone, settings.width, DEFAULT_MODES)
        self.weight_head = nn.Conv2d(settings.width, windows, 1)
        self.background_head = nn.Conv2d(settings.width, windows, 1)
        hidden = settings.hidden
        self.of_fields = nn.Conv2d(len(FIELD_NAMES), hidden, 1, bias=False) if settings.fields else None
        self.segmentation = nn.Sequential(
            nn.Conv2d(settings.width + 2 * settings.score, hidden, 3, 1, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, 3, 1, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(inplace=True),
        )
        self.project = nn.Conv2d(hidden, OUTPUTS, 1)
        with torch.no_grad():
            for head in (self.weight_head, self.background_head):
                head.weight.zero_()
                head.bias.zero_()  # type: ignore[union-attr]
            self.weight_head.bias.fill_(float(softplus_inverse(torch.tensor(1.0))))  # type: ignore[union-attr]
            self.project.weight.mul_(0.3)
            self.project.bias.zero_()  # type: ignore[union-attr]
            self.project.bias[: len(LEVELS_PPM_M)] = _FIRST_CORRECTION  # type: ignore[index]
            self.project.bias[len(LEVELS_PPM_M)] = _FIRST_LOGIT  # type: ignore[index]

    def without_functions(self) -> FlamePlus:
        """The same network, its functions of wavelength hidden for good, as they are from some tiles in training."""
        hidden = FlamePlus(replace(self.settings, functions=0))
        weights = dict(self.state_dict())
        weights["functions"] = weights["functions"][:0]
        weights["lift.weight"] = weights["lift.weight"][:, self.settings.functions :].clone()
        hidden.load_state_dict(weights)
        return hidden.train(self.training)

    def band_functions(self, weights: Float[Tensor, "cell band"]) -> Float[Tensor, "function band"]:
        """The learned functions as weights of a sensor's bands."""
        unit = F.normalize(self.functions, dim=1)
        return unit @ self.conditioning @ weights

    def spectral(self, spectra: SpectralBatch) -> Float[Tensor, "batch function row col"]:
        """The functions applied to spectra, each divided by what training ground and this pixel's noise make of it."""
        own = self.band_functions(spectra.weights)
        square = own.square()
        values = pointwise(spectra.residual, own, own.new_zeros(len(own)))
        inverse = spectra.inverse_brightness[:, None]
        read_out, shot = (noise @ square.T for noise in (spectra.read_out, spectra.shot))
        noise = inverse * (shot[:, :, None, None] + inverse * read_out[:, :, None, None])
        return values * torch.rsqrt(1.0 + noise)

    def forward(self, planes: PlaneBatch) -> PlusOutput:
        """Everything from the planes on; the same for every sensor."""
        kind = self.settings
        parts = [compressed(planes.spectral)] if kind.functions else []
        if kind.fields:
            parts += [planes.fields, compressed(planes.windows)]
        z = self.features(torch.cat(parts, 1))
        score = self.score(z, planes.windows, planes.estimate_ppm_m / planes.sigma_ppm_m)
        sigma = planes.sigma_ppm_m / kind.planes.reference_ppm_m
        out = self.judge(z, planes.fields, score, score * sigma)
        levels = len(LEVELS_PPM_M)
        median = out[:, levels + 1]
        if kind.fields:
            means = compressed(torch.sinh(planes.fields[:, MEANS]) / sigma[:, None])
            shares = torch.softmax(F.pad(out[:, levels + 3 :], (0, 0, 0, 0, 1, 0)), 1)
            median = (shares * torch.cat([compressed(score)[:, None], means], 1)).sum(1) + median
        elif kind.score:
            median = compressed(score) + median
        log_spread = out[:, levels + 2].clamp(*LOG_SPREADS)
        place = compressed(out.new_tensor(LEVELS_PPM_M)[:, None, None] / planes.sigma_ppm_m[:, None])
        width = torch.sqrt(torch.exp(2.0 * log_spread) + LEAST_SPREAD**2)[:, None]
        lead = NORMAL_TO_LOGIT * (median[:, None] - place) / width
        return PlusOutput(
            level_logits=out[:, :levels] + MOST_LEAD * torch.tanh(lead / MOST_LEAD),
            outline_logit=out[:, levels],
            median=median,
            log_spread=log_spread,
            score_sigma=score,
        )

    def features(self, seen: Float[Tensor, "batch plane row col"]) -> Float[Tensor, "batch width row col"]:
        """Features of all planes that the lift sees."""
        weight, bias = self.lift.weight[:, :, 0, 0], self.lift.bias
        assert bias is not None
        z: Tensor = self.backbone(pointwise(seen, weight, bias))
        return z

    def judge(
        self,
        z: Float[Tensor, "batch width row col"],
        fields: Float[Tensor, "batch field row col"],
        score: Float[Tensor, "batch row col"],
        enhancement: Float[Tensor, "batch row col"],
    ) -> Float[Tensor, "batch output row col"]:
        """All outputs, from features, fields and the score in standard deviations and in units of the reference."""
        joined = z
        if self.settings.score:
            joined = torch.cat([z, compressed(score)[:, None], compressed(enhancement)[:, None]], 1)
        near: Tensor = self.segmentation[0](joined)
        if self.of_fields is not None:
            near = near + self.of_fields(fields)
        out: Tensor = self.project(self.segmentation[1:](near))
        return out.float()  # in training its products may have half the digits

    def score(
        self,
        z: Float[Tensor, "batch width row col"],
        windows: Float[Tensor, "batch window row col"],
        start: Float[Tensor, "batch row col"],
    ) -> Float[Tensor, "batch row col"]:
        """The physics-guided score in standard deviations: the filter's estimate, its spectrum weighed anew.

        Args:
            z: Features.
            windows: What each window contributes to the estimate.
            start: The estimate.
        """
        if not self.settings.score:
            return start
        weight, background = F.softplus(self.weight_head(z)), self.background_head(z)
        change: Tensor = ((weight - 1.0) * windows - weight * background).sum(1)
        return start + change
