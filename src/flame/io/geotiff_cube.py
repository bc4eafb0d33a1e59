"""GeoTIFF cubes whose bands tell their wavelengths.

GDAL and the programs on it write them in several ways, all of which are looked at: band tags `wavelength` and `fwhm`
with `wavelength_units`; GDAL's own `CENTRAL_WAVELENGTH_UM` and `FWHM_UM`; lists in the file's tags; band descriptions
such as `2300.25 nm`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import rasterio
from jaxtyping import Float, Float32
from rasterio.windows import Window

from flame.io.assemble import Cube, scene_of
from flame.io.errors import ReaderError
from flame.io.names import acquisition_time
from flame.io.options import OpenOptions
from flame.io.radiance_unit import scale_to_radiance
from flame.io.raster import gdal_safely, geo_of, opened
from flame.scene import Acquisition, SceneFile

__all__ = ["LOOKS_LIKE", "TiffBands", "is_geotiff", "open_geotiff"]

LOOKS_LIKE = "a GeoTIFF cube whose bands tell their wavelengths"

_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_DESCRIPTION = re.compile(rf"({_NUMBER})\s*(nm|nanomet\w*|um|µm|micromet\w*)\b", re.IGNORECASE)


def is_geotiff(path: Path) -> bool:
    """Whether a file begins as TIFF does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) in _MAGIC


class TiffBands:
    """An open TIFF, read by lines.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = opened(path)
        self.shape = (int(self.source.height), int(self.source.width))
        self.count = int(self.source.count)

    def close(self) -> None:
        """Closes the file."""
        self.source.close()

    def read(self, rows: slice, bands: Sequence[int]) -> Float32[np.ndarray, "band row col"]:
        """Some lines in some bands, counted from 0, as stored, in float32."""
        window = Window(0, rows.start, self.shape[1], rows.stop - rows.start)
        with gdal_safely(self.path):
            values: Float32[np.ndarray, "band row col"] = self.source.read(
                [band + 1 for band in bands], window=window, out_dtype=np.float32
            )
        return values


def open_geotiff(path: Path | str, options: OpenOptions | None = None) -> SceneFile:
    """Opens a cube.

    Raises:
        ReaderError: If it is damaged, its bands tell no wavelengths, or its unit is not known.
    """
    path, options = Path(path), options or OpenOptions()
    tiff = TiffBands(path)
    try:
        return scene_of(_cube(path, tiff, options), options)
    except BaseException:
        tiff.close()
        raise


def _cube(path: Path, tiff: TiffBands, options: OpenOptions) -> Cube:
    source = tiff.source
    tags = {key.lower(): str(value) for key, value in source.tags().items()}
    tags |= {key.lower(): str(value) for key, value in source.tags(ns="ENVI").items()}
    centres_nm, fwhm_nm = _wavelengths(path, source, tags)
    gain, offset = np.array(source.scales, dtype=np.float64), np.array(source.offsets, dtype=np.float64)
    scaled = bool((gain != 1).any() or (offset != 0).any())
    whole = np.dtype(source.dtypes[0]).kind != "f"
    words = [text for key, text in tags.items() if "unit" in key and "wavelength" not in key]
    words += [str(unit) for unit in source.units if unit] + [tags.get("description", "")]
    words += [tags.get("tifftag_imagedescription", "")]
    scale, notes = scale_to_radiance(
        path,
        words,
        options,
        counts=source.dtypes[0] if whole and not scaled else None,
        reflectance="reflectance_scale_factor" in tags,
    )
    fill = {float(value) for value in source.nodatavals if value is not None and np.isfinite(value) and value != 0}
    return Cube(
        path=path,
        shape=tiff.shape,
        centres_nm=centres_nm,
        read=tiff.read,
        scale=scale,
        fwhm_nm=fwhm_nm,
        gain=gain if scaled else None,
        offset=offset if scaled else None,
        fill=(*sorted(fill), -9999.0),
        geo=geo_of(source),
        acquisition=Acquisition(tags.get("sensor"), acquisition_time(path.name), source=str(path), extra=notes),
        close=tiff.close,
    )


def _wavelengths(
    path: Path, source: rasterio.DatasetReader, tags: Mapping[str, str]
) -> tuple[Float[np.ndarray, " band"], Float[np.ndarray, " band"] | None]:
    centres, widths = np.full(source.count, np.nan), np.full(source.count, np.nan)
    listed, listed_widths = _list(tags.get("wavelength"), source.count), _list(tags.get("fwhm"), source.count)
    if listed is not None:
        factor = _nm_per(tags.get("wavelength_units"), listed)
        centres = listed * factor
        widths = widths if listed_widths is None else listed_widths * factor
    else:
        for at in range(source.count):
            band = {key.lower(): str(value) for key, value in source.tags(at + 1).items()}
            imagery = {key.lower(): str(value) for key, value in source.tags(at + 1, ns="IMAGERY").items()}
            centres[at], widths[at] = _of_band(band, imagery, source.descriptions[at])
    if not np.isfinite(centres).any():
        raise ReaderError(
            path,
            "its bands do not tell their wavelengths",
            "set each band's tags 'wavelength' and 'wavelength_units' (and 'fwhm'), for example with gdal_edit.py",
        )
    return centres, widths if np.isfinite(widths[np.isfinite(centres)]).all() else None


def _of_band(band: Mapping[str, str], imagery: Mapping[str, str], description: str | None) -> tuple[float, float]:
    """Centre and width of one band in nm, NaN where not told."""
    centre = _number(imagery.get("central_wavelength_um"))
    if np.isfinite(centre):
        return centre * 1000, _number(imagery.get("fwhm_um")) * 1000
    centre = _number(band.get("wavelength"))
    if np.isfinite(centre):
        factor = _nm_per(band.get("wavelength_units"), np.array([centre]))
        return centre * factor, _number(band.get("fwhm")) * factor
    match = _DESCRIPTION.search(description or "")
    if match is None:
        return np.nan, np.nan
    return float(match[1]) * (1.0 if match[2].lower().startswith("n") else 1000.0), _number(band.get("fwhm"))


def _number(word: str | None) -> float:
    match = re.match(rf"\s*({_NUMBER})", word or "")
    return float(match[1]) if match else np.nan


def _list(text: str | None, count: int) -> Float[np.ndarray, " band"] | None:
    words = [word for word in re.split(r"[\s,;{}]+", text or "") if word]
    values = np.array([_number(word) for word in words])
    return values if values.size == count and count > 1 else None


def _nm_per(unit: str | None, values: Float[np.ndarray, " n"]) -> float:
    word = (unit or "").lower()
    if word.startswith(("nano", "nm")):
        return 1.0
    if word.startswith(("micro", "um", "µm")):
        return 1000.0
    return 1.0 if float(np.nanmax(values)) > 100.0 else 1000.0
