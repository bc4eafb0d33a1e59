"""ENVI headers: text beside a binary file that says how the cube is stored and what it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Bool, Float

from flame.io.budget import check_cube, read_text, regular_file
from flame.io.errors import ReaderError
from flame.io.names import acquisition_time, time_of_text
from flame.io.plain_cube import Interleave, PlainCube
from flame.physics import SENSORS

__all__ = ["EnviHeader", "binary_of", "header_of"]

DATA_SUFFIXES = ("", ".img", ".dat", ".bsq", ".bil", ".bip", ".raw", ".bin")
MAX_HEADER_BYTES = 8_000_000

_TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_SPELLINGS = {
    "ang": "aviris-ng",
    "avirisng": "aviris-ng",
    "aviris-next generation": "aviris-ng",
    "av3": "aviris-3",
    "aviris3": "aviris-3",
}
_ENTRY = re.compile(r"^[ \t]*([A-Za-z][^=\n]*?)[ \t]*=[ \t]*(\{[^}]*\}?|[^\n]*)", re.MULTILINE)


def header_of(path: Path) -> Path | None:
    """The ENVI header of a path: itself, or the one beside it; None if there is none that begins as one does."""
    if path.suffix.lower() == ".hdr":
        headers = [path]
    else:
        headers = [path.with_name(path.name + ".hdr"), path.with_suffix(".hdr")]
    for header in headers:
        if path.is_file() and header.is_file():
            with header.open("rb") as text:
                if text.read(4) == b"ENVI":
                    return header
    return None


def binary_of(path: Path) -> Path:
    """The binary file of a header; any other path is taken for the binary itself."""
    if path.suffix.lower() != ".hdr":
        return path
    stem = path.with_suffix("")
    for suffix in DATA_SUFFIXES:
        binary = stem.with_name(stem.name + suffix)
        if binary.is_file():
            return binary
    raise ReaderError(path, "the header's binary file is not there", f"put {stem.name} or {stem.name}.img beside it")


@dataclass(frozen=True, eq=False)
class EnviHeader:
    """The header of an ENVI cube.

    Attributes:
        path: The binary file, for messages.
        fields: Its entries as text, lists with their braces; keys in lower case with underscores.
        shape: Bands, rows and columns.
        dtype: Type of the stored values, in the file's byte order.
        interleave: `bsq`, `bil` or `bip`.
        offset: Bytes before the first value.
    """

    path: Path
    fields: dict[str, str]
    shape: tuple[int, int, int]
    dtype: np.dtype
    interleave: Interleave
    offset: int

    @classmethod
    def read(cls, path: Path) -> EnviHeader:
        """Reads the header of a binary file, and refuses one whose binary is shorter than it says."""
        regular_file(path)
        header = header_of(path)
        if header is None:
            raise ReaderError(path, "has no ENVI header beside it", f"put {path.name}.hdr beside it")
        text = read_text(header, MAX_HEADER_BYTES)
        fields = {re.sub(r"\s+", "_", key.strip().lower()): value.strip() for key, value in _ENTRY.findall(text)}

        def whole(key: str, default: int | None = None) -> int:
            word = fields.get(key, "" if default is None else str(default))
            if not re.fullmatch(r"[+-]?\d{1,18}", word):
                raise ReaderError(
                    header, f"its '{key.replace('_', ' ')}' is '{word[:40]}'", "give a whole number there"
                )
            return int(word)

        shape = (whole("bands"), whole("lines"), whole("samples"))
        check_cube(header, *shape)
        kind, order, offset = whole("data_type"), whole("byte_order", 0), whole("header_offset", 0)
        if kind not in _TYPES or order not in (0, 1) or offset < 0:
            raise ReaderError(
                header,
                f"data type {kind}, byte order {order}, header offset {offset} cannot be read",
                "store the cube again as real numbers or integers",
            )
        word = fields.get("interleave", "bsq").strip().lower()
        interleave = next((known for known in get_args(Interleave) if known == word), None)
        if interleave is None or fields.get("file_compression", "0").strip() != "0":
            raise ReaderError(header, f"interleave '{word[:20]}' or a compressed binary", "store it as bsq or bil")
        dtype = np.dtype(_TYPES[kind]).newbyteorder("<" if order == 0 else ">")
        expected = offset + shape[0] * shape[1] * shape[2] * dtype.itemsize
        size = path.stat().st_size
        if size < expected:
            raise ReaderError(
                path, f"is truncated: {size} bytes, its header says {expected}", "copy or download it again"
            )
        return cls(path, fields, shape, dtype, interleave, offset)

    def opened(self) -> FileIO:
        """The binary file, for the caller to close."""
        try:
            return FileIO(self.path)
        except OSError as failure:
            raise ReaderError(self.path, f"cannot be opened ({failure.strerror})", "check its permissions") from failure

    def cube(self, file: FileIO) -> PlainCube:
        """The cube in the opened binary."""
        return PlainCube(self.path, file.fileno(), self.shape, self.dtype, self.interleave, self.offset)

    @property
    def bands(self) -> int:
        """How many bands."""
        return self.shape[0]

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

    def number(self, key: str) -> float | None:
        """An entry that is one number; None if there is none or it is something else."""
        try:
            value = float(self.fields.get(key, "").strip("{} \n"))
        except ValueError:
            return None
        return value if np.isfinite(value) else None

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
        unit = self.fields.get("wavelength_units", "").strip("{} \n").lower()
        if unit.startswith(("nano", "nm")):
            return 1.0
        if unit.startswith(("micro", "um", "µm")):
            return 1000.0
        if unit not in ("", "unknown"):
            raise ReaderError(
                self.path,
                f"the header's wavelength units are '{unit[:40]}'",
                "give the wavelengths in nanometers or micrometers",
            )
        return 1.0 if float(np.nanmax(centres, initial=0.0)) > 100.0 else 1000.0

    def sensor(self) -> str | None:
        """The sensor named by `sensor_type` or by the beginning of the file's name."""
        prefix = re.match(r"[a-z]+3?", self.path.name.lower())
        for word in (self.fields.get("sensor_type", "").strip("{} ").lower(), prefix[0] if prefix else ""):
            name = _SPELLINGS.get(word, word)
            if name in SENSORS:
                return name
        return None

    def time(self) -> datetime | None:
        """Start of acquisition (UTC) from `acquisition_time`, else from the file's name."""
        return time_of_text(self.fields.get("acquisition_time")) or acquisition_time(self.path.name)
