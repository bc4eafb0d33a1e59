"""Winds from the files people have: a table of stations or masts, GeoJSON points, or a weather model's grid.

A table (CSV) or GeoJSON has, for each row or point, a place, a time and a wind, under the names of `tables.NAMES`. A
grid is a netCDF-4 file of ERA5 (`u10`, `v10` on latitude and longitude) or a GRIB file (ERA5 or HRRR, by GDAL). The
wind is interpolated to the plume's place and time; a grid's standard deviation is the usual error of a weather model
joined in squares with the spread of the 3 x 3 points around the place at the two times around it.
"""

from __future__ import annotations

import math
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from flame.io.wind.grids import check_grib, check_netcdf, wind_of_grib, wind_of_netcdf
from flame.io.wind.tables import table_readings, wind_of_table
from flame.physics import Wind, WindError

__all__ = ["check_wind_file", "read_wind"]

_LARGEST_TABLE = 200_000_000
_GRID_ENDINGS = {".nc", ".nc4", ".grib", ".grib2", ".grb", ".grb2"}


def read_wind(path: Path, when: datetime | None, longitude: float, latitude: float) -> Wind:
    """The wind of a file at a place and time.

    Args:
        path: CSV, GeoJSON, netCDF-4 or GRIB; told apart by content.
        when: Time of the scene, UTC; may be None for tables without times.
        longitude: Of the plume, degrees.
        latitude: Of the plume, degrees.

    Raises:
        WindError: If the file cannot be read, or has no wind within 100 km and three hours.
    """
    kind = _kind(path)
    if not (math.isfinite(longitude) and math.isfinite(latitude)):
        raise WindError(f"{path}: the plume's place is not known, so no wind can be looked up; give --wind instead")
    if kind == "netcdf":
        return wind_of_netcdf(path, when, longitude, latitude)
    if kind == "grib":
        return wind_of_grib(path, when, longitude, latitude)
    return wind_of_table(path, _text(path), when, longitude, latitude)


def check_wind_file(path: Path) -> None:
    """Reads all of a wind file that can be judged without a scene: its kind, names, units, times and every row.

    Raises:
        WindError: If no scene could take a wind from it.
    """
    kind = _kind(path)
    stat = path.stat()
    _check(path, kind, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _check(path: Path, kind: str, _changed_ns: int, _size: int) -> None:
    """Checks a file once for as long as it does not change; what fails is not remembered."""
    if kind == "netcdf":
        check_netcdf(path)
    elif kind == "grib":
        check_grib(path)
    else:
        table_readings(path, _text(path))


def _kind(path: Path) -> Literal["netcdf", "grib", "table"]:
    """What a file is by its content."""
    if path.is_dir():
        raise WindError(f"{path}: a folder; give the CSV, GeoJSON, netCDF or GRIB file in it")
    if not path.is_file():
        raise WindError(f"{path}: no such file; give CSV, GeoJSON, netCDF or GRIB, or --wind SPEED,DIRECTION")
    try:
        with path.open("rb") as stream:
            head = stream.read(8)
    except OSError as mistake:
        raise WindError(f"{path}: cannot be read ({mistake.strerror})") from None
    if head.startswith(b"\x89HDF"):
        return "netcdf"
    if head.startswith(b"GRIB"):
        return "grib"
    if head.startswith(b"CDF"):
        raise WindError(f"{path}: netCDF of the classic kind; convert it: nccopy -k nc4 {path.name} wind.nc")
    if path.suffix.lower() in _GRID_ENDINGS:
        raise WindError(f"{path}: named as netCDF or GRIB, but it is neither; download it again, or name a table .csv")
    return "table"


def _text(path: Path) -> str:
    if path.stat().st_size > _LARGEST_TABLE:
        raise WindError(f"{path}: a table of over {_LARGEST_TABLE // 10**6} MB; cut it to the days that are needed")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise WindError(f"{path}: neither text nor netCDF nor GRIB; a wind file was expected") from None
