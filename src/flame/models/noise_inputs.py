"""Extra inputs that tell the network how a pixel stands in its own tile, in units that do not depend on the scene."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from flame.physics import ABSORPTION_UNIT_PPM_M

__all__ = ["NOISE_INPUTS", "PixelStatistics", "WhitenedTile", "noise_inputs"]

TINY = 1e-6
_CHUNK_PIXELS = 4096
FAINT_PPM_M = 500.0
CLUTTER_CLIP = 4.0
CLUTTER_WINDOW = 15


class PixelStatistics(ABC):
    """What the inputs are made of. An exported graph is given them, so that it need not go through all bands again."""

    @property
    @abstractmethod
    def response(self) -> Float[Tensor, "batch row col"]:
        """Matched-filter response in standard deviations of the tile's background."""

    @property
    @abstractmethod
    def ppm_m(self) -> Float[Tensor, "batch 1 1"]:
        """Enhancement that one standard deviation of the response stands for: the tile's noise, in ppm m."""

    @property
    @abstractmethod
    def power(self) -> Float[Tensor, "batch row col"]:
        """Mean square over the whitened bands."""

    @property
    @abstractmethod
    def brightness(self) -> Float[Tensor, "batch row col"]:
        """Mean log-radiance relative to the tile's median."""

    @property
    @abstractmethod
    def steps(self) -> Float[Tensor, "batch row step"]:
        """Mean square, over every fourth whitened band, of the difference between neighbouring columns.

        Every fourth is enough: with the nine pixels of `noise` they are 162 differences.
        """


def noise_ppm_m(target: Float[Tensor, "batch band"]) -> Float[Tensor, "batch 1 1"]:
    """`PixelStatistics.ppm_m` for a whitened target spectrum."""
    noise: Tensor = ABSORPTION_UNIT_PPM_M / target.norm(dim=1).clamp_min(TINY)
    return noise[:, None, None]


@dataclass(frozen=True, eq=False)
class WhitenedTile(PixelStatistics):
    """`PixelStatistics` of tiles: from log-radiance, its whitened form and the whitened target spectrum.

    The median over the tile of the mean log-radiance may be given; an exported graph cannot find it.
    """

    log: Float[Tensor, "batch band row col"]
    white: Float[Tensor, "batch band row col"]
    target: Float[Tensor, "batch band"]
    brightness_median: Float[Tensor, " batch"] | None = None

    @cached_property
    def response(self) -> Float[Tensor, "batch row col"]:
        """See `PixelStatistics`."""
        unit = self.target / self.target.norm(dim=1, keepdim=True).clamp_min(TINY)
        return torch.bmm(unit[:, None], self.white.flatten(2)).reshape(-1, *self.white.shape[2:])

    @property
    def ppm_m(self) -> Float[Tensor, "batch 1 1"]:
        """See `PixelStatistics`."""
        return noise_ppm_m(self.target)

    @cached_property
    def power(self) -> Float[Tensor, "batch row col"]:
        """See `PixelStatistics`."""
        if torch.onnx.is_in_onnx_export():
            return self.white.square().mean(1)
        batch, _, _, cols = self.white.shape
        rows = max(1, _CHUNK_PIXELS // (batch * cols))  # so many that their squares stay in the cache
        return torch.cat([part.square().mean(1) for part in torch.split(self.white, rows, 2)], 1)

    @cached_property
    def brightness(self) -> Float[Tensor, "batch row col"]:
        """See `PixelStatistics`."""
        mean = self.log.mean(1)
        median = mean.flatten(1).median(dim=1).values if self.brightness_median is None else self.brightness_median
        return mean - median[:, None, None]

    @cached_property
    def steps(self) -> Float[Tensor, "batch row step"]:
        """See `PixelStatistics`."""
        white = self.white[:, ::4]
        return (white[..., 1:] - white[..., :-1]).square_().mean(1)


def matched_filter(tile: PixelStatistics) -> Float[Tensor, "batch row col"]:
    """Matched-filter response in standard deviations, compressed beyond a few: asinh."""
    return torch.asinh(tile.response)


def brightness(tile: PixelStatistics) -> Float[Tensor, "batch row col"]:
    """Mean log-radiance relative to the tile's median."""
    return tile.brightness


def anomaly(tile: PixelStatistics) -> Float[Tensor, "batch row col"]:
    """Log of the Mahalanobis distance per band (RX; Reed and Yu 1990)."""
    return 0.5 * torch.log(tile.power + TINY)


def coherence(tile: PixelStatistics) -> Float[Tensor, "batch row col"]:
    """Share of the residual that points along methane, signed: the adaptive coherence estimator, times sqrt(bands)."""
    return tile.response * torch.rsqrt(tile.power + TINY)


def noise(tile: PixelStatistics) -> Float[Tensor, "batch row col"]:
    """Log of the local noise: what differs between neighbouring columns, averaged over bands and 3 x 3 pixels."""
    step = F.pad(tile.steps[:, None], (1, 1, 0, 0), mode="replicate")
    step = 0.25 * (step[..., 1:] + step[..., :-1])
    return 0.5 * torch.log(F.avg_pool2d(F.pad(step, (1, 1, 1, 1), mode="replicate"), 3, 1)[:, 0] + TINY)


def enhancement(tile: PixelStatistics) -> Float[Tensor, "batch row col"]:
    """Matched filter in ppm m, compressed: a plume's outline is drawn where the enhancement falls below some level."""
    return torch.asinh(tile.response * (tile.ppm_m / FAINT_PPM_M))


def clutter(tile: PixelStatistics) -> Float[Tensor, "batch row col"]:
    """Log of the root mean square of the matched filter around a pixel, in ppm m: what a plume must stand out from.

    The few strongest responses are clipped; they are plumes or single false alarms, not the ground around them.
    """
    power = tile.response.clamp(-CLUTTER_CLIP, CLUTTER_CLIP).square()[:, None]
    reach = CLUTTER_WINDOW // 2
    rows = F.avg_pool2d(F.pad(power, (0, 0, reach, reach), mode="replicate"), (CLUTTER_WINDOW, 1), 1)
    both = F.avg_pool2d(F.pad(rows, (reach, reach, 0, 0), mode="replicate"), (1, CLUTTER_WINDOW), 1)
    return 0.5 * torch.log(both[:, 0] + TINY) + torch.log(tile.ppm_m / FAINT_PPM_M)


NOISE_INPUTS: dict[str, Callable[[PixelStatistics], Tensor]] = {
    "matched_filter": matched_filter,
    "brightness": brightness,
    "anomaly": anomaly,
    "coherence": coherence,
    "noise": noise,
    "enhancement": enhancement,
    "clutter": clutter,
}


def noise_inputs(tile: PixelStatistics, names: tuple[str, ...]) -> Float[Tensor, "batch channel row col"]:
    """The named inputs as channels."""
    return torch.stack([NOISE_INPUTS[name](tile) for name in names], 1)
