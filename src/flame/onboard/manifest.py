"""The manifest beside each model file: what the model expects, what it was made from, and its checksum."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from flame.detection import DecisionRule
from flame.errors import FlameError
from flame.files import json_text
from flame.physics import RADIANCE_UNIT, BandSet
from flame.prepare import INPUTS, SPECTRA, PrepareSettings, SettingsError
from flame.records import check_numbers, from_entries, names, number

__all__ = ["FORMAT", "OUTPUTS", "Manifest", "ModelError", "NetworkFacts"]

FORMAT = 2
"""Version of the manifest; a reader refuses those it does not know."""

OUTPUTS = ("probability", "score")
"""Graph outputs, both (1, row, col); the score is in units of `tau_ppm_m`."""

_CHECKSUM = "checksum"
_MOST_BANDS = 4096
_LARGEST = 1e6


class ModelError(FlameError):
    """A model package that is missing, damaged or not what it says."""


@dataclass(frozen=True)
class NetworkFacts:
    """What the native runtime must know of a network besides its weights; an ONNX graph has it inside.

    Attributes:
        sha256: Checksum of the safetensors file with the folded weights.
        tau_max: Upper clip of the score, in units of `tau_ppm_m`.
    """

    sha256: str
    tau_max: float = number(float, 1e-3, 1e3)

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True)
class Manifest:
    """Everything the runtime must know about a model besides its graph.

    Attributes:
        name: Name of the model, without sensor.
        sensor: Sensor it was trained for.
        band_centres_nm: Centres of the bands it expects, in order.
        band_fwhm_nm: Their full widths at half maximum.
        absorption: Unit absorption spectrum it was built with, per 100,000 ppm m.
        sha256: Checksum of the ONNX file.
        tile: Side of its tile, in pixels.
        inputs: Names of the graph's inputs, among `flame.prepare.INPUTS`.
        tau_ppm_m: What a score of 1 means.
        threshold: Probability above which a pixel is plume.
        opening: Whether the mask is opened by a 3x3 cross.
        prepare: How its tiles are prepared.
        row_block: Rows of the blocks in which spectra are given to the graph; all of them in one block unless stated.
        network: What the native runtime needs, if the model has weights for it.
        unit: Radiance unit.
        training: What it was trained on: data, commit, recipe, seed, date.
        metrics: How good it was, and on what.
        format: Version of this layout.
    """

    name: str
    sensor: str
    band_centres_nm: tuple[float, ...]
    band_fwhm_nm: tuple[float, ...]
    absorption: tuple[float, ...]
    sha256: str
    tile: int = number(int, 1, 8192)
    inputs: tuple[str, ...] = names()
    tau_ppm_m: float = number(float, 1e-3, 1e7)
    threshold: float = number(float, 0.0, 1.0, 0.5)
    opening: bool = True
    prepare: PrepareSettings = field(default_factory=PrepareSettings)
    row_block: int | None = None
    network: NetworkFacts | None = None
    unit: str = RADIANCE_UNIT
    training: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ModelError(f"{self.name}: manifest format {self.format} is not known, expected {FORMAT}")
        try:
            check_numbers(self)
        except SettingsError as mistake:
            raise ModelError(f"{self.name}: {mistake}") from None
        if self.unit != RADIANCE_UNIT:
            raise ModelError(f"{self.name}: radiance unit '{self.unit}' is not '{RADIANCE_UNIT}'")
        self._check_bands()
        self._check_inputs()

    def _check_bands(self) -> None:
        """Refuses bands and spectra that are none."""
        for what in ("band_centres_nm", "band_fwhm_nm", "absorption"):
            values = getattr(self, what)
            if not 0 < len(values) <= _MOST_BANDS or not all(abs(value) <= _LARGEST for value in values):
                raise ModelError(f"{self.name}: {what} must be a list of 1 to {_MOST_BANDS} finite numbers")
        if len(self.absorption) != len(self.band_centres_nm):
            raise ModelError(
                f"{self.name}: {len(self.absorption)} absorption values for {len(self.band_centres_nm)} bands"
            )
        _ = self.bands

    def _check_inputs(self) -> None:
        """Refuses inputs that cannot be prepared, or not in blocks of so many rows."""
        unknown = [name for name in self.inputs if name not in INPUTS]
        if unknown or sum(name in self.inputs for name in SPECTRA) != 1:
            raise ModelError(
                f"{self.name}: inputs {list(self.inputs)} must be among {list(INPUTS)}, with one of {list(SPECTRA)}"
            )
        for what, named in (("pixel_fields", bool(self.prepare.pixel_fields)), ("rgb", self.prepare.rgb != "none")):
            if what in self.inputs and not named:
                raise ModelError(f"{self.name}: takes {what} but the manifest does not say how to prepare it")
        if self.row_block is not None and (self.row_block < 1 or self.tile % self.row_block):
            raise ModelError(f"{self.name}: blocks of {self.row_block} rows do not fill a tile of {self.tile}")

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
        """The text of the manifest file, with the checksum of its own content."""
        entries = json.loads(json_text(asdict(self)))
        return json_text({_CHECKSUM: _checksum(entries)} | entries)

    @classmethod
    def from_json(cls, text: str, where: str = "manifest") -> Manifest:
        """Reads a manifest; one flipped bit, unknown or missing entries and numbers that are none are refused.

        Raises:
            ModelError: The message names the file and the entry.
        """
        try:
            entries = json.loads(text, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as mistake:
            raise ModelError(f"{where}: not JSON ({mistake}); a manifest was expected") from None
        if not isinstance(entries, dict):
            raise ModelError(f"{where}: expected one JSON object")
        if entries.get("format") != FORMAT:
            raise ModelError(
                f"{where}: manifest format {entries.get('format')!r} is not known, expected {FORMAT}; export the model "
                "again with this flame, or update flame"
            )
        if entries.pop(_CHECKSUM, None) != _checksum(entries):
            raise ModelError(
                f"{where}: its content does not match its checksum; the file is damaged or was edited, fetch or export "
                "the model again"
            )
        try:
            return from_entries(cls, entries)
        except FlameError as mistake:
            raise ModelError(f"{where}: {mistake}") from None


def _finite(spelled: str) -> float:
    value = float(spelled)
    if not math.isfinite(value):
        raise ValueError(f"{spelled} is no number")
    return value


def _checksum(entries: Mapping[str, Any]) -> str:
    """SHA-256 over the entries in one spelling: sorted, without blanks."""
    spelled = json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(spelled.encode()).hexdigest()
