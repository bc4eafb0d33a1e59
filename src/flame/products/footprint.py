"""Where a scene lies: its outline on the globe and its bounding box."""

from __future__ import annotations

from typing import Any

import numpy as np

from flame.products.dateline import Ring, globe_polygons
from flame.products.geolocate import longitude_latitude
from flame.scene import GeoGrid

__all__ = ["footprint", "globe_geometry", "rounded"]

_CORNERS_A_SIDE = 12
_DIGITS = 7
"""About a centimetre."""


def rounded(ring: Ring) -> list[list[float]]:
    """A ring as GeoJSON writes it: closed, with as many digits as mean something."""
    return [[float(lon), float(lat)] for lon, lat in np.concatenate([ring, ring[:1]]).round(_DIGITS)]


def globe_geometry(polygons: list[list[Ring]]) -> dict[str, Any]:
    """A GeoJSON geometry of polygons that lie within one turn of the globe."""
    parts = [[rounded(ring) for ring in polygon] for polygon in polygons]
    if len(parts) == 1:
        return {"type": "Polygon", "coordinates": parts[0]}
    return {"type": "MultiPolygon", "coordinates": parts}


def footprint(geo: GeoGrid | None, shape: tuple[int, int]) -> tuple[dict[str, Any], list[float]] | None:
    """The scene's outline as a GeoJSON geometry, and its box as west, south, east, north; None if it is nowhere.

    Where positions are not known all along the edge, the outline is the box of those that are. A box over the date
    line has its west edge east of its east edge, as RFC 7946 wants it.
    """
    if geo is None:
        return None
    edge = _edge(geo, shape)
    ring = edge if np.isfinite(edge).all() else _box_of_known(geo)
    polygons = [] if ring is None else globe_polygons([ring])
    if not polygons:
        return None
    corners = [np.concatenate(part) for part in polygons]
    south, north = (float(edge(np.concatenate(corners)[:, 1])) for edge in (np.min, np.max))
    parts = sorted((float(part[:, 0].min()), float(part[:, 0].max())) for part in corners)
    crosses = len(parts) > 1 and parts[0][0] <= -180.0 and parts[-1][1] >= 180.0
    # Over the date line the eastern part begins at -180: the box begins where the western part does.
    whole = parts[0][0] <= -180.0 and any(high >= 180.0 for low, high in parts if low <= -180.0)
    west, east = (parts[-1][0], parts[0][1]) if crosses and not whole else (parts[0][0], max(high for _, high in parts))
    box = [round(value, _DIGITS) for value in (west, south, east, north)]
    return globe_geometry(polygons), box


def _edge(geo: GeoGrid, shape: tuple[int, int]) -> Ring:
    rows, cols = shape
    share = np.linspace(0.0, 1.0, _CORNERS_A_SIDE, endpoint=False)
    down = np.concatenate([0 * share, share * rows, 0 * share + rows, (1 - share) * rows])
    across = np.concatenate([share * cols, 0 * share + cols, (1 - share) * cols, 0 * share])
    return np.stack(longitude_latitude(geo, down, across), axis=1)


def _box_of_known(geo: GeoGrid) -> Ring | None:
    if geo.longitude_deg is None or geo.latitude_deg is None:
        return None
    lon, lat = geo.longitude_deg.astype(np.float64), geo.latitude_deg.astype(np.float64)
    known = (np.abs(lat) <= 90) & (np.abs(lon) <= 360)
    if not known.any():
        return None
    lon, lat = lon[known], lat[known]
    if np.ptp(lon) > 180:
        lon = np.where(lon < 0, lon + 360, lon)
    west, east, south, north = lon.min(), lon.max(), lat.min(), lat.max()
    return np.array([[west, south], [east, south], [east, north], [west, north]])
