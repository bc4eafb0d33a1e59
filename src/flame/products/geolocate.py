"""Where things are on the Earth: pixel coordinates to longitude and latitude, and swaths onto a map grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.spatial import cKDTree

from flame.scene import GeoGrid

__all__ = ["MapGrid", "longitude_latitude", "map_grid", "pixel_area_m2", "transformed"]

_FARTHEST_PIXELS = 1.0
_MOST_CELLS_A_PIXEL = 32
"""A swath that needs more map cells than this for each of its pixels has positions that make no map."""
_POLAR_DEG = 84.0
"""Beyond this latitude a grid of degrees is torn apart: the map is polar stereographic."""
_EQUATOR_M = 6_378_137.0
_FLATTENING = 1 / 298.257_223_563
"""WGS 84."""
_ALL = slice(None)


def longitude_latitude(
    geo: GeoGrid, row: Float[np.ndarray, " n"], col: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Longitude and latitude in degrees (WGS 84) of pixel coordinates, whole numbers being pixel corners.

    NaN where the position is not known: beyond the projection's world, or more than a pixel away from the nearest
    pixel with a latitude and longitude.
    """
    if geo.affine is not None and geo.crs is not None:
        a, b, c, d, e, f = geo.affine
        return transformed(geo.crs, "EPSG:4326", a * col + b * row + c, d * col + e * row + f)
    assert geo.latitude_deg is not None
    assert geo.longitude_deg is not None
    # Through unit vectors, which know neither date line nor poles.
    vectors = _unit_vectors(geo.longitude_deg.astype(np.float64), geo.latitude_deg.astype(np.float64))
    at = np.stack([row, col]) - 0.5
    x, y, z = (_interpolated(_continued(part), at) for part in vectors)
    return np.rad2deg(np.arctan2(y, x)), np.rad2deg(np.arctan2(z, np.hypot(x, y)))


def transformed(
    from_crs: str, to_crs: str, x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Coordinates in another reference system; NaN where there is no way from one to the other."""
    from rasterio.crs import CRS
    from rasterio.errors import CRSError, RasterioError
    from rasterio.warp import transform

    try:
        moved = transform(CRS.from_user_input(from_crs), CRS.from_user_input(to_crs), x.tolist(), y.tolist())
    except (CRSError, RasterioError):
        return np.full(x.shape, np.nan), np.full(y.shape, np.nan)
    new_x, new_y = (np.where(np.isfinite(values), values, np.nan) for values in map(np.array, moved))
    return new_x, new_y


def _unit_vectors(
    longitude_deg: Float[np.ndarray, "*at"], latitude_deg: Float[np.ndarray, "*at"]
) -> tuple[Float[np.ndarray, "*at"], Float[np.ndarray, "*at"], Float[np.ndarray, "*at"]]:
    """Points of the unit sphere; NaN where the position is not on the Earth."""
    known = (np.abs(latitude_deg) <= 90) & (np.abs(longitude_deg) <= 360)
    lon, lat = (np.deg2rad(np.where(known, angle, np.nan)) for angle in (longitude_deg, latitude_deg))
    return np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)


def _continued(field: Float[np.ndarray, "row col"]) -> Float[np.ndarray, "row col"]:
    """The field with the pixels next to known ones continued in a straight line, so that corners of a known pixel lie
    between known centres; twice, for those that only touch at a corner."""
    for _ in range(2):
        unknown = np.isnan(field)
        if not unknown.any():
            break
        padded = np.pad(field, 2, constant_values=np.nan)
        rows, cols = field.shape
        guesses = [
            2 * padded[2 + r : 2 + r + rows, 2 + c : 2 + c + cols]
            - padded[2 + 2 * r : 2 + 2 * r + rows, 2 + 2 * c : 2 + 2 * c + cols]
            for r, c in ((0, 1), (0, -1), (1, 0), (-1, 0))
        ]
        guess = np.array(guesses)
        there = np.isfinite(guess)
        mean = np.where(there, guess, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        field = np.where(unknown & there.any(axis=0), mean, field)
    return field


def _interpolated(field: Float[np.ndarray, "row col"], at: Float[np.ndarray, "2 n"]) -> Float[np.ndarray, " n"]:
    """Linear between pixel centres, and on beyond the outermost ones by the slope at the edge."""
    inside = np.stack([np.clip(at[axis], 0, max(field.shape[axis] - 1, 0)) for axis in (0, 1)])
    edge = _bilinear(field, inside)
    values = edge.copy()
    for axis in (0, 1):
        beyond = at[axis] - inside[axis]
        if field.shape[axis] > 1 and beyond.any():
            step = np.zeros_like(inside)
            step[axis] = np.where(beyond < 0, 1.0, -1.0)
            slope = np.where(beyond != 0, edge - _bilinear(field, inside + step * (beyond != 0)), 0.0)
            values += np.abs(beyond) * slope
    return np.asarray(values)


def _bilinear(field: Float[np.ndarray, "row col"], at: Float[np.ndarray, "2 n"]) -> Float[np.ndarray, " n"]:
    """Between the four nearest pixels; one without weight may be unknown."""
    first = np.floor(at).astype(np.int64)
    share = at - first
    value = np.zeros(at.shape[1])
    for down in (0, 1):
        for right in (0, 1):
            weight = np.abs(1 - down - share[0]) * np.abs(1 - right - share[1])
            row = np.clip(first[0] + down, 0, field.shape[0] - 1)
            col = np.clip(first[1] + right, 0, field.shape[1] - 1)
            value += np.where(weight > 0, weight * field[row, col], 0.0)
    return value


def pixel_area_m2(geo: GeoGrid, row: float, col: float) -> float:
    """Ground area of a pixel whose centre is there, on the ellipsoid; NaN if its position is not known."""
    half = np.array([-0.5, -0.5, 0.5, 0.5])
    lon, lat = longitude_latitude(geo, row + half, col + half[[0, 2, 3, 1]])
    squash = 1 - _FLATTENING
    x, y, z = _unit_vectors(lon, lat)
    # From the centre of the Earth, in m: flattening squeezes the polar axis.
    normal = _EQUATOR_M / np.sqrt(x**2 + y**2 + (squash * z) ** 2)
    corners = np.stack([x * normal, y * normal, squash**2 * z * normal], axis=1)
    return float(np.linalg.norm(np.cross(corners[2] - corners[0], corners[3] - corners[1]))) / 2


def _unwrapped(longitude_deg: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Longitudes without the jump at the date line."""
    jumps = longitude_deg.max() - longitude_deg.min() > 180
    return np.where(longitude_deg < 0, longitude_deg + 360, longitude_deg) if jumps else longitude_deg


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

    def shape(self, scene: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the map of a scene with those rows and columns."""
        return scene if self.source is None else (int(self.source.shape[0]), int(self.source.shape[1]))

    def onto(
        self,
        layer: Shaped[np.ndarray, "row col"],
        missing: Any,
        rows: slice = _ALL,
        cols: slice = _ALL,
    ) -> Shaped[np.ndarray, "maprow mapcol"]:
        """A layer of the scene on some rows and columns of the grid; cells that show no pixel get `missing`."""
        if self.source is None:
            return layer[rows, cols]
        source = self.source[rows, cols]
        found = layer.ravel()[np.maximum(source, 0)]
        found[source < 0] = missing
        return np.asarray(found)

    def shown(
        self, usable: Bool[np.ndarray, "row col"], rows: slice = _ALL, cols: slice = _ALL
    ) -> Bool[np.ndarray, "maprow mapcol"]:
        """Cells that show a usable pixel."""
        return np.asarray(self.onto(usable, False, rows, cols))


_NO_MAP = MapGrid(None, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0))


def map_grid(geo: GeoGrid | None) -> MapGrid:
    """The grid for a scene's GeoTIFFs: its own, its product's, or for a swath one of its pixel size.

    A swath's own grid is in degrees, or in metres around a pole.

    Positions that make no map (fewer than two known pixels, or pixels strewn over the Earth) give a grid without one.
    """
    if geo is None:
        return _NO_MAP
    if geo.affine is not None:
        return MapGrid(geo.crs, geo.affine)
    assert geo.latitude_deg is not None
    assert geo.longitude_deg is not None
    if geo.table is not None:
        return MapGrid(geo.table.crs, geo.table.affine, geo.table.flat(geo.latitude_deg.shape[1]))
    lon, lat = geo.longitude_deg.astype(np.float64), geo.latitude_deg.astype(np.float64)
    known = np.isfinite(_unit_vectors(lon, lat)[0])
    if known.sum() < 2:
        return _NO_MAP
    lon, lat = lon[known], lat[known]
    crs, shrink, x, y = "EPSG:4326", float(np.cos(np.deg2rad(np.mean(lat)))), _unwrapped(lon), lat
    if np.abs(lat).max() > _POLAR_DEG:
        crs, shrink = ("EPSG:3995" if lat.mean() > 0 else "EPSG:3031"), 1.0
        x, y = transformed("EPSG:4326", crs, lon, lat)
        if not (np.isfinite(x) & np.isfinite(y)).all():
            return _NO_MAP
    points = np.stack([x * shrink, y], axis=1)
    tree = cKDTree(points)
    # Half the pixels have a neighbour closer than this: the side of a cell, in degrees of latitude or metres.
    sample = points[:: max(1, len(points) // 2000)]
    side = float(np.median(np.asarray(tree.query(sample, k=2)[0])[:, 1]))
    extent = np.ptp(points, axis=0)
    if not side > 0 or float(np.prod(extent / side + 1)) > _MOST_CELLS_A_PIXEL * len(points):
        return _NO_MAP
    west, north = x.min() - side / shrink / 2, y.max() + side / 2
    cols = round((x.max() - west) / side * shrink + 0.5)
    rows = round((north - y.min()) / side + 0.5)
    grid_x = west + (np.arange(cols) + 0.5) * side / shrink
    grid_y = north - (np.arange(rows) + 0.5) * side
    cells = np.stack(np.meshgrid(grid_x * shrink, grid_y), axis=-1).reshape(-1, 2)
    distance, nearest = (np.asarray(a) for a in tree.query(cells, distance_upper_bound=_FARTHEST_PIXELS * side))
    source = np.full(rows * cols, -1)
    near = np.isfinite(distance)
    source[near] = np.flatnonzero(known.ravel())[nearest[near]]
    affine = (side / shrink, 0.0, float(west), 0.0, -side, float(north))
    return MapGrid(crs, affine, source.reshape(rows, cols))
