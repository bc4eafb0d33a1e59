"""Tanager-1 radiance (HDF-EOS5): basic scenes in the sensor's grid, ortho scenes on a map.

Follows Planet's Tanager product specification of November 2025.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from jaxtyping import UInt16

from flame.io.angles import mean_angle_deg, sample_lines
from flame.io.assemble import Cube, scene_of_hdf5
from flame.io.errors import ReaderError
from flame.io.glt import swath_geo
from flame.io.hdf5 import Hdf5File, holds, looking_into
from flame.io.hdf5_cube import StoredCube
from flame.io.names import acquisition_time
from flame.io.options import OpenOptions
from flame.io.radiance_unit import scale_to_radiance
from flame.scene import Acquisition, GeoGrid, SceneFile, SceneFlag

__all__ = ["LOOKS_LIKE", "is_tanager", "open_tanager"]

LOOKS_LIKE = "a Tanager radiance scene, ..._basic_radiance_hdf5.h5 or ..._ortho_radiance_hdf5.h5"

_ROOTS = ("HDFEOS/SWATHS/HYP", "HDFEOS/GRIDS/HYP")
_MASKS = {
    "beta_cloud_mask": SceneFlag.CLOUD,
    "beta_cirrus_mask": SceneFlag.CIRRUS,
    "nodata_pixels": SceneFlag.FILL,
}


def is_tanager(path: Path) -> bool:
    """Whether a file is a Tanager product."""
    return holds(path, lambda file: any(file.has(root) for root in _ROOTS))


def open_tanager(path: Path | str, options: OpenOptions | None = None) -> SceneFile:
    """Opens a scene.

    Raises:
        ReaderError: If it is damaged, or holds surface reflectance.
    """
    return scene_of_hdf5(Path(path), options or OpenOptions(), _cube)


def _cube(path: Path, file: Hdf5File, options: OpenOptions) -> Cube:
    root = next(root for root in _ROOTS if file.has(root))
    fields = f"{root}/Data Fields"
    name = f"{fields}/toa_radiance"
    if not file.has(name):
        raise ReaderError(path, "is a Tanager product without radiance", "give the scene's ..._radiance_hdf5.h5")
    stored = StoredCube(path, file.dataset(name, 3), (0, 1, 2))
    bands, rows, cols = stored.shape
    shape = (rows, cols)
    centres, widths = file.numbers("wavelengths", name), file.numbers("fwhm", name)
    if centres is None or centres.size != bands or (widths is not None and widths.size != bands):
        raise ReaderError(path, f"does not list the wavelengths of its {bands} bands", "download it again")
    words = [file.text(key, name) or "" for key in ("Unit", "Units", "units")]
    scale, notes = scale_to_radiance(path, words, options, by_product="W m-2 um-1 sr-1")
    fill = file.number("_FillValue", name)
    masks = _Masks(file, fields, shape)
    geo, geo_notes = _geo(path, file, root, shape)
    return Cube(
        path=path,
        shape=shape,
        centres_nm=centres,
        read=stored.read,
        scale=scale,
        fwhm_nm=widths,
        fill=(-9999.0,) if fill is None else (fill, -9999.0),
        flags=masks.flags,
        known=masks.known,
        geo=geo,
        acquisition=Acquisition(
            "tanager-1",
            _time(file, root) or acquisition_time(path.name),
            _angle(file, f"{fields}/sun_zenith", shape),
            _angle(file, f"{fields}/sensor_zenith", shape),
            str(path),
            notes | geo_notes,
        ),
        close=file.close,
    )


def _time(file: Hdf5File, root: str) -> datetime | None:
    """Time of the first line, stored in seconds since 1970."""
    name = f"{root}/Geolocation Fields/Time"
    if not file.has(name):
        return None
    with looking_into(file.path):
        first = file.lines(name, [0])
    sane = first[np.isfinite(first) & (first > 0) & (first < 4e9)]
    return datetime.fromtimestamp(float(sane[0]), UTC) if sane.size else None


def _angle(file: Hdf5File, name: str, shape: tuple[int, int]) -> float | None:
    return mean_angle_deg(file.lines(name, sample_lines(shape[0]))) if file.has(name) else None


def _geo(path: Path, file: Hdf5File, root: str, shape: tuple[int, int]) -> tuple[GeoGrid | None, dict[str, str]]:
    if "SWATHS" in root:
        latitude = file.positions(f"{root}/Geolocation Fields/Latitude", shape, 90.0)
        longitude = file.positions(f"{root}/Geolocation Fields/Longitude", shape, 360.0)
        return swath_geo(None, latitude, longitude, "location arrays")
    words = " ".join(file.strings("HDFEOS INFORMATION/StructMetadata.0"))
    corners = [_pair(words, name) for name in ("UpperLeftPointMtrs", "LowerRightMtrs")]
    zone = re.search(r"ZoneCode=(-?\d+)", words)
    code = file.number("epsg_code", root)
    if code is None and zone is not None:
        code = 32600 + int(zone[1]) if int(zone[1]) > 0 else 32700 - int(zone[1])
    if corners[0] is None or corners[1] is None or code is None:
        raise ReaderError(path, "its StructMetadata.0 tells no map grid", "give the product as it was delivered")
    (left, top), (right, bottom) = corners[0], corners[1]
    affine = ((right - left) / shape[1], 0.0, left, 0.0, (bottom - top) / shape[0], top)
    if affine[0] <= 0 or affine[4] >= 0:
        raise ReaderError(path, "its map corners are the wrong way round", "give the product as it was delivered")
    return GeoGrid(crs=f"EPSG:{int(code)}", affine=affine, source="map grid"), {}


def _pair(words: str, name: str) -> tuple[float, float] | None:
    match = re.search(rf"{name}=\(\s*(-?[\d.eE+-]+)\s*,\s*(-?[\d.eE+-]+)\s*\)", words)
    try:
        return None if match is None else (float(match[1]), float(match[2]))
    except ValueError:
        return None


class _Masks:
    """Tanager's masks: 1 where the cause holds."""

    def __init__(self, file: Hdf5File, fields: str, shape: tuple[int, int]) -> None:
        self._layers: UInt16[np.ndarray, "row col"] = np.zeros(shape, dtype=np.uint16)
        self.known = SceneFlag.NONE
        for name, flag in _MASKS.items():
            if file.has(f"{fields}/{name}"):
                self._layers[file.array(f"{fields}/{name}", 2, shape) == 1] |= np.uint16(int(flag))
                self.known |= flag

    def flags(self, rows: slice, _bands: Sequence[int]) -> UInt16[np.ndarray, "row col"]:
        return self._layers[rows]
