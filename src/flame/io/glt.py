"""Geographic look-up tables: which pixel of the swath each cell of a map shows, as NASA's products store it.

Numbers count from 1; 0 is no pixel; a negative number is a cell filled in from a neighbour and counts like its
positive. Where a product also has location arrays, those decide where a pixel is, and the table only how a map is
filled: some builds were delivered with the table of the mirrored granule.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy import ndimage

from flame.io.errors import ReaderError
from flame.scene import GeoGrid, LookupTable
from flame.scene.geo import Affine

__all__ = ["affine_of_geotransform", "geo_of_table", "lookup_table", "swath_geo"]

FILL = -9999
_FITS_CELLS = 3.0
_FIX = "download it again; the scene can be read without the table if its other location files are there"


def affine_of_geotransform(path: Path, numbers: Float[np.ndarray, " n"] | None) -> Affine:
    """GDAL's (x0, dx, rx, y0, ry, dy) in the order rasterio has."""
    if numbers is None or numbers.size != 6 or not np.isfinite(numbers).all():
        raise ReaderError(path, "its geotransform is not six numbers", "give the product as it was delivered")
    c, a, b, f, d, e = (float(number) for number in numbers)
    if abs(a * e - b * d) < 1e-18:
        raise ReaderError(path, "its geotransform has pixels of no size", "give the product as it was delivered")
    return (a, b, c, d, e, f)


def lookup_table(
    path: Path, crs: str, affine: Affine, line: np.ndarray, sample: np.ndarray, shape: tuple[int, int]
) -> LookupTable:
    """A product's table, checked and counted from 0.

    Args:
        path: The file, for messages.
        crs: CRS of its map.
        affine: Cells' corners on the map.
        line: Row of the swath for each cell, from 1.
        sample: Column of the swath for each cell, from 1.
        shape: Rows and columns of the swath.

    Raises:
        ReaderError: If the table points outside the swath, shows no pixel, or is far larger than the swath.
    """
    if line.shape != sample.shape or line.ndim != 2:
        raise ReaderError(path, f"its look-up tables have shapes {line.shape} and {sample.shape}", _FIX)
    if line.size > 64 * shape[0] * shape[1] + 4096:
        raise ReaderError(
            path,
            f"its look-up table has {line.shape[0]} x {line.shape[1]} cells for {shape[0]} x {shape[1]} pixels",
            _FIX,
        )
    # Some tables are written as floats, and some mark cells without a pixel by -9999 like every other layer.
    line, sample = _whole(line), _whole(sample)
    shown = (line != 0) & (sample != 0) & ~((line == FILL) & (sample == FILL))
    row = np.where(shown, np.abs(line) - 1, -1)
    col = np.where(shown, np.abs(sample) - 1, -1)
    if (row >= shape[0]).any() or (col >= shape[1]).any():
        raise ReaderError(path, f"its look-up table points outside the {shape[0]} x {shape[1]} pixels", _FIX)
    if not (row >= 0).any():
        raise ReaderError(path, "its look-up table shows no pixel at all", _FIX)
    return LookupTable(crs, affine, row.astype(np.int32), col.astype(np.int32))


def _whole(values: np.ndarray) -> Int64[np.ndarray, "row col"]:
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    return np.where(np.isfinite(values) & (np.abs(values) < 2**31), values, 0).astype(np.int64)


def swath_geo(
    table: LookupTable | None,
    latitude_deg: Float[np.ndarray, "row col"],
    longitude_deg: Float[np.ndarray, "row col"],
    source: str,
) -> tuple[GeoGrid | None, dict[str, str]]:
    """Positions from location arrays, with the product's table if both tell the same; and what had to be noted.

    Some builds of EMIT's products were delivered with the table of the mirrored granule. So the table is compared with
    the arrays: if it fits only with columns (or rows) counted from the other end, it is turned; if it does not fit at
    all, it is left out and maps are made from the arrays.
    """
    if not (np.isfinite(latitude_deg) & np.isfinite(longitude_deg)).any():
        return None, {"geometry": "the location arrays hold no position"}
    notes: dict[str, str] = {}
    if table is not None:
        table, note = _fitted(table, latitude_deg, longitude_deg)
        notes = {"look_up_table": note} if note else {}
    grid = GeoGrid(latitude_deg=latitude_deg, longitude_deg=longitude_deg, table=table, source=source)
    return grid, notes


def _fitted(
    table: LookupTable, latitude_deg: Float[np.ndarray, "row col"], longitude_deg: Float[np.ndarray, "row col"]
) -> tuple[LookupTable | None, str | None]:
    from rasterio.crs import CRS
    from rasterio.warp import transform

    rows, cols = latitude_deg.shape
    cells = np.flatnonzero(table.row >= 0)
    cells = cells[:: max(1, cells.size // 2000)]
    map_row, map_col = np.unravel_index(cells, table.row.shape)
    a, b, c, d, e, f = table.affine
    row, col = table.row[map_row, map_col], table.col[map_row, map_col]

    def off_cells(r: np.ndarray, k: np.ndarray) -> float:
        """Median distance between cells and the pixels they show, in cells."""
        lat, lon = latitude_deg[r, k], longitude_deg[r, k]
        known = np.isfinite(lat) & np.isfinite(lon)
        if not known.any():
            return np.inf
        x, y = transform(CRS.from_epsg(4326), CRS.from_user_input(table.crs), lon[known].tolist(), lat[known].tolist())
        dx, dy = (
            np.array(x) - (a * (map_col[known] + 0.5) + b * (map_row[known] + 0.5) + c),
            np.array(y) - (d * (map_col[known] + 0.5) + e * (map_row[known] + 0.5) + f),
        )
        if table.crs == "EPSG:4326":
            dx = (dx + 180.0) % 360.0 - 180.0
        across, down = (e * dx - b * dy) / (a * e - b * d), (a * dy - d * dx) / (a * e - b * d)
        return float(np.median(np.hypot(across, down)))

    if off_cells(row, col) <= _FITS_CELLS:
        return table, None
    for words, r, k in (
        ("columns", table.row, np.where(table.col >= 0, cols - 1 - table.col, -1)),
        ("lines", np.where(table.row >= 0, rows - 1 - table.row, -1), table.col),
    ):
        if off_cells(r[map_row, map_col], k[map_row, map_col]) <= _FITS_CELLS:
            turned = LookupTable(table.crs, table.affine, r.astype(np.int32), k.astype(np.int32))
            return turned, f"counts {words} from the other end than the location arrays do; turned"
    return None, "does not fit the location arrays; maps are made from those"


def geo_of_table(path: Path, table: LookupTable, shape: tuple[int, int], source: str) -> GeoGrid:
    """Positions of a swath's pixels from its table alone: the middle of the cells that show each pixel.

    Right to about half a cell. A pixel that no cell shows lies off the plane through all pixels as its nearest
    neighbour does.
    """
    from rasterio.crs import CRS
    from rasterio.errors import RasterioError
    from rasterio.warp import transform

    cells = np.nonzero(table.row >= 0)
    pixel = table.row[cells].astype(np.int64) * shape[1] + table.col[cells]
    count = np.bincount(pixel, minlength=shape[0] * shape[1])
    a, b, c, d, e, f = table.affine
    map_row, map_col = cells[0] + 0.5, cells[1] + 0.5
    known = count > 0
    position = []
    for along_col, along_row, origin in ((a, b, c), (d, e, f)):
        total = np.bincount(pixel, along_col * map_col + along_row * map_row + origin, shape[0] * shape[1])
        position.append(np.divide(total, count, out=np.full(count.size, np.nan), where=known))
    try:
        lon, lat = transform(
            CRS.from_user_input(table.crs),
            CRS.from_epsg(4326),
            position[0][known].tolist(),
            position[1][known].tolist(),
        )
    except (RasterioError, ValueError) as failure:
        raise ReaderError(path, f"its map projection is not understood ({failure})", _FIX) from failure
    latitude, longitude = (
        _filled(np.asarray(values), known.reshape(shape)) for values in (lat, _without_jump(np.asarray(lon)))
    )
    longitude = (longitude + 180.0) % 360.0 - 180.0
    return GeoGrid(latitude_deg=latitude, longitude_deg=longitude, table=table, source=source)


def _without_jump(longitude_deg: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Longitudes that do not jump at the date line."""
    jumps = np.ptp(longitude_deg) > 180
    return np.where(longitude_deg < 0, longitude_deg + 360, longitude_deg) if jumps else longitude_deg


def _filled(values: Float[np.ndarray, " n"], known: Bool[np.ndarray, "row col"]) -> Float[np.ndarray, "row col"]:
    """A smooth field that is known at some pixels, at all of them."""
    row, col = np.nonzero(known)
    plane = np.linalg.lstsq(np.stack([np.ones(row.size), row, col], axis=1), values, rcond=None)[0]
    rows, cols = np.indices(known.shape)
    smooth = plane[0] + plane[1] * rows + plane[2] * cols
    off = np.zeros(known.shape)
    off[known] = values - smooth[known]
    nearest = ndimage.distance_transform_edt(~known, return_distances=False, return_indices=True)
    return np.asarray(smooth + off[tuple(nearest)])
