"""The manifest beside each model file: what the model expects, what it was made from, and its checksum."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from flame.detection import DecisionRule
from flame.errors import FlameError
from flame.files import json_text
from flame.physics import METHANE_WINDOW_NM, RADIANCE_UNIT, BandSet, unit_absorption
from flame.prepare import INPUTS, SPECTRA, PrepareSettings, SettingsError
from flame.prepare.planes import PLANE_INPUTS, PlaneSettings
from flame.records import check_numbers, from_entries, names, number

__all__ = [
    "FORMAT",
    "OUTPUTS",
    "PLANE_OUTPUTS",
    "Manifest",
    "ModelError",
    "NetworkFacts",
    "OperatingPoint",
    "PlaneFacts",
]

FORMAT = 2
"""Version of the manifest; a reader refuses those it does not know."""

OUTPUTS = ("probability", "score")
"""Graph outputs, both (1, row, col); the score is in units of `tau_ppm_m`."""

PLANE_OUTPUTS = ("maps", "score")
"""Those of a network of planes: (1, output, row, col), and the score in standard deviations, (1, row, col)."""

_OF_BANDS = ("sensor", "band_centres_nm", "band_fwhm_nm", "absorption")
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
        tau_max: Upper clip of the score, in units of `tau_ppm_m`; networks of planes have none.
    """

    sha256: str
    tau_max: float = number(float, 1e-3, 1e3, 2.0)

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True)
class OperatingPoint:
    """A way to cut probabilities into a mask, and how good it was.

    Attributes:
        threshold: Probability above which a pixel is plume.
        core_sigmas: Standard deviations by which network and filter must somewhere in a plume be sure of gas; 0 for no
            such rule.
        precision, recall: Of plume pixels, on the tiles that `metrics` names.
        false_plumes: False plumes in ten million pixels without methane.
        level_core_sigmas: The same where outlines run at a level that was asked for: most false plumes do not reach it,
            so that less is needed. 0 for `core_sigmas`.
    """

    threshold: float = number(float, 0.0, 1.0, 0.5)
    core_sigmas: float = number(float, 0.0, 1000.0, 0.0)
    precision: float | None = None
    recall: float | None = None
    false_plumes: float | None = None
    level_core_sigmas: float = number(float, 0.0, 1000.0, 0.0)

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True)
class PlaneFacts:
    """What the runtime must know of a network of planes, which takes the bands of any spectrometer.

    Attributes:
        planes: How planes are made.
        levels_ppm_m: Enhancements whose exceedance it corrects the logit of, rising; then come the logit of an
            annotator's outline, change of the median and log-spread of the enhancement, and shares of the averages.
        sensitivities: Operating points by name.
        scene_sigmas: Outlines on the ground run at this many standard deviations of the estimate in a usual pixel of
            the scene; 0 for an annotator's outline, which streams of lines always draw.
        scene_floor_ppm_m, scene_cap_ppm_m: They never run lower or higher: unlike noise, what ground has in common
            with methane does not become less in a quiet scene, and a plume is plain gas however loud the scene is.
        fewest_pixels: Smallest plume on the ground, if outlines follow the scene or a level.
        fewest_bands: Bands in the methane window that a scene must have.
        widest_step_nm: Largest distance of neighbouring bands that it was trained for.
    """

    levels_ppm_m: tuple[float, ...]
    sensitivities: dict[str, OperatingPoint]
    planes: PlaneSettings = field(default_factory=PlaneSettings)
    scene_sigmas: float = number(float, 0.0, 100.0, 0.0)
    scene_floor_ppm_m: float = number(float, 0.0, 1e5, 0.0)
    scene_cap_ppm_m: float = number(float, 0.0, 1e5, 1e5)
    fewest_pixels: int = number(int, 1, 10_000, 1)
    fewest_bands: int = number(int, 4, 1000, 20)
    widest_step_nm: float = number(float, 1.0, 100.0, 13.0)

    def __post_init__(self) -> None:
        check_numbers(self)
        if len(self.levels_ppm_m) < 2 or not all(a < b for a, b in pairwise(self.levels_ppm_m)):
            raise SettingsError(f"levels_ppm_m must rise, got {list(self.levels_ppm_m)}")
        least, most = self.scene_floor_ppm_m, self.scene_cap_ppm_m
        if not least <= most or most < self.levels_ppm_m[0] or least > self.levels_ppm_m[-1]:
            raise SettingsError(f"no level that follows the scene lies between {least:g} and {most:g} ppm m")

    def core_of(self, sensitivity: str, at_level: bool = False) -> float | None:
        """Standard deviations that a plume's core has at a sensitivity; None if it asks for none, or is not known.

        Args:
            sensitivity: Its name.
            at_level: Whether outlines run at a level in ppm m that was asked for.
        """
        point = self.sensitivities.get(sensitivity)
        if point is None:
            return None
        return (at_level and point.level_core_sigmas) or point.core_sigmas or None

    def scene_level(self, sigma_ppm_m: float) -> float:
        """Where outlines that follow the scene run, by the standard deviation of the estimate in a usual pixel."""
        least = max(self.scene_floor_ppm_m, self.levels_ppm_m[0])
        most = min(self.scene_cap_ppm_m, self.levels_ppm_m[-1])
        return min(max(self.scene_sigmas * sigma_ppm_m, least), most)

    def check_level(self, level_ppm_m: float) -> None:
        """Refuses a level that lies outside those the network knows."""
        first, last = self.levels_ppm_m[0], self.levels_ppm_m[-1]
        if not first <= level_ppm_m <= last:
            raise ModelError(f"level must be {first:g} to {last:g} ppm m for this model, got {level_ppm_m:g}")


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
        plane_facts: For a network of planes. Its bands are then those of the sensor it is opened for, and on disk those
            it was measured with.
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
    plane_facts: PlaneFacts | None = None
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
        if self.plane_facts is not None:
            if self.inputs != PLANE_INPUTS or self.network is None:
                raise ModelError(f"{self.name}: a network of planes takes {list(PLANE_INPUTS)} and has native weights")
            return
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
    def outputs(self) -> tuple[str, str]:
        """Names of the graph's outputs."""
        return OUTPUTS if self.plane_facts is None else PLANE_OUTPUTS

    @property
    def bands(self) -> BandSet:
        """The bands the model expects."""
        return BandSet(np.array(self.band_centres_nm), np.array(self.band_fwhm_nm))

    def check_level(self, level_ppm_m: float | None) -> None:
        """Refuses a level that the model does not know; None is an annotator's outline, which every model has."""
        if level_ppm_m is None:
            return
        if self.plane_facts is None:
            raise ModelError(f"{self.name} knows one outline only; leave out the level, or take another model")
        self.plane_facts.check_level(level_ppm_m)

    def takes(self, bands: BandSet) -> bool:
        """Whether a network of planes can be opened for a spectrometer's bands."""
        facts = self.plane_facts
        if facts is None or not bands.within(*METHANE_WINDOW_NM).any():
            return False
        own = bands.methane()
        return len(own) >= facts.fewest_bands and float(np.diff(own.centres_nm).max()) <= facts.widest_step_nm

    def for_bands(self, bands: BandSet) -> Manifest:
        """The manifest of a network of planes, opened for other bands."""
        return replace(
            self,
            sensor="any spectrometer",
            band_centres_nm=tuple(bands.centres_nm.tolist()),
            band_fwhm_nm=tuple(bands.fwhm_nm.tolist()),
            absorption=tuple(unit_absorption(bands).tolist()),
        )

    @property
    def rule(self) -> DecisionRule:
        """How its probabilities become a mask."""
        return DecisionRule(self.threshold, self.opening)

    @property
    def key(self) -> str:
        """Tells this model from every other; the same for all bands that a network of planes is opened for."""
        entries = json.loads(json_text(asdict(self)))
        if self.plane_facts is not None:
            entries = {name: value for name, value in entries.items() if name not in _OF_BANDS}
        return _checksum(entries)

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
