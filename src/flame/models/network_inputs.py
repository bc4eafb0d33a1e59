"""Fields of a tile by name, and how a network that learns from them wants them scaled.

A network says what it takes by name and is given just that. Whoever prepares a tile computes each field once; a network
does not know whether it came from a file, from a simulator or from the on-board computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from flame.errors import FlameError

__all__ = ["INPUT_FIELDS", "InputField", "Normalise", "UnknownInputError", "channels_of"]

_STARCOP_FILTER_PPM_M = 1750.0
_STARCOP_RGB = 60.0
_STARCOP_MAX = 2.0


class UnknownInputError(FlameError):
    """The name of an input that no prepared tile has, or a set of inputs that a network cannot take."""


@dataclass(frozen=True)
class InputField:
    """A field that a network may take.

    Attributes:
        meaning: What it is, with its unit.
        channels: Its channels; 0 stands for one a SWIR band.
        scale: What it is divided by at the network's entrance.
        low: Lower clip after the division.
        high: Upper clip.
        standardised: Whether each channel is brought to zero mean and unit spread over the training set.
    """

    meaning: str
    channels: int = 0
    scale: float = 1.0
    low: float = -torch.inf
    high: float = torch.inf
    standardised: bool = False


INPUT_FIELDS: dict[str, InputField] = {
    "radiance": InputField("SWIR radiance, µW cm-2 nm-1 sr-1", standardised=True),
    "log_radiance": InputField("natural logarithm of SWIR radiance, holes filled", standardised=True),
    "whitened": InputField("log-radiance whitened by the tile's own background, in standard deviations"),
    "rgb_radiance": InputField("radiance near 640, 550 and 460 nm", 3, _STARCOP_RGB, 0.0, _STARCOP_MAX),
    "rgb_log_ratio": InputField("logarithm of RGB less its mean over the tile", 3),
    "filter_ppm_m": InputField("enhancement by a classical filter, ppm m", 1, _STARCOP_FILTER_PPM_M, 0.0, _STARCOP_MAX),
    "filter_sigma": InputField("response of the log-domain matched filter, in standard deviations", 1),
}
"""Scales and clips of `rgb_radiance` and `filter_ppm_m` are HyperSTARCOP's (Růžička et al. 2023)."""


def channels_of(inputs: Sequence[str], bands: int) -> int:
    """Channels of these fields together.

    Raises:
        UnknownInputError: If a name is not known or comes twice; the message lists those that are.
    """
    for name in inputs:
        if name not in INPUT_FIELDS:
            raise UnknownInputError(f"no input '{name}'; known are {', '.join(INPUT_FIELDS)}")
    if not inputs or len(set(inputs)) < len(inputs):
        raise UnknownInputError(f"a network takes each input once and at least one, got {', '.join(inputs) or 'none'}")
    return sum(INPUT_FIELDS[name].channels or bands for name in inputs)


class Normalise(nn.Module):
    """A field as a network wants it: `(field - mean) / spread`, clipped.

    Fields with a fixed scale start ready; of a standardised one, mean and spread are the training set's and are set
    with `fit` before training. All three travel with the weights.

    Args:
        name: The field.
        bands: SWIR bands.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, name: str, bands: int) -> None:
        super().__init__()
        self.field = INPUT_FIELDS[name]
        channels = channels_of((name,), bands)
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("spread", torch.full((channels, 1, 1), self.field.scale))

    @torch.no_grad()
    def fit(self, mean: Float[Tensor, " channel"], spread: Float[Tensor, " channel"]) -> None:
        """Takes the training set's mean and standard deviation of each channel, if the field is a standardised one."""
        if self.field.standardised:
            self.mean.copy_(mean[:, None, None])
            self.spread.copy_(spread.clamp_min(1e-9)[:, None, None])

    def forward(self, field: Float[Tensor, "batch channel row col"]) -> Float[Tensor, "batch channel row col"]:
        """The field, scaled and clipped."""
        return ((field - self.mean) / self.spread).clamp(self.field.low, self.field.high)
