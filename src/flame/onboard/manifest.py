"""The manifest beside each model file: what the model expects, what it was made from, and its checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from flame.detection import DecisionRule
from flame.errors import FlameError
from flame.files import json_text
from flame.physics import RADIANCE_UNIT, BandSet

__all__ = ["FORMAT", "INPUTS", "OUTPUTS", "BackgroundFacts", "Manifest", "ModelError", "NetworkFacts"]

FORMAT = 1
"""Version of the manifest; a reader refuses those it does not know."""

SPECTRA = ("log_radiance", "whitened")
"""Graph inputs with all bands; a model takes one of them."""

INPUTS = (
    *SPECTRA,
    "target",
    "unwhitening",
    "statistics",
    "rgb",
    "valid",
    "background_mean",
    "whitening",
    "brightness_median",
)
"""Graph inputs that the runtime can prepare; a model uses those it names. See docs/onboard.md for shapes."""

_OF_BACKGROUND = ("whitened", "target", "unwhitening", "statistics", "background_mean", "whitening")

OUTPUTS = ("probability", "score")
"""Graph outputs, both (1, row, col); the score is in units of `tau_ppm_m`."""


class ModelError(FlameError):
    """A model package that is missing, damaged or not what it says."""


@dataclass(frozen=True)
class BackgroundFacts:
    """How the tile's own background is estimated for models that take `background_mean` and `whitening`.

    Attributes:
        samples: About how many pixels of a regular grid are looked at.
        passes: Estimates made; each after the first leaves out pixels that look like plume and weighs down outliers.
        plume_sigma: Matched-filter response, in standard deviations, from which on a pixel is left out.
        floor: Least variance of log-radiance in any direction.
    """

    samples: int = 4096
    passes: int = 1
    plume_sigma: float = 3.0
    floor: float = 1e-7


@dataclass(frozen=True)
class NetworkFacts:
    """What the native runtime must know of a network besides its weights; an ONNX graph has it inside.

    Attributes:
        sha256: Checksum of the safetensors file with the folded weights.
        tau_max: Upper clip of the score, in units of `tau_ppm_m`.
        noise_inputs: The lift's further inputs, in order; see `flame.models.noise_inputs`.
        faint_ppm_m: Enhancement that counts as 1 in them.
        clutter_clip: Response, in standard deviations, beyond which clutter is clipped.
        clutter_window: Side of the window of the clutter, in pixels.
        tiny: What is added before logarithms.
    """

    sha256: str
    tau_max: float
    noise_inputs: tuple[str, ...] = ()
    faint_ppm_m: float = 500.0
    clutter_clip: float = 4.0
    clutter_window: int = 15
    tiny: float = 1e-6


@dataclass(frozen=True)
class Manifest:
    """Everything the runtime must know about a model besides its graph.

    Attributes:
        name: Name of the model, without sensor.
        sensor: Sensor it was trained for.
        band_centres_nm: Centres of the bands it expects, in order.
        band_fwhm_nm: Their full widths at half maximum.
        absorption: Unit absorption spectrum it was built with, per 100,000 ppm m.
        tile: Side of its tile, in pixels.
        inputs: Names of the graph's inputs, among `INPUTS`.
        tau_ppm_m: What a score of 1 means.
        threshold: Probability above which a pixel is plume.
        opening: Whether the mask is opened by a 3x3 cross.
        floor_share: Radiance below this share of the tile's level is taken as this before the logarithm.
        level_step: Step, in rows and columns, of the grid of pixels on which the level is found.
        saturation_radiance: Radiance from which on a pixel counts as saturated.
        rgb: How RGB is normalised: divided by `rgb_scale` ("fixed"), or as log-ratio to the tile's mean ("tile").
        rgb_scale: Divisor of RGB, in radiance units.
        fill_block: Side of the blocks from which unusable pixels are filled.
        row_block: Rows of the blocks in which spectra are given to the graph; all of them in one block unless stated.
        background: How a tile's background is estimated, if the model asks for it.
        network: What the native runtime needs, if the model has weights for it.
        unit: Radiance unit.
        training: What it was trained on: data, commit, recipe, seed, date.
        metrics: How good it was, and on what.
        sha256: Checksum of the ONNX file.
        format: Version of this layout.
    """

    name: str
    sensor: str
    band_centres_nm: tuple[float, ...]
    band_fwhm_nm: tuple[float, ...]
    absorption: tuple[float, ...]
    tile: int
    inputs: tuple[str, ...]
    tau_ppm_m: float
    sha256: str
    threshold: float = 0.5
    opening: bool = True
    floor_share: float = 0.005
    level_step: int = 8
    saturation_radiance: float = 1e4
    rgb: str = "fixed"
    rgb_scale: float = 60.0
    fill_block: int = 16
    row_block: int | None = None
    background: BackgroundFacts | None = None
    network: NetworkFacts | None = None
    unit: str = RADIANCE_UNIT
    training: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ModelError(
                f"{self.name}: manifest format {self.format} is not known, expected {FORMAT}; update flame"
            )
        if self.unit != RADIANCE_UNIT:
            raise ModelError(f"{self.name}: radiance unit '{self.unit}' is not '{RADIANCE_UNIT}'")
        unknown = [name for name in self.inputs if name not in INPUTS]
        if unknown or sum(name in self.inputs for name in SPECTRA) != 1:
            raise ModelError(
                f"{self.name}: inputs {list(self.inputs)} must be among {list(INPUTS)}, with one of {list(SPECTRA)}"
            )
        if set(self.inputs) & set(_OF_BACKGROUND) and self.background is None:
            raise ModelError(f"{self.name}: takes the tile's background but the manifest does not say how to find it")
        if self.rgb not in ("fixed", "tile"):
            raise ModelError(f"{self.name}: RGB normalisation '{self.rgb}' is not known, expected 'fixed' or 'tile'")
        if len(self.absorption) != len(self.band_centres_nm):
            raise ModelError(
                f"{self.name}: {len(self.absorption)} absorption values for {len(self.band_centres_nm)} bands"
            )
        if (
            self.tile < 1
            or self.tau_ppm_m <= 0
            or not 0 <= self.threshold <= 1
            or self.floor_share <= 0
            or self.level_step < 1
        ):
            raise ModelError(
                f"{self.name}: tile {self.tile}, tau {self.tau_ppm_m} ppm m, threshold {self.threshold}, floor "
                f"share {self.floor_share} or level step {self.level_step} is out of range"
            )
        if self.tile % self.block_rows:
            raise ModelError(f"{self.name}: blocks of {self.row_block} rows do not fill a tile of {self.tile}")
        _ = self.bands

    @property
    def block_rows(self) -> int:
        """Rows of a block of spectra."""
        return self.row_block or self.tile

    @property
    def bands(self) -> BandSet:
        """The bands the model expects."""
        return BandSet(np.array(self.band_centres_nm), np.array(self.band_fwhm_nm))

    @property
    def rule(self) -> DecisionRule:
        """How its probabilities become a mask."""
        return DecisionRule(self.threshold, self.opening)

    def to_json(self) -> str:
        """The text of the manifest file."""
        return json_text(asdict(self))

    @classmethod
    def from_json(cls, text: str, where: str = "manifest") -> Manifest:
        """Reads a manifest; unknown or missing entries are refused by name."""
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError) as mistake:
            raise ModelError(f"{where}: not JSON ({mistake}); a manifest was expected") from None
        if not isinstance(entries, dict):
            raise ModelError(f"{where}: expected one JSON object")
        known = {entry.name for entry in fields(cls)}
        if unknown := sorted(entries.keys() - known):
            raise ModelError(f"{where}: unknown entries {', '.join(unknown)}; was it written by a later flame?")
        lists = ("band_centres_nm", "band_fwhm_nm", "absorption", "inputs")
        try:
            for name in lists:
                entries[name] = tuple(entries[name])
            if entries.get("background") is not None:
                entries["background"] = BackgroundFacts(**entries["background"])
            if (network := entries.get("network")) is not None:
                entries["network"] = NetworkFacts(**network | {"noise_inputs": tuple(network["noise_inputs"])})
            return cls(**entries)
        except KeyError as missing:
            raise ModelError(f"{where}: the entry {missing} is missing") from None
        except TypeError as mistake:
            raise ModelError(f"{where}: {mistake}") from None
