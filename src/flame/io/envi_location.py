"""The files that lie beside an AVIRIS cube: where its pixels are (IGM, LOC, GLT) and how the light came (OBS)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from flame.io.angles import mean_angle_deg, sample_lines
from flame.io.budget import check_in_memory
from flame.io.envi_header import EnviHeader, header_of
from flame.io.errors import ReaderError
from flame.io.glt import geo_of_table, lookup_table
from flame.io.raster import geo_of, open_raster
from flame.scene import GeoGrid, LookupTable

__all__ = ["angles_beside", "find_beside", "geo_of_envi"]

_LINE_NAME = re.compile(r"(?:ang|av3|f)\d{6,8}t\d{2,6}", re.IGNORECASE)
_KINDS = {
    "igm": ("igm", "igm_ort", "ort_igm"),
    "loc": ("loc", "ort_loc", "loc_ort"),
    "glt": ("glt", "ort_glt", "glt_ort"),
    "obs": ("obs", "obs_ort", "ort_obs"),
}
_SENSOR_ZENITH, _SUN_ZENITH = 2, 4
_BESIDE = "download it again, or move it away to read the cube without it"


def find_beside(path: Path, kind: str, shape: tuple[int, int] | None = None) -> EnviHeader | None:
    """The companion of a cube: same flight line (or same name), ending in `_igm`, `_loc`, `_glt` or `_obs`.

    Args:
        path: The cube's binary.
        kind: Which companion.
        shape: Rows and columns it must have to be of use.
    """
    line = _LINE_NAME.search(path.name)
    stem = line[0] if line else re.sub(r"_(img|rdn)$", "", path.with_suffix("").name)
    endings = tuple(f"_{ending}" for ending in _KINDS[kind])
    for candidate in sorted(path.parent.iterdir()):
        name = candidate.name.lower()
        if candidate == path or name.endswith(".hdr") or not name.startswith(stem.lower()):
            continue
        if not (name.endswith(endings) or candidate.with_suffix("").name.lower().endswith(endings)):
            continue
        if header_of(candidate) is None:
            continue
        header = EnviHeader.read(candidate)
        if shape is None or header.shape[1:] == shape:
            return header
    return None


def geo_of_envi(header: EnviHeader) -> GeoGrid | None:
    """Where a cube's pixels are: its own map info, else IGM or LOC beside it, else the GLT."""
    path, shape = header.path, (header.shape[1], header.shape[2])
    if "map_info" in header.fields:
        with open_raster(path, "ENVI") as source:
            on_map = geo_of(source)
        if on_map is not None:
            return on_map
    table = _table(path, shape)
    for kind in ("igm", "loc"):
        found = find_beside(path, kind, shape)
        if found is not None:
            return _positions(found, kind, table)
    return None if table is None else geo_of_table(path, table, shape, "look-up table (GLT)")


def _table(path: Path, shape: tuple[int, int]) -> LookupTable | None:
    found = find_beside(path, "glt")
    if found is None:
        return None
    if found.bands < 2 or "map_info" not in found.fields:
        raise ReaderError(found.path, "is no look-up table: it needs two bands and a map info", _BESIDE)
    sample, line = _layers(found, 2)
    with open_raster(found.path, "ENVI") as source:
        grid = geo_of(source)
    if grid is None or grid.crs is None or grid.affine is None:
        raise ReaderError(found.path, "its map info is not understood", _BESIDE)
    return lookup_table(found.path, grid.crs, grid.affine, line, sample, shape)


def _positions(header: EnviHeader, kind: str, table: LookupTable | None) -> GeoGrid:
    if header.bands < 2:
        raise ReaderError(header.path, f"has {header.bands} band, expected longitude and latitude", _BESIDE)
    x, y = (layer.astype(np.float64) for layer in _layers(header, 2))
    known = np.isfinite(x) & np.isfinite(y) & (x > -9000) & (y > -9000)
    if not known.any():
        raise ReaderError(header.path, "holds no position", _BESIDE)
    if np.abs(y[known]).max() > 90 or np.abs(x[known]).max() > 360:
        x, y = _degrees(header, x, y, known, table)
    x, y = np.where(known, (x + 180.0) % 360.0 - 180.0, np.nan), np.where(known, y, np.nan)
    return GeoGrid(latitude_deg=y, longitude_deg=x, table=table, source=f"{kind.upper()} file {header.path.name}")


def _degrees(
    header: EnviHeader, x: np.ndarray, y: np.ndarray, known: np.ndarray, table: LookupTable | None
) -> tuple[np.ndarray, np.ndarray]:
    """Eastings and northings in degrees; their projection is that of the file's own map info, else of the GLT."""
    from rasterio.crs import CRS
    from rasterio.warp import transform

    crs = None if table is None else table.crs
    if "map_info" in header.fields or "coordinate_system_string" in header.fields:
        with open_raster(header.path, "ENVI") as source:
            crs = str(source.crs.to_wkt()) if source.crs is not None else crs
    if crs is None:
        raise ReaderError(
            header.path, "holds map coordinates and nothing beside it tells their projection", "put the GLT beside it"
        )
    lon, lat = transform(CRS.from_user_input(crs), CRS.from_epsg(4326), x[known].tolist(), y[known].tolist())
    x[known], y[known] = lon, lat
    return x, y


def _layers(header: EnviHeader, count: int) -> np.ndarray:
    """The first bands of a companion, in the precision it is stored in."""
    _, rows, cols = header.shape
    check_in_memory(header.path, "it", (count, rows, cols), header.dtype.itemsize)
    with header.opened() as file:
        return header.cube(file).read_exact(count)


def angles_beside(path: Path) -> tuple[float | None, float | None]:
    """Mean zenith angles of the sun and of the sensor from the OBS file, in degrees; None if there is none."""
    found = find_beside(path, "obs")
    if found is None or found.bands <= _SUN_ZENITH:
        return None, None
    with found.opened() as file:
        cube, wanted = found.cube(file), [_SUN_ZENITH, _SENSOR_ZENITH]
        lines = [cube.read(slice(at, at + 1), wanted) for at in sample_lines(found.shape[1])]
    sun, view = np.concatenate(lines, axis=1).reshape(2, -1)
    return mean_angle_deg(sun), mean_angle_deg(view)
