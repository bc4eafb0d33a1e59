"""What an ENVI header says beyond the shape of the cube."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import rasterio
from jaxtyping import Bool, Float

from flame.io.errors import ReaderError
from flame.io.radiance_unit import find_radiance_unit
from flame.physics import RADIANCE_UNIT, SENSORS, UnknownUnitError, radiance_scale

__all__ = ["EnviHeader"]

_SPELLINGS = {"ang": "aviris-ng", "avirisng": "aviris-ng", "aviris-next generation": "aviris-ng", "av3": "aviris-3"}


@dataclass(frozen=True)
class EnviHeader:
    """The header of an ENVI cube.

    Attributes:
        path: The cube, for messages.
        fields: Its entries as text; keys in lower case with underscores, as GDAL gives them.
        bands: How many bands it has.
        dtype: NumPy name of its values' type.
    """

    path: Path
    fields: dict[str, str]
    bands: int
    dtype: str

    @classmethod
    def of(cls, path: Path, source: rasterio.DatasetReader) -> EnviHeader:
        """Takes the header from an open cube, and refuses one whose binary is shorter than it says."""
        if source.driver != "ENVI":
            raise ReaderError(path, f"is a {source.driver} file, not an ENVI cube", "give the header's binary file")
        fields = {key.lower(): value for key, value in source.tags(ns="ENVI").items()}
        header = cls(path, fields, int(source.count), str(source.dtypes[0]))
        values = header.bands * source.height * source.width
        try:
            expected = int(fields.get("header_offset", 0)) + values * np.dtype(header.dtype).itemsize
        except ValueError:
            raise ReaderError(path, "the header's header offset is no number", "mend the header") from None
        if path.stat().st_size < expected:  # GDAL would fill the missing part with zeros and say nothing.
            raise ReaderError(
                path,
                f"is truncated: {path.stat().st_size} bytes, its header says {expected}",
                "copy or download it again",
            )
        return header

    def numbers(self, key: str) -> Float[np.ndarray, " band"] | None:
        """A list with one number per band; None if the header has no such entry."""
        if key not in self.fields:
            return None
        try:
            values = np.array([float(word) for word in self.fields[key].strip("{} \n").split(",") if word.strip()])
        except ValueError:
            raise ReaderError(self.path, f"the header's {key} is not a list of numbers", "fix the header") from None
        if values.size != self.bands:
            raise ReaderError(self.path, f"the header lists {values.size} {key} for {self.bands} bands", "fix it")
        return values

    def centres_nm(self) -> Float[np.ndarray, " band"]:
        """Band centres from `wavelength`, in nm whatever the header's unit."""
        values = self.numbers("wavelength")
        if values is None:
            raise ReaderError(
                self.path, "the header lists no wavelength", "add 'wavelength = { ... }' with one number for each band"
            )
        return values * self._nm_per_unit(values)

    def fwhm_nm(self) -> Float[np.ndarray, " band"] | None:
        """Band widths from `fwhm`, in nm; None if the header has none or not all are positive."""
        widths, centres = self.numbers("fwhm"), self.numbers("wavelength")
        if widths is None or centres is None or not (widths > 0).all():
            return None
        return widths * self._nm_per_unit(centres)

    def good_bands(self) -> Bool[np.ndarray, " band"] | None:
        """Bands not marked bad by `bbl`."""
        marks = self.numbers("bbl")
        return None if marks is None else marks > 0

    def _nm_per_unit(self, centres: Float[np.ndarray, " band"]) -> float:
        unit = self.fields.get("wavelength_units", "").lower()
        if unit.startswith(("nano", "nm")):
            return 1.0
        if unit.startswith(("micro", "um", "µm")):
            return 1000.0
        return 1.0 if float(np.nanmax(centres)) > 100.0 else 1000.0

    def radiance_scale(self, unit: str | None) -> tuple[float, dict[str, str]]:
        """Factor to `RADIANCE_UNIT`, and what had to be assumed.

        Args:
            unit: The unit if the caller knows it; else the header's words decide.
        """
        words = {key: text for key, text in self.fields.items() if key == "description" or "unit" in key}
        words.pop("wavelength_units", None)
        stated = unit or next((found for text in words.values() if (found := find_radiance_unit(text))), None)
        if stated is None and ("reflectance_scale_factor" in self.fields or np.dtype(self.dtype).kind != "f"):
            raise ReaderError(
                self.path,
                f"holds {self.dtype} values of no stated radiance unit, perhaps reflectance or counts",
                "give a radiance cube, or pass its unit",
            )
        if stated is None:
            return 1.0, {"radiance_unit": f"not stated by the file, taken as {RADIANCE_UNIT}"}
        try:
            return radiance_scale(stated), {}
        except UnknownUnitError as failure:
            raise ReaderError(self.path, str(failure), "convert the cube") from failure

    def sensor(self) -> str | None:
        """The sensor named by `sensor_type` or by the beginning of the file's name."""
        prefix = re.match(r"[a-z]+3?", self.path.name.lower())
        for word in (self.fields.get("sensor_type", "").strip("{} ").lower(), prefix[0] if prefix else ""):
            name = _SPELLINGS.get(word, word)
            if name in SENSORS:
                return name
        return None

    def time(self) -> datetime | None:
        """Start of acquisition (UTC) from `acquisition_time`."""
        try:
            time = datetime.fromisoformat(self.fields.get("acquisition_time", "").strip("{} "))
        except ValueError:
            return None
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
