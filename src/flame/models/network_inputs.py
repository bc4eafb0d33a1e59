"""Fields of a tile by name, and how a network that learns from them wants them scaled.

A network says what it takes by name and is given just that. All of it comes out of the one preparation that FLAME's own
tiles go through (`flame.prepare`): spectra, RGB and any pixel field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from flame.errors import FlameError
from flame.prepare import FIELDS, BackgroundSettings, FieldSettings, PrepareSettings

__all__ = ["INPUT_FIELDS", "InputField", "NetworkNeeds", "Normalise", "UnknownInputError", "channels_of"]

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


def _pixel_field(name: str) -> InputField:
    if name not in ("mag1c", "mag1c_sas"):
        return InputField(f"pixel field `{name}` of `flame.prepare`", 1)
    unit_ppm_m = FieldSettings().faint_ppm_m
    meaning = f"enhancement by {name.upper().replace('_', '-')}, in units of {unit_ppm_m:g} ppm m"
    return InputField(meaning, 1, _STARCOP_FILTER_PPM_M / unit_ppm_m, 0.0, _STARCOP_MAX)


INPUT_FIELDS: dict[str, InputField] = {
    "radiance": InputField("SWIR radiance, µW cm-2 nm-1 sr-1, holes filled", standardised=True),
    "log_radiance": InputField("natural logarithm of SWIR radiance, holes filled", standardised=True),
    "whitened": InputField("log-radiance whitened by the tile's own background, in standard deviations"),
    "rgb_radiance": InputField("radiance near 640, 550 and 460 nm", 3, _STARCOP_RGB, 0.0, _STARCOP_MAX),
    "rgb_log_ratio": InputField("logarithm of RGB less its mean over the tile", 3),
    **{name: _pixel_field(name) for name in FIELDS},
}
"""Scales and clips of `rgb_radiance` and of the filters' maps are HyperSTARCOP's (Růžička et al. 2023)."""

_SPECTRA = {"radiance": "log_radiance", "log_radiance": "log_radiance", "whitened": "whitened"}
"""Fields with all bands, and what is prepared for them."""

_COLOURS = {"rgb_radiance": "fixed", "rgb_log_ratio": "tile"}
"""Fields with colours, and how they are prepared."""


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


@dataclass(frozen=True)
class NetworkNeeds:
    """What has to be prepared for a network: its fields in the words of `flame.prepare`.

    Attributes:
        bands: SWIR bands.
        fields: Names in `INPUT_FIELDS`.

    Raises:
        UnknownInputError: If a field is unknown, or two of them are two forms of the same thing.
    """

    bands: int
    fields: tuple[str, ...]
    prepare: PrepareSettings = field(init=False)

    def __post_init__(self) -> None:
        channels_of(self.fields, self.bands)
        for forms in (_SPECTRA, _COLOURS):
            both = [name for name in self.fields if name in forms]
            if len(both) > 1:
                raise UnknownInputError(f"a network takes {both[0]} or {both[1]}, not both")
        colour = next((_COLOURS[name] for name in self.fields if name in _COLOURS), "none")
        settings = PrepareSettings(
            background=BackgroundSettings(passes=2),
            pixel_fields=tuple(name for name in self.fields if name in FIELDS),
            rgb=colour,  # type: ignore[arg-type]
            rgb_scale=1.0,
        )
        object.__setattr__(self, "prepare", settings)

    @property
    def spectra(self) -> str:
        """The form in which spectra are prepared; a network without spectra leaves them."""
        return next((_SPECTRA[name] for name in self.fields if name in _SPECTRA), "log_radiance")

    @property
    def inputs(self) -> tuple[str, ...]:
        """What is prepared, names in `flame.prepare.INPUTS`."""
        names = [self.spectra]
        names += ["pixel_fields"] * bool(self.prepare.pixel_fields) + ["rgb"] * (self.prepare.rgb != "none")
        return tuple(names)

    def taken(self, inputs: Mapping[str, Float[Tensor, "batch ..."]]) -> dict[str, Float[Tensor, "batch _ row col"]]:
        """The network's fields out of what was prepared."""
        found = {}
        for name in self.fields:
            if name in FIELDS:
                place = self.prepare.pixel_fields.index(name)
                found[name] = inputs["pixel_fields"][:, place : place + 1]
            elif name in _COLOURS:
                found[name] = inputs["rgb"]
            else:
                # The logarithm has no holes and nothing below the sensor's floor; radiance is the same, taken back.
                found[name] = inputs[_SPECTRA[name]].exp() if name == "radiance" else inputs[_SPECTRA[name]]
        return found


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
