"""What a FLAME network is made of, as plain data that JSON can carry."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from flame.errors import FlameError
from flame.models.heads import ScoreKind
from flame.prepare import PrepareSettings, SettingsError
from flame.records import from_entries

__all__ = ["FlameSettings", "ModelSettingsError"]

Conditioning = Literal["none", "training", "tile"]
ScoreSpace = Literal["log", "projected", "whitened"]
LiftSpace = Literal["tile", "training"]
LiftStart = Literal["random", "matched_filter"]


class ModelSettingsError(FlameError):
    """Model settings that contradict each other."""


@dataclass(frozen=True)
class FlameSettings:
    """Architecture of FLAME; the defaults are the paper's, with the lift whitened by training statistics.

    Attributes:
        bands: SWIR bands p.
        backbone: Name in `flame.models.backbones.BACKBONES`.
        width: Feature channels d.
        modes: Fourier modes m1 = m2.
        tau_ppm_m: Score normalisation tau.
        tau_max: Upper clip of the normalised score.
        clamp_leak: Gradient through the clip beyond its ends, in training.
        conditioning: Whitening of the lift's input: none, by the training set, or by the tile itself.
        score: Which fields of the score are learned (tab:component_ablation).
        score_space: Coordinates of the score: log-radiance (eq:flame_score), log-radiance with the leading background
            directions projected out, or whitened as in `conditioning`.
        projected_directions: How many, for `projected`.
        band_variance: Whether the score in log-radiance starts from the spectrum divided by each band's variance over
            the training set (the diagonal matched filter), or from the spectrum itself.
        lift_start: Whether the lift starts at random or with the training set's matched filter as its first feature.
        lift_space: With conditioning by the tile: whether the lift's input is whitened by the tile's covariance too, or
            by the training set's about the tile's mean. What a feature means is then the same in every tile.
        prepare: How tiles are prepared; its `pixel_fields` are further channels of the lift, its RGB is the
            segmentation head's.
        plume_prior: Plume probability answered by the untrained segmentation head.
    """

    bands: int = 72
    backbone: str = "ufno"
    width: int = 14
    modes: int = 12
    tau_ppm_m: float = 1750.0
    tau_max: float = 2.0
    clamp_leak: float = 0.01
    conditioning: Conditioning = "training"
    score: ScoreKind = "full"
    score_space: ScoreSpace = "log"
    projected_directions: int = 8
    band_variance: bool = True
    lift_start: LiftStart = "matched_filter"
    lift_space: LiftSpace = "tile"
    prepare: PrepareSettings = field(default_factory=PrepareSettings)
    plume_prior: float = 0.01

    def __post_init__(self) -> None:
        if self.conditioning == "none" and self.score_space == "whitened":
            raise ModelSettingsError("a whitened score needs conditioning 'training' or 'tile', got 'none'")
        if self.conditioning != "tile" and self.prepare.pixel_fields:
            raise ModelSettingsError(
                f"pixel fields are found against the tile's own background: they need conditioning 'tile', got "
                f"'{self.conditioning}'"
            )

    @property
    def spectra(self) -> str:
        """The form in which the network takes spectra."""
        in_tile_space = self.score_space == "whitened" or self.score == "none"
        return "whitened" if self.conditioning == "tile" and in_tile_space else "log_radiance"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what the network takes, among `flame.prepare.INPUTS`."""
        names = [self.spectra]
        if self.spectra == "whitened":
            names += ["target"] * (self.score != "none") + ["unwhitening"] * (self.lift_space == "training")
        elif self.conditioning == "tile":
            names += ["background_mean"] + ["whitening"] * (self.lift_space == "tile")
        names += ["pixel_fields"] * bool(self.prepare.pixel_fields) + ["rgb"] * (self.prepare.rgb != "none")
        return tuple(names)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FlameSettings:
        """The settings written by `to_json`, of this version or the first.

        Raises:
            ModelSettingsError: If they are no JSON, or an entry is unknown to this version or cannot be right.
        """
        try:
            stored = json.loads(text)
            return from_entries(cls, _renewed(stored) if isinstance(stored, dict) else stored)
        except (json.JSONDecodeError, SettingsError) as mistake:
            raise ModelSettingsError(f"model settings: {mistake}") from None


_ONCE_BESIDE = {"noise_inputs": "pixel_fields", "background": "background", "rgb": "rgb", "rgb_scale": "rgb_scale"}
"""Entries that stood beside the others before tiles were prepared in one place, and their names in `prepare`."""


def _renewed(stored: dict[str, Any]) -> dict[str, Any]:
    """Settings of the first version as this one writes them."""
    moved = {new: stored[old] for old, new in _ONCE_BESIDE.items() if old in stored}
    kept = {name: value for name, value in stored.items() if name not in _ONCE_BESIDE}
    return kept | {"prepare": moved} if moved else kept
