"""Winds from the files people have: a table of stations or masts, GeoJSON points, or a weather model's grid.

A table (CSV) or GeoJSON has, for each row or point, a place, a time and a wind, under the names of `tables.NAMES`. A
grid is a netCDF-4 file of ERA5 (`u10`, `v10` on latitude and longitude) or a GRIB file (ERA5 or HRRR, by GDAL). The
wind is interpolated to the plume's place and time; a grid's standard deviation is the spread of the 3 x 3 points
around the place at the two times around it, as in EMIT's product.
"""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path

from flame.io.wind.grids import wind_of_grib, wind_of_netcdf
from flame.io.wind.tables import wind_of_table
from flame.physics import Wind, WindError

__all__ = ["read_wind"]

_LARGEST_TABLE = 200_000_000


def read_wind(path: Path, when: datetime | None, longitude: float, latitude: float) -> Wind:
    """The wind of a file at a place and time.

    Args:
        path: CSV, GeoJSON, netCDF-4 or GRIB; told apart by content.
        when: Time of the scene, UTC; may be None for files with one time only.
        longitude: Of the plume, degrees.
        latitude: Of the plume, degrees.

    Raises:
        WindError: If the file cannot be read, or has no wind within 100 km and three hours.
    """
    if not path.is_file():
        raise WindError(f"{path}: no such file; give CSV, GeoJSON, netCDF or GRIB, or --wind SPEED,DIRECTION")
    if not (math.isfinite(longitude) and math.isfinite(latitude)):
        raise WindError(f"{path}: the plume's place is not known, so no wind can be looked up; give --wind instead")
    with path.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(b"\x89HDF"):
        return wind_of_netcdf(path, when, longitude, latitude)
    if head.startswith(b"GRIB"):
        return wind_of_grib(path, when, longitude, latitude)
    if head.startswith(b"CDF"):
        raise WindError(f"{path}: netCDF of the classic kind; convert it: nccopy -k nc4 {path.name} wind.nc")
    if path.stat().st_size > _LARGEST_TABLE:
        raise WindError(f"{path}: a table of over {_LARGEST_TABLE // 10**6} MB; cut it to the days that are needed")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise WindError(f"{path}: neither text nor netCDF nor GRIB; a wind file was expected") from None
    return wind_of_table(path, text, when, longitude, latitude)
