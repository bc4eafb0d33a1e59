"""Where the pixels of a scene are on the Earth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int32, Int64

from flame.errors import FlameError

__all__ = ["Affine", "GeoGrid", "LookupTable", "SceneError"]

Affine = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): x = a col + b row + c and y = d col + e row + f at pixel corners, as in rasterio."""


class SceneError(FlameError):
    """A scene that contradicts itself or holds nothing to work on."""


@dataclass(frozen=True, eq=False)
class LookupTable:
    """A map grid and which pixel of the swath each of its cells shows (a product's GLT, counted from 0).

    Attributes:
        crs: Coordinate reference system of the grid.
        affine: Its cells' corners.
        row: Row of the swath shown by each cell, -1 for none.
        col: Column of the swath shown by each cell, -1 for none.
    """

    crs: str
    affine: Affine
    row: Int32[np.ndarray, "maprow mapcol"]
    col: Int32[np.ndarray, "maprow mapcol"]

    def flat(self, columns: int) -> Int64[np.ndarray, "maprow mapcol"]:
        """Index of each cell's pixel in the flattened swath of that many columns, -1 for none."""
        return np.where(self.row >= 0, self.row.astype(np.int64) * columns + self.col, -1)


@dataclass(frozen=True, eq=False)
class GeoGrid:
    """Where the pixels of a scene are: a map grid (CRS and affine) or a latitude and longitude for each pixel.

    Everything a product may bring (location arrays, IGM, GLT, RPC) ends in one of the two: what later rooms have to
    know about geometry does not grow with the formats.

    Attributes:
        crs: Coordinate reference system as an EPSG code or WKT; set together with `affine`.
        affine: (a, b, c, d, e, f), x = a col + b row + c and y = d col + e row + f at pixel corners, as in rasterio.
        latitude_deg: Latitude of each pixel centre, NaN where not known; set together with `longitude_deg`.
        longitude_deg: Longitude of each pixel centre.
        table: The product's own map grid for a swath, if it has one: maps are then made on it.
        source: Where the positions come from, for people.
    """

    crs: str | None = None
    affine: Affine | None = None
    latitude_deg: Float[np.ndarray, "_row _col"] | None = None
    longitude_deg: Float[np.ndarray, "_row _col"] | None = None
    table: LookupTable | None = None
    source: str = ""

    def __post_init__(self) -> None:
        on_map = self.crs is not None and self.affine is not None
        by_pixel = self.latitude_deg is not None and self.longitude_deg is not None
        if (self.crs is None) != (self.affine is None):
            raise SceneError("a map grid needs both a CRS and an affine transform, got only one of them")
        if (self.latitude_deg is None) != (self.longitude_deg is None):
            raise SceneError("pixel positions need both latitude and longitude, got only one of them")
        if on_map == by_pixel:
            raise SceneError("a GeoGrid is either CRS and affine, or latitude and longitude arrays")
        if self.latitude_deg is not None and self.longitude_deg is not None:
            lat, lon = self.latitude_deg.shape, self.longitude_deg.shape
            if lat != lon:
                raise SceneError(f"latitude has shape {lat} and longitude {lon}; expected one shape")
        if self.table is not None and on_map:
            raise SceneError("a look-up table belongs to a swath, but this grid is on a map already")

    @property
    def shape(self) -> tuple[int, int] | None:
        """Rows and columns if the grid fixes them (latitude and longitude arrays do)."""
        return None if self.latitude_deg is None else (self.latitude_deg.shape[0], self.latitude_deg.shape[1])

    def window(self, rows: slice, cols: slice) -> GeoGrid:
        """The grid of a part of the scene; both slices start at a number. A look-up table is for the whole only."""
        if self.affine is not None:
            a, b, c, d, e, f = self.affine
            row, col = int(rows.start or 0), int(cols.start or 0)
            moved = (a, b, c + a * col + b * row, d, e, f + d * col + e * row)
            return GeoGrid(crs=self.crs, affine=moved, source=self.source)
        assert self.latitude_deg is not None
        assert self.longitude_deg is not None
        latitude, longitude = self.latitude_deg[rows, cols], self.longitude_deg[rows, cols]
        return GeoGrid(latitude_deg=latitude, longitude_deg=longitude, source=self.source)
