"""What the second flame-plus is made of, as plain data that JSON can carry."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from flame.models.settings import ModelSettingsError
from flame.prepare import SettingsError
from flame.prepare.planes import PlaneSettings
from flame.records import check_numbers, from_entries, number

__all__ = ["LEVELS_PPM_M", "PlusSettings"]

LEVELS_PPM_M: tuple[float, ...] = tuple(62.5 * 2.0**k for k in range(8))
"""Enhancements whose exceedance the network gives a probability for; other levels are interpolated."""


@dataclass(frozen=True)
class PlusSettings:
    """Architecture of the second flame-plus.

    Attributes:
        functions: Learned functions of wavelength; 0 leaves the spectrum out but for the filter's own view of it.
        fields: Whether the filter's fields are given; without them the network has the spectral functions alone.
        score: Whether the physics-guided score is inside.
        backbone: Name in `flame.models.backbones.BACKBONES`.
        width: Feature channels.
        hidden: Channels inside the segmentation head.
        planes: How the planes are made.
    """

    functions: int = number(int, 0, 64, 16)
    fields: bool = True
    score: bool = True
    backbone: str = "unet"
    width: int = number(int, 1, 256, 16)
    hidden: int = number(int, 1, 256, 16)
    planes: PlaneSettings = field(default_factory=PlaneSettings)

    def __post_init__(self) -> None:
        check_numbers(self)
        if not self.functions and not self.fields:
            raise ModelSettingsError("a network needs the fields, functions of wavelength, or both")

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PlusSettings:
        """The settings written by `to_json`.

        Raises:
            ModelSettingsError: If they are no JSON, or an entry is unknown or cannot be right.
        """
        try:
            return from_entries(cls, json.loads(text))
        except (json.JSONDecodeError, SettingsError) as mistake:
            raise ModelSettingsError(f"model settings: {mistake}") from None
