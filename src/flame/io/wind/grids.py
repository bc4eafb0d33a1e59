"""Winds of a weather model's grid: ERA5 as netCDF-4, ERA5 or HRRR as GRIB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from flame.io.wind.times import time_weights
from flame.io.wind.units import NO_UNIT, m_s_per
from flame.physics import Wind, WindError
from flame.physics.wind import usual_wind_sigma_m_s

__all__ = ["check_grib", "check_netcdf", "wind_of_grib", "wind_of_netcdf"]

_GRIB_ELEMENTS = {"UGRD": "u", "10U": "u", "VGRD": "v", "10V": "v"}
_GRIB_HEIGHTS = ("10-", "0-SFC")
_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}

_Part = tuple[float, float, float, Float[np.ndarray, " point"]]
"""Weight of a time, wind eastward and northward at the place, speeds of the grid points around it."""


def wind_of_netcdf(path: Path, when: datetime | None, longitude: float, latitude: float) -> Wind:
    """The wind of ERA5's `u10` and `v10` at a place and time."""
    with _netcdf(path) as grid:
        around = _closes(grid.lon)
        lon = np.append(grid.lon, grid.lon[0] + 360.0) if around else grid.lon
        middle = (lon[0] + lon[-1]) / 2
        row = _place(grid.lat, latitude)
        col = _place(lon, middle + (longitude - middle + 180.0) % 360.0 - 180.0)
        parts = []
        for index, weight in time_weights(path, grid.times, when):
            grids = [_scaled(v, index) * (factor or 1.0) for v, factor in zip(grid.winds, grid.factors, strict=True)]
            if around:
                grids = [np.concatenate([values, values[:, :1]], axis=1) for values in grids]
            parts.append((weight, *_from_grid(path, grids[0], grids[1], row, col)))
        return _of_grids(path, parts, grid.factors)


def check_netcdf(path: Path) -> None:
    """Whether a netCDF file has winds on known axes, with known times and units.

    Raises:
        WindError: If it has not.
    """
    with _netcdf(path):
        pass


@dataclass(frozen=True, eq=False)
class _NetcdfGrid:
    """An open file's winds eastward and northward, m/s in one of each one's unit if it is stated, and the axes."""

    winds: tuple[Any, Any]
    factors: tuple[float | None, float | None]
    lat: Float[np.ndarray, " row"]
    lon: Float[np.ndarray, " col"]
    times: list[datetime]


@contextmanager
def _netcdf(path: Path) -> Iterator[_NetcdfGrid]:
    """A file's grid while it is open; what goes wrong meanwhile is told as a WindError."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            east, north = (_variable(path, file, names) for names in (("u10", "u"), ("v10", "v")))
            lat = np.asarray(_variable(path, file, ("latitude", "lat"))[()], dtype=np.float64)
            lon = np.asarray(_variable(path, file, ("longitude", "lon"))[()], dtype=np.float64)
            times = _netcdf_times(path, file)
            if lat.ndim != 1 or lon.ndim != 1 or east.shape[-2:] != (lat.size, lon.size) or north.shape != east.shape:
                raise WindError(f"{path}: u10 and v10 must stand on axes of latitude and longitude, as ERA5's do")
            factors = m_s_per(path, _unit(east)), m_s_per(path, _unit(north))
            yield _NetcdfGrid((east, north), factors, lat, lon, times)
    except WindError:
        raise
    except (OSError, KeyError, ValueError, TypeError, IndexError, OverflowError, RuntimeError) as mistake:
        raise WindError(f"{path}: no netCDF file of winds that FLAME knows, such as ERA5's ({mistake})") from None


def _unit(variable: Any) -> str:
    """The unit that a netCDF variable states, or nothing."""
    unit = variable.attrs.get("units", "")
    unit = unit.item() if isinstance(unit, np.ndarray) and unit.size == 1 else unit
    return unit.decode() if isinstance(unit, bytes) else str(unit)


def _variable(path: Path, file: Any, names: Iterable[str]) -> Any:
    for name in names:
        if name in file:
            return file[name]
    raise WindError(
        f"{path}: has no variable {' or '.join(names)}; a netCDF file of winds has u10, v10, latitude, longitude and "
        f"valid_time or time, as ERA5's do"
    )


def _netcdf_times(path: Path, file: Any) -> list[datetime]:
    variable = _variable(path, file, ("valid_time", "time"))
    words = _unit(variable).split()
    if len(words) < 3 or words[1] != "since":
        raise WindError(f"{path}: times have the unit '{' '.join(words)}'; expected 'hours since ...'")
    step = _SECONDS.get(words[0])
    if step is None:
        raise WindError(f"{path}: times in '{words[0]}'; expected seconds, minutes, hours or days")
    start = datetime.fromisoformat(" ".join(words[2:4]).replace(" 0:0:0", " 00:00:00").split(".")[0].rstrip("Z"))
    start = start.replace(tzinfo=UTC)
    return [start + timedelta(seconds=float(value) * step) for value in np.atleast_1d(variable[()])]


def _closes(longitude_deg: np.ndarray) -> bool:
    """Whether a rising axis of longitudes goes once around the Earth, so that after its last point comes its first."""
    if longitude_deg.size < 2:
        return False
    step = float(longitude_deg[1] - longitude_deg[0])
    return step > 0 and abs(float(longitude_deg[-1] - longitude_deg[0]) + step - 360.0) < 0.5 * step


def _place(axis: np.ndarray, value: float) -> float:
    """Fractional index of a value on an axis that rises or falls."""
    if axis.size < 2:
        return 0.0 if abs(float(axis[0]) - value) < 1.0 else math.inf
    index = np.arange(axis.size, dtype=np.float64)
    rising = axis[-1] > axis[0]
    inside = np.interp(value, axis if rising else axis[::-1], index if rising else index[::-1])
    step = abs(float(axis[1] - axis[0]))
    beyond = max(value - float(axis.max()), float(axis.min()) - value, 0.0)
    return float(inside) if beyond <= 0.5 * step else math.inf


def _scaled(variable: Any, index: int) -> np.ndarray:
    """One time of a packed variable, unpacked; what is missing becomes NaN."""
    raw = variable[index] if variable.ndim == 3 else variable[(index,) + (0,) * (variable.ndim - 3)]
    values = np.asarray(raw, dtype=np.float64)
    for name in ("_FillValue", "missing_value"):
        if name in variable.attrs:
            values[raw == np.ravel(variable.attrs[name])[0]] = np.nan
    scale = float(np.ravel(variable.attrs.get("scale_factor", 1.0))[0])
    return values * scale + float(np.ravel(variable.attrs.get("add_offset", 0.0))[0])


def wind_of_grib(path: Path, when: datetime | None, longitude: float, latitude: float) -> Wind:
    """The 10 m wind of a GRIB file at a place and time; a projected grid's axes are taken for east and north."""
    from rasterio.transform import rowcol
    from rasterio.warp import transform

    with _grib(path) as (file, bands, factors):
        times = sorted(bands)
        x, y = transform("EPSG:4326", file.crs, [longitude], [latitude])
        if file.crs.is_geographic and x[0] < file.bounds.left:
            x[0] += 360.0
        row, col = (float(np.ravel(v)[0]) - 0.5 for v in rowcol(file.transform, x, y, op=float))
        parts = []
        for index, weight in time_weights(path, times, when):
            grids = [
                file.read(number).astype(np.float64) * (factor or 1.0)
                for number, factor in zip(bands[times[index]], factors, strict=True)
            ]
            parts.append((weight, *_from_grid(path, grids[0], grids[1], row, col)))
        return _of_grids(path, parts, factors)


def check_grib(path: Path) -> None:
    """Whether a GRIB file has winds at 10 m, in known units.

    Raises:
        WindError: If it has not.
    """
    with _grib(path):
        pass


@contextmanager
def _grib(path: Path) -> Iterator[tuple[Any, dict[datetime, tuple[int, int]], tuple[float | None, float | None]]]:
    """An open file, its bands eastward and northward by time, and how many m/s one of each one's unit is."""
    import rasterio
    from rasterio.errors import RasterioError

    try:
        with rasterio.open(path, driver="GRIB") as file:
            bands: dict[str, dict[datetime, int]] = {"u": {}, "v": {}}
            factors: dict[str, float | None] = {}
            for number in range(1, file.count + 1):
                tags = file.tags(number)
                name = _GRIB_ELEMENTS.get(tags.get("GRIB_ELEMENT", "").upper())
                if name is None or not tags.get("GRIB_SHORT_NAME", "10-HTGL").startswith(_GRIB_HEIGHTS):
                    continue
                seconds = float(tags["GRIB_VALID_TIME"].split()[0])
                bands[name][datetime.fromtimestamp(seconds, UTC)] = number
                factor = m_s_per(path, tags.get("GRIB_UNIT", ""))
                if factors.setdefault(name, factor) != factor:
                    raise WindError(f"{path}: its winds have several units; convert the file to m/s")
            times = sorted(bands["u"].keys() & bands["v"].keys())
            if not times:
                raise WindError(f"{path}: has no 10 m wind (UGRD and VGRD at 10-HTGL)")
            yield file, {time: (bands["u"][time], bands["v"][time]) for time in times}, (factors["u"], factors["v"])
    except WindError:
        raise
    except (RasterioError, OSError, KeyError, ValueError, IndexError) as mistake:
        raise WindError(f"{path}: GDAL cannot read its winds ({mistake})") from None


def _from_grid(
    path: Path,
    east_m_s: np.ndarray,
    north_m_s: np.ndarray,
    row: float,
    col: float,
) -> tuple[float, float, np.ndarray]:
    """Bilinear wind at a place of one time's grid, and the speeds of the 3 x 3 points around it."""
    rows, cols = east_m_s.shape
    if not (-0.5 <= row <= rows - 0.5 and -0.5 <= col <= cols - 0.5):
        raise WindError(f"{path}: its grid does not reach the plume")
    row, col = min(max(row, 0.0), rows - 1.0), min(max(col, 0.0), cols - 1.0)
    r0, c0 = min(int(row), max(rows - 2, 0)), min(int(col), max(cols - 2, 0))
    r1, c1 = min(r0 + 1, rows - 1), min(c0 + 1, cols - 1)
    fr, fc = row - r0, col - c0
    corners = ((r0, c0, (1 - fr) * (1 - fc)), (r0, c1, (1 - fr) * fc), (r1, c0, fr * (1 - fc)), (r1, c1, fr * fc))
    east = sum(float(east_m_s[r, c]) * w for r, c, w in corners if w > 0)
    north = sum(float(north_m_s[r, c]) * w for r, c, w in corners if w > 0)
    middle_row, middle_col = round(row), round(col)
    around = (
        slice(max(middle_row - 1, 0), middle_row + 2),
        slice(max(middle_col - 1, 0), middle_col + 2),
    )
    return east, north, np.hypot(east_m_s[around], north_m_s[around]).ravel()


def _of_grids(path: Path, parts: list[_Part], factors: tuple[float | None, float | None]) -> Wind:
    """The wind of one or two times.

    Its error joins in squares that of a weather model, which a smooth field has too, and the spread about the place.
    """
    east = sum(weight * east for weight, east, _, _ in parts)
    north = sum(weight * north for weight, _, north, _ in parts)
    speeds = np.concatenate([speeds for *_, speeds in parts])
    speeds = speeds[np.isfinite(speeds)]
    if not math.isfinite(east + north):
        raise WindError(f"{path}: has no wind at the plume's place, only a gap")
    try:
        wind = Wind.of_components(east, north, None, path.name)
    except WindError as mistake:
        raise WindError(f"{path}: {mistake}") from None
    spread = float(speeds.std()) if speeds.size > 1 else 0.0
    sigma = math.hypot(usual_wind_sigma_m_s(wind.speed_m_s), spread)
    return replace(wind, sigma_m_s=sigma, note=NO_UNIT if None in factors else "")
