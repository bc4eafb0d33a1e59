"""What a FLAME network is made of, as plain data that JSON can carry."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

from flame.errors import FlameError
from flame.models.conditioning import BackgroundSettings
from flame.models.heads import ScoreKind
from flame.models.noise_inputs import NOISE_INPUTS
from flame.records import parse_json, record

__all__ = ["FlameSettings", "ModelSettingsError"]

Conditioning = Literal["none", "training", "tile"]
ScoreSpace = Literal["log", "projected", "whitened"]
LiftSpace = Literal["tile", "training"]
LiftStart = Literal["random", "matched_filter"]
RgbKind = Literal["fixed", "tile", "none"]


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
        lift_start: Whether the lift starts at random or with the training set's matched filter as its first feature.
        lift_space: With conditioning by the tile: whether the lift's input is whitened by the tile's covariance too, or
            by the training set's about the tile's mean. What a feature means is then the same in every tile.
        noise_inputs: Extra channels of the lift, names in `flame.models.noise_inputs.NOISE_INPUTS`.
        background: How a tile's own statistics are estimated.
        rgb: RGB of the segmentation head: divided by `rgb_scale`, log-ratio to the tile's mean, or not used.
        rgb_scale: Divisor of RGB, in µW cm-2 nm-1 sr-1.
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
    lift_start: LiftStart = "matched_filter"
    lift_space: LiftSpace = "tile"
    noise_inputs: tuple[str, ...] = ()
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    rgb: RgbKind = "fixed"
    rgb_scale: float = 60.0
    plume_prior: float = 0.01

    def __post_init__(self) -> None:
        unknown = [name for name in self.noise_inputs if name not in NOISE_INPUTS]
        if unknown:
            raise ModelSettingsError(f"no noise input '{unknown[0]}'; known are {', '.join(NOISE_INPUTS)}")
        if self.conditioning == "none" and (self.score_space == "whitened" or self.noise_inputs):
            raise ModelSettingsError(
                "a whitened score and noise inputs need conditioning 'training' or 'tile', got 'none'"
            )

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FlameSettings:
        """The settings written by `to_json`.

        Raises:
            RecordError: If a field is not known to this version, or of another type.
        """
        return record(cls, parse_json(text, "model settings", "the settings of a FLAME model"), "model settings")
