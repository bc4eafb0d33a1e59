"""AVIRIS-3 (and AVIRIS-5) L1B radiance as netCDF4, with its OBS file if it lies beside it.

The radiance comes on the sensor's own grid with a look-up table in the same file, or on a map; both are read.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from flame.io.angles import mean_angle_deg, sample_lines
from flame.io.assemble import Cube, scene_of_hdf5
from flame.io.errors import ReaderError
from flame.io.glt import affine_of_geotransform, geo_of_table, lookup_table, swath_geo
from flame.io.hdf5 import Hdf5File, holds, is_hdf5
from flame.io.hdf5_cube import StoredCube
from flame.io.names import acquisition_time, time_of_text
from flame.io.options import OpenOptions
from flame.io.radiance_unit import scale_to_radiance
from flame.io.raster import crs_of_text
from flame.scene import Acquisition, GeoGrid, SceneFile

__all__ = ["LOOKS_LIKE", "is_aviris3", "open_aviris3"]

LOOKS_LIKE = "an AVIRIS-3 L1B radiance file, AV3..._L1B_RDN_....nc"

_LINE = re.compile(r"AV[35]\d{8}t\d{6}\w*?(?=_L1B|_L2A|_)", re.IGNORECASE)
_CUBE = "radiance/radiance"
_TABLE = "geolocation_lookup_table"


def is_aviris3(path: Path) -> bool:
    """Whether a file is one of the AVIRIS-3 netCDF products: a group with a cube of the same name."""
    parts = ("radiance/radiance", "reflectance/reflectance", "observation_parameters")
    return holds(path, lambda file: any(file.has(part) for part in parts))


def open_aviris3(path: Path | str, options: OpenOptions | None = None) -> SceneFile:
    """Opens a flight line.

    Raises:
        ReaderError: If it is damaged, or another AVIRIS-3 product than radiance.
    """
    return scene_of_hdf5(Path(path), options or OpenOptions(), _cube)


def _cube(path: Path, file: Hdf5File, options: OpenOptions) -> Cube:
    if not file.has(_CUBE):
        raise ReaderError(
            path, "is an AVIRIS product without radiance", "give the L1B radiance file, ..._L1B_RDN_....nc"
        )
    stored = StoredCube(path, file.dataset(_CUBE, 3), (0, 1, 2))
    bands, rows, cols = stored.shape
    words = [file.text(name, _CUBE) or "" for name in ("units", "unit")]
    scale, notes = scale_to_radiance(path, words, options)
    geo, geo_notes = _geo(path, file, (rows, cols))
    sun, view = _angles(path)
    fill = file.number("_FillValue", _CUBE)
    return Cube(
        path=path,
        shape=(rows, cols),
        centres_nm=file.array("radiance/wavelength", 1, (bands,)).astype(np.float64),
        read=stored.read,
        scale=scale,
        fwhm_nm=file.array("radiance/fwhm", 1, (bands,)).astype(np.float64) if file.has("radiance/fwhm") else None,
        fill=(-9999.0,) if fill is None else (fill, -9999.0),
        geo=geo,
        acquisition=Acquisition(
            "aviris-3" if path.name.lower().startswith("av3") else None,
            time_of_text(file.text("time_coverage_start")) or acquisition_time(path.name),
            sun,
            view,
            str(path),
            notes | geo_notes,
        ),
        close=file.close,
    )


def _geo(path: Path, file: Hdf5File, shape: tuple[int, int]) -> tuple[GeoGrid | None, dict[str, str]]:
    grid = None
    if file.has("transverse_mercator"):
        words = (file.text("GeoTransform", "transverse_mercator") or "").split()
        try:
            numbers = np.array([float(word) for word in words])
        except ValueError:
            numbers = None
        crs = file.text("crs_wkt", "transverse_mercator") or file.text("spatial_ref", "transverse_mercator")
        grid = (crs_of_text(path, crs), affine_of_geotransform(path, numbers))
    table = None
    if grid is not None and file.has(f"{_TABLE}/sample") and file.has(f"{_TABLE}/line"):
        line, sample = file.array(f"{_TABLE}/line", 2), file.array(f"{_TABLE}/sample", 2)
        table = lookup_table(path, *grid, line, sample, shape)
    if file.has("lat") and file.has("lon") and tuple(file.dataset("lat", 2).shape) == shape:
        latitude, longitude = file.positions("lat", shape, 90.0), file.positions("lon", shape, 360.0)
        return swath_geo(table, latitude, longitude, "location arrays")
    if table is not None:
        return geo_of_table(path, table, shape, "look-up table (GLT)"), {}
    if grid is not None:
        return GeoGrid(crs=grid[0], affine=grid[1], source="map grid"), {}
    return None, {}


def _angles(path: Path) -> tuple[float | None, float | None]:
    """Mean zenith angles of the sun and of the sensor from the OBS file of the same line, in degrees."""
    line = _LINE.match(path.name)
    if line is None:
        return None, None
    beside = [
        other
        for other in sorted(path.parent.iterdir())
        if other != path and other.name.startswith(line[0]) and "_OBS" in other.name.upper() and is_hdf5(other)
    ]
    if not beside:
        return None, None
    file = Hdf5File(beside[0])
    try:
        return _mean_angle(file, "sun"), _mean_angle(file, "sensor")
    finally:
        file.close()


def _mean_angle(file: Hdf5File, of: str) -> float | None:
    group = "observation_parameters"
    names = [name for name in file.names(group) if of in name.lower() and "zenith" in name.lower()]
    if not names:
        return None
    name = f"{group}/{names[0]}"
    return mean_angle_deg(file.lines(name, sample_lines(file.dataset(name, 2).shape[0])))
