"""A scene's map as a picture: which cell is where on the Earth, how large a cell is, where north is, round ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from flame.detection import PixelPolygon
from flame.products.digits import Number
from flame.products.geolocate import MapGrid, longitude_latitude, map_grid, transformed
from flame.scene import GeoGrid

__all__ = ["MapView", "Tick", "degrees_text", "round_length_m", "round_step"]

_METRES_A_DEGREE = 111_320.0
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Tick:
    """A mark at the edge of a map.

    Attributes:
        at: Where, in cells.
        label: Degrees with their hemisphere.
    """

    at: float
    label: str


@dataclass(frozen=True, eq=False)
class MapView:
    """A scene on its map grid.

    Attributes:
        geo: Where the scene is, if known.
        grid: Its map grid.
        scene_shape: Rows and columns of the scene.
    """

    geo: GeoGrid | None
    grid: MapGrid
    scene_shape: tuple[int, int]

    @classmethod
    def of(cls, geo: GeoGrid | None, scene_shape: tuple[int, int], grid: MapGrid | None = None) -> MapView:
        """The view of a scene; its grid is made unless given."""
        return cls(geo, grid or map_grid(geo), scene_shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the map."""
        return self.grid.shape(self.scene_shape)

    @property
    def placed(self) -> bool:
        """Whether the map knows where it is."""
        return self.grid.crs is not None

    def degrees(
        self, row: Float[np.ndarray, " n"], col: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Longitude and latitude of cell coordinates (whole numbers are corners); NaN where not known."""
        if self.grid.crs is None:
            return np.full(row.shape, np.nan), np.full(row.shape, np.nan)
        return longitude_latitude(GeoGrid(crs=self.grid.crs, affine=self.grid.affine), row, col)

    def cells(
        self, row: Float[np.ndarray, " n"], col: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Cell coordinates (row, col) of scene pixel coordinates; NaN where not known."""
        if self.grid.source is None or self.geo is None or self.grid.crs is None:
            return row, col

        lon, lat = longitude_latitude(self.geo, row, col)
        known = np.isfinite(lon) & np.isfinite(lat)
        x, y = np.full(row.shape, np.nan), np.full(row.shape, np.nan)
        if known.any():
            x[known], y[known] = transformed("EPSG:4326", self.grid.crs, lon[known], lat[known])
        a, b, c, d, e, f = self.grid.affine
        if self.grid.crs == "EPSG:4326":  # the map may run on over the date line
            turn = 360.0 * np.round((c + a * self.shape[1] / 2 - x) / 360.0)
            x = x + np.where(np.isfinite(turn), turn, 0.0)
        determinant = a * e - b * d
        return (a * (y - f) - d * (x - c)) / determinant, (e * (x - c) - b * (y - f)) / determinant

    def rings(self, polygons: Sequence[PixelPolygon]) -> list[Float[np.ndarray, "_corner 2"]]:
        """Outlines in cell coordinates (row, col); rings with a corner of no known place are left out."""
        found = []
        for polygon in polygons:
            for ring in (polygon.exterior, *polygon.holes):
                placed = np.stack(self.cells(ring[:, 0].astype(float), ring[:, 1].astype(float)), axis=1)
                if np.isfinite(placed).all():
                    found.append(placed)
        return found

    @cached_property
    def cell_m(self) -> tuple[float, float]:
        """Height and width of a cell in the middle of the map, in m; NaN if not known."""
        width, height = np.linalg.norm(self._metres, axis=0)
        return float(height), float(width)

    @cached_property
    def aspect(self) -> float:
        """Width of a cell over its height on the ground, so that pictures of a grid in degrees are not stretched."""
        height, width = self.cell_m
        return width / height if height > 0 and width > 0 else 1.0

    @cached_property
    def north_deg(self) -> float:
        """Direction of north in the picture, clockwise from up; NaN if not known."""
        if not np.isfinite(self._metres).all() or np.linalg.det(self._metres) == 0:  # or cells without any area
            return float("nan")
        right, down = np.linalg.solve(self._metres, np.array([0.0, 1.0]))
        return float(np.rad2deg(np.arctan2(right * self.aspect, -down)) % 360.0)

    @cached_property
    def _metres(self) -> Float[np.ndarray, "2 2"]:
        """East and north metres (rows) of one cell to the right and one down (columns), in the middle of the map."""
        row, col = self.shape[0] / 2, self.shape[1] / 2
        lon, lat = self.degrees(np.array([row, row, row + 1]), np.array([col, col + 1, col]))
        east = ((lon[1:] - lon[0] + 180.0) % 360.0 - 180.0) * np.cos(np.deg2rad(lat[0])) * _METRES_A_DEGREE
        return np.stack([east, (lat[1:] - lat[0]) * _METRES_A_DEGREE])

    def nodes(self, count: int = 9) -> tuple[Float[np.ndarray, "node node"], Float[np.ndarray, "node node"]]:
        """Longitude and latitude at `count` x `count` evenly spread cell corners, without a jump of longitude."""
        rows, cols = np.meshgrid(*(np.linspace(0, side, count) for side in self.shape), indexing="ij")
        lon, lat = self.degrees(rows.ravel(), cols.ravel())
        middle = lon[lon.size // 2]
        lon = middle + (lon - middle + 180.0) % 360.0 - 180.0
        return lon.reshape(count, count), lat.reshape(count, count)

    def ticks(self, axis: int, first: Number, stop: Number, at: Number, most: int = 5) -> list[Tick]:
        """Round degrees along an edge: latitudes down the rows (axis 0) at column `at`, longitudes along the columns.

        Args:
            axis: 0 for latitudes down the rows, 1 for longitudes along the columns.
            first: Where the edge begins, in cells.
            stop: Where it ends.
            at: The column, or the row, it lies on.
            most: Ticks at most.
        """
        along = np.linspace(first, stop, 65)
        fixed = np.full(along.shape, float(at))
        lon, lat = self.degrees(along, fixed) if axis == 0 else self.degrees(fixed, along)
        values = lat if axis == 0 else lon[0] + (lon - lon[0] + 180.0) % 360.0 - 180.0
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            return []
        order = np.argsort(values)
        step = round_step(float(np.ptp(values)) / most)
        marks = np.arange(np.ceil(values.min() / step), np.floor(values.max() / step) + 1) * step
        digits = max(0, int(np.ceil(-np.log10(step) - 1e-9)))
        return [
            Tick(float(np.interp(mark, values[order], along[order])), degrees_text(float(mark), axis, digits))
            for mark in marks
        ]


def degrees_text(value: float, axis: int, digits: int) -> str:
    """Degrees of latitude (axis 0) or longitude (axis 1) with their hemisphere."""
    value = value if axis == 0 else (value + 180.0) % 360.0 - 180.0
    side = ("N", "S")[value < 0] if axis == 0 else ("E", "W")[value < 0]
    return f"{abs(value):.{digits}f}°{side if round(abs(value), digits) else ''}"


def round_step(at_least: float) -> float:
    """The least of 1, 2, 5, 10 … and their tenths that is not below a number."""
    base = 10.0 ** np.floor(np.log10(at_least))
    return float(next(step * base for step in (*_STEPS, 10.0) if step * base >= at_least * (1 - 1e-9)))


def round_length_m(at_most_m: float) -> tuple[float, str]:
    """The longest round length that is not above another, in m, and its name."""
    base = 10.0 ** np.floor(np.log10(at_most_m))
    length = float(base * max(step for step in _STEPS if step * base <= at_most_m * (1 + 1e-9)))
    return length, f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
