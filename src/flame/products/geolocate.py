"""Where things are on the Earth: pixel coordinates to longitude and latitude, and swaths onto a map grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy import ndimage
from scipy.spatial import cKDTree

from flame.scene import GeoGrid

__all__ = ["MapGrid", "longitude_latitude", "map_grid", "pixel_area_m2"]

_METRES_PER_DEGREE = 111_320.0
_FARTHEST_PIXELS = 1.0


def longitude_latitude(
    geo: GeoGrid, row: Float[np.ndarray, " n"], col: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Longitude and latitude in degrees (WGS 84) of pixel coordinates, whole numbers being pixel corners."""
    if geo.affine is not None and geo.crs is not None:
        from rasterio.crs import CRS
        from rasterio.warp import transform

        a, b, c, d, e, f = geo.affine
        x, y = a * col + b * row + c, d * col + e * row + f
        lon, lat = transform(CRS.from_user_input(geo.crs), CRS.from_epsg(4326), x.tolist(), y.tolist())
        return np.array(lon), np.array(lat)
    assert geo.latitude_deg is not None
    assert geo.longitude_deg is not None
    at = np.stack([row, col]) - 0.5
    lon = _interpolated(_unwrapped(geo.longitude_deg), at)
    return (lon + 180.0) % 360.0 - 180.0, _interpolated(geo.latitude_deg, at)


def _unwrapped(longitude_deg: Float[np.ndarray, "row col"]) -> Float[np.ndarray, "row col"]:
    """Longitudes without the jump at the date line."""
    jumps = np.nanmax(longitude_deg) - np.nanmin(longitude_deg) > 180
    return np.where(longitude_deg < 0, longitude_deg + 360, longitude_deg) if jumps else longitude_deg


def _interpolated(field: Float[np.ndarray, "row col"], at: Float[np.ndarray, "2 n"]) -> Float[np.ndarray, " n"]:
    """Linear between pixel centres, and on beyond the outermost ones by the slope at the edge."""
    inside = np.stack([np.clip(at[axis], 0, max(field.shape[axis] - 1, 0)) for axis in (0, 1)])
    edge = ndimage.map_coordinates(field.astype(np.float64), inside, order=1, mode="nearest")
    values = edge.copy()
    for axis in (0, 1):
        if field.shape[axis] > 1:
            beyond = at[axis] - inside[axis]
            step = np.zeros_like(inside)
            step[axis] = np.where(beyond < 0, 1.0, -1.0)
            neighbour = ndimage.map_coordinates(field.astype(np.float64), inside + step, order=1, mode="nearest")
            values += np.abs(beyond) * (edge - neighbour)
    return np.asarray(values)


def pixel_area_m2(geo: GeoGrid, row: float, col: float) -> float:
    """Ground area of a pixel at that place, on a sphere."""
    lon, lat = longitude_latitude(geo, np.array([row, row + 1, row]), np.array([col, col, col + 1]))
    east = (lon - lon[0] + 180.0) % 360.0 - 180.0
    x, y = east * _METRES_PER_DEGREE * np.cos(np.deg2rad(lat[0])), (lat - lat[0]) * _METRES_PER_DEGREE
    return float(abs(x[1] * y[2] - x[2] * y[1]))


@dataclass(frozen=True, eq=False)
class MapGrid:
    """A regular map grid and, if the scene is a swath, which of its pixels each cell shows.

    Attributes:
        crs: Coordinate reference system, None without any position.
        affine: Pixel corners to map coordinates, as in rasterio.
        source: Flat index into the scene of the pixel nearest to each cell, -1 where there is none; None if the scene
            already is on the grid.
    """

    crs: str | None
    affine: tuple[float, float, float, float, float, float]
    source: Int[np.ndarray, "row col"] | None = None

    def onto(self, layer: Shaped[np.ndarray, "row col"], missing: Any) -> Shaped[np.ndarray, "maprow mapcol"]:
        """A layer of the scene on the grid; cells that show no pixel get `missing`."""
        if self.source is None:
            return layer
        found = np.where(self.source >= 0, layer.ravel()[np.maximum(self.source, 0)], missing)
        return np.asarray(found, dtype=layer.dtype)

    def shown(self, usable: Bool[np.ndarray, "row col"]) -> Bool[np.ndarray, "maprow mapcol"]:
        """Cells that show a usable pixel."""
        return np.asarray(self.onto(usable, False))


def map_grid(geo: GeoGrid | None) -> MapGrid:
    """The grid for a scene's GeoTIFFs: its own, its product's, or for a swath one of degrees."""
    if geo is None:
        return MapGrid(None, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    if geo.affine is not None:
        return MapGrid(geo.crs, geo.affine)
    assert geo.latitude_deg is not None
    assert geo.longitude_deg is not None
    if geo.table is not None:
        return MapGrid(geo.table.crs, geo.table.affine, geo.table.flat(geo.latitude_deg.shape[1]))
    lon, lat = _unwrapped(geo.longitude_deg), geo.latitude_deg
    known = np.isfinite(lon) & np.isfinite(lat)
    shrink = float(np.cos(np.deg2rad(np.mean(lat[known]))))
    points = np.stack([lon[known] * shrink, lat[known]], axis=1)
    tree = cKDTree(points)
    # Half the pixels have a neighbour closer than this: the side of a cell, in degrees of latitude.
    sample = points[:: max(1, len(points) // 2000)]
    side = float(np.median(np.asarray(tree.query(sample, k=2)[0])[:, 1])) if len(points) > 1 else 1e-4
    west, north = lon[known].min() - side / shrink / 2, lat[known].max() + side / 2
    cols = round((lon[known].max() - west) / side * shrink + 0.5)
    rows = round((north - lat[known].min()) / side + 0.5)
    grid_lon = west + (np.arange(cols) + 0.5) * side / shrink
    grid_lat = north - (np.arange(rows) + 0.5) * side
    cells = np.stack(np.meshgrid(grid_lon * shrink, grid_lat), axis=-1).reshape(-1, 2)
    distance, nearest = (np.asarray(a) for a in tree.query(cells, distance_upper_bound=_FARTHEST_PIXELS * side))
    source = np.full(rows * cols, -1)
    near = np.isfinite(distance)
    source[near] = np.flatnonzero(known.ravel())[nearest[near]]
    affine = (side / shrink, 0.0, west, 0.0, -side, north)
    return MapGrid("EPSG:4326", affine, source.reshape(rows, cols))
