"""EnMAP's METADATA.XML: bands, calibration, smile, RPCs, angles and time.

Names of elements as in the product specification EN-PCV-ICD-2009-2 and the public readers that follow it; namespaces
are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from jaxtyping import Float

from flame.io.budget import read_text
from flame.io.errors import ReaderError
from flame.io.names import time_of_text
from flame.physics import ColumnBands

__all__ = ["EnmapMetadata", "Rpc", "read_enmap_metadata"]

_FIX = "give the product as it was delivered"
_ABSOLUTE_NM = 100.0
_ORBIT_KM, _EARTH_KM = 653.0, 6371.0
_WANTED_NM = 2300.0


@dataclass(frozen=True)
class Rpc:
    """Rational polynomial coefficients of one band: longitude, latitude and height to row and column."""

    offsets: dict[str, float]
    scales: dict[str, float]
    row_num: tuple[float, ...]
    row_den: tuple[float, ...]
    col_num: tuple[float, ...]
    col_den: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class EnmapMetadata:
    """What the XML says.

    Attributes:
        level: `L1B` or `L1C`.
        centres_nm: Centres of all bands, VNIR first.
        fwhm_nm: Their widths.
        gain: Radiance of one count, in W m-2 nm-1 sr-1.
        offset: Radiance of zero counts.
        vnir_bands: How many of the bands are VNIR.
        smile: Coefficients (band, power) of the SWIR bands' wavelengths over columns counted from 1, if given.
        rpc: RPCs of the SWIR band near 2300 nm, for L1B.
        time: Start of acquisition, UTC.
        solar_zenith_deg: Sun's angle from the vertical at the centre.
        view_zenith_deg: Sensor's angle from the vertical at the centre.
    """

    level: str
    centres_nm: Float[np.ndarray, " band"]
    fwhm_nm: Float[np.ndarray, " band"]
    gain: Float[np.ndarray, " band"]
    offset: Float[np.ndarray, " band"]
    vnir_bands: int
    smile: Float[np.ndarray, "swir power"] | None
    rpc: Rpc | None
    time: datetime | None
    solar_zenith_deg: float | None
    view_zenith_deg: float | None

    def column_bands(self, columns: int) -> ColumnBands | None:
        """Centres and widths of the SWIR bands in each column.

        The polynomial gives the difference from the nominal centre, or, in some descriptions, the centre itself; its
        size tells which.
        """
        if self.smile is None:
            return None
        centres = self.centres_nm[self.vnir_bands :, None]
        column = np.arange(1, columns + 1, dtype=np.float64)
        value = np.stack([np.polynomial.polynomial.polyval(column, row) for row in self.smile])
        absolute = np.abs(value) > _ABSOLUTE_NM
        shifted = np.where(absolute.all(axis=1, keepdims=True), value, centres + value)
        if not np.isfinite(shifted).all() or np.abs(shifted - centres).max() > 20.0:
            return None
        return ColumnBands(shifted, np.repeat(self.fwhm_nm[self.vnir_bands :, None], columns, axis=1))


def read_enmap_metadata(path: Path) -> EnmapMetadata:
    """Reads the XML.

    Raises:
        ReaderError: If it is damaged, lacks something, or describes another level than 1.
    """
    root = _parsed(path)
    level = (root.findtext("base/level") or _level_of_name(path)).strip().upper()
    if not level.startswith(("L1B", "L1C")):
        raise ReaderError(
            path, f"describes an EnMAP product of level {level or 'unknown'}", "give an L1B or L1C product"
        )
    bands = sorted(root.findall("specific/bandCharacterisation/bandID"), key=lambda band: _whole(path, band))
    if not bands:
        raise ReaderError(path, "describes no bands (specific/bandCharacterisation)", _FIX)
    names = ("wavelengthCenterOfBand", "FWHMOfBand", "GainOfBand", "OffsetOfBand")
    centres, fwhm, gain, offset = (np.array([_number(path, band, name) for band in bands]) for name in names)
    channels = root.findtext("product/image/vnir/channels")
    swir = root.findtext("product/image/swir/channels")
    vnir_bands = _count(path, channels, swir, centres)
    return EnmapMetadata(
        level[:3],
        centres,
        fwhm,
        gain,
        offset,
        vnir_bands,
        _smile(root, len(bands) - vnir_bands),
        _rpc(path, root, centres),
        time_of_text(root.findtext("base/temporalCoverage/startTime")),
        _solar_zenith(root),
        _view_zenith(root),
    )


def _parsed(path: Path) -> ElementTree.Element:
    text = read_text(path)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ReaderError(path, "defines entities of its own, which no EnMAP product does", _FIX)
    try:
        root = ElementTree.fromstring(text.encode("utf-8", "replace") if "encoding=" in text[:200] else text)
    except (ElementTree.ParseError, ValueError, LookupError) as failure:  # LookupError: an encoding of no such name
        raise ReaderError(path, f"is not proper XML ({failure})", "copy or download it again") from failure
    for element in root.iter():
        element.tag = str(element.tag).rpartition("}")[2]
    return root


def _level_of_name(path: Path) -> str:
    return next((level for level in ("L1B", "L1C", "L2A") if level in path.name.upper()), "")


def _whole(path: Path, band: ElementTree.Element) -> int:
    word = band.get("number", "")
    if not word.isdigit():
        raise ReaderError(path, f"numbers a band '{word[:20]}'", _FIX)
    return int(word)


def _number(path: Path, parent: ElementTree.Element, name: str) -> float:
    try:
        return float(parent.findtext(name) or "")
    except ValueError:
        raise ReaderError(
            path, f"a band's {name} is '{(parent.findtext(name) or '')[:20]}', not a number", _FIX
        ) from None


def _count(path: Path, vnir: str | None, swir: str | None, centres: Float[np.ndarray, " band"]) -> int:
    """How many bands are VNIR: as the XML says, else up to where the wavelengths fall back to SWIR's first."""
    if vnir is not None and vnir.strip().isdigit():
        count = int(vnir)
    else:
        falls = np.flatnonzero(np.diff(centres) < 0)
        count = int(falls[0]) + 1 if falls.size else 0
    if count >= centres.size or (swir is not None and swir.strip().isdigit() and count + int(swir) != centres.size):
        raise ReaderError(path, f"tells of {vnir} VNIR and {swir} SWIR bands but describes {centres.size}", _FIX)
    return count


def _smile(root: ElementTree.Element, bands: int) -> Float[np.ndarray, "swir power"] | None:
    section = root.find(".//smileCorrection/SWIR")
    if section is None:
        return None
    rows = []
    for band in section.iter("bandID"):
        try:
            rows.append([float(band.findtext(f"coeff{power}") or "") for power in range(5)])
        except ValueError:
            return None
    smile = np.array(rows)
    return smile if smile.shape == (bands, 5) and np.isfinite(smile).all() else None


def _rpc(path: Path, root: ElementTree.Element, centres: Float[np.ndarray, " band"]) -> Rpc | None:
    bands = root.findall("product/navigation/RPC/bandID")
    if not bands:
        return None
    at = int(np.argmin(np.abs(centres - _WANTED_NM)))
    band = next((b for b in bands if b.get("number") == str(at + 1)), bands[min(at, len(bands) - 1)])
    try:
        values = {str(child.tag).lower(): float(child.text or "") for child in band}
    except ValueError:
        raise ReaderError(path, "an RPC coefficient is not a number", _FIX) from None

    def terms(prefix: str) -> tuple[float, ...]:
        found = [(key, value) for key, value in values.items() if key.startswith(prefix)]
        ordered = sorted(found, key=lambda pair: int("".join(c for c in pair[0] if c.isdigit()) or "0"))
        return tuple(value for _, value in ordered)

    polynomials = [terms(prefix) for prefix in ("row_num", "row_den", "col_num", "col_den")]
    axes = ("row", "col", "lat", "long", "height")
    offsets, scales = ({axis: values.get(f"{axis}_{kind}", np.nan) for axis in axes} for kind in ("off", "scale"))
    if any(len(terms_) != 20 for terms_ in polynomials) or not np.isfinite([*offsets.values(), *scales.values()]).all():
        raise ReaderError(path, "its RPCs are not complete", _FIX)
    return Rpc(offsets, scales, *polynomials)


def _mean(elements: Iterable[ElementTree.Element]) -> float | None:
    for element in elements:
        for names in (("center",), ("upper_left", "upper_right", "lower_left", "lower_right")):
            try:
                value = float(np.mean([float(element.findtext(name) or "") for name in names]))
            except ValueError:
                continue
            if np.isfinite(value):
                return value
    return None


def _solar_zenith(root: ElementTree.Element) -> float | None:
    elevation = _mean(root.iter("sunElevationAngle"))
    return None if elevation is None or not 0 <= elevation <= 90 else 90.0 - elevation


def _view_zenith(root: ElementTree.Element) -> float | None:
    """From the angle off nadir at the satellite to the angle at the ground, on a sphere."""
    angle = _mean(root.iter("acrossOffNadirAngle"))
    if angle is None or abs(angle) > 45:
        return None
    sine = np.sin(np.deg2rad(abs(angle))) * (_EARTH_KM + _ORBIT_KM) / _EARTH_KM
    return float(np.rad2deg(np.arcsin(sine)))
