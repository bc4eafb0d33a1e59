"""Plumes as GeoJSON (RFC 7946: longitude and latitude, outer rings counter-clockwise)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from flame.detection import PixelPolygon, Plume
from flame.files import write_json
from flame.physics import kg_per_m2_from_ppm_m
from flame.products.geolocate import longitude_latitude, pixel_area_m2
from flame.scene import GeoGrid

__all__ = ["plume_feature", "plume_properties", "write_geojson"]

_DIGITS = 7
"""About a centimetre."""


def plume_properties(plume: Plume, number: int, geo: GeoGrid | None) -> dict[str, Any]:
    """What is known of a plume, by name and unit."""
    properties: dict[str, Any] = {
        "plume": number,
        "confidence": round(plume.confidence, 4),
        "peak_ppm_m": round(plume.peak_ppm_m, 1),
        "mean_ppm_m": round(plume.mean_ppm_m, 1),
        "area_px": plume.area_px,
        "integrated_ppm_m_px": round(plume.integrated_ppm_m_px, 1),
        "first_row": plume.first_row,
        "first_col": plume.first_col,
        "end_row": plume.end_row,
        "end_col": plume.end_col,
        "peak_row": plume.peak_row,
        "peak_col": plume.peak_col,
        "cut": plume.cut,
    }
    if geo is not None:
        area_m2 = pixel_area_m2(geo, plume.centroid_row, plume.centroid_col)
        rows = np.array([plume.centroid_row, plume.peak_row + 0.5])
        lon, lat = longitude_latitude(geo, rows, np.array([plume.centroid_col, plume.peak_col + 0.5]))
        properties |= {
            "centroid_longitude": round(float(lon[0]), _DIGITS),
            "centroid_latitude": round(float(lat[0]), _DIGITS),
            "peak_longitude": round(float(lon[1]), _DIGITS),
            "peak_latitude": round(float(lat[1]), _DIGITS),
            "area_m2": round(plume.area_px * area_m2, 1),
            "mass_kg": round(kg_per_m2_from_ppm_m(plume.integrated_ppm_m_px) * area_m2, 2),
        }
    return properties


def plume_feature(plume: Plume, number: int, geo: GeoGrid | None, extra: Mapping[str, Any] | None = None) -> Any:
    """One plume as a GeoJSON feature; without a position its geometry is null and its outline stays in pixels."""
    properties = plume_properties(plume, number, geo) | dict(extra or {})
    if geo is None:
        properties["outline_px"] = [_rings_px(polygon) for polygon in plume.polygons]
        return {"type": "Feature", "geometry": None, "properties": properties}
    parts = [[_ring(ring, geo, outer=at == 0) for at, ring in enumerate(_rings(p))] for p in plume.polygons]
    geometry = (
        {"type": "Polygon", "coordinates": parts[0]}
        if len(parts) == 1
        else {"type": "MultiPolygon", "coordinates": parts}
    )
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def _rings(polygon: PixelPolygon) -> list[Int[np.ndarray, "_ 2"]]:
    return [polygon.exterior, *polygon.holes]


def _rings_px(polygon: PixelPolygon) -> list[list[list[int]]]:
    return [np.concatenate([ring, ring[:1]]).tolist() for ring in _rings(polygon)]


def _ring(corners: Int[np.ndarray, "corner 2"], geo: GeoGrid, outer: bool) -> list[list[float]]:
    """A closed ring in degrees, turning as RFC 7946 asks."""
    lon, lat = longitude_latitude(geo, corners[:, 0].astype(float), corners[:, 1].astype(float))
    closed = np.stack([np.append(lon, lon[0]), np.append(lat, lat[0])], axis=1)
    east = closed[:, 0] - closed[0, 0]
    twice_area = float(np.sum(east[:-1] * closed[1:, 1] - east[1:] * closed[:-1, 1]))
    if (twice_area > 0) != outer:
        closed = closed[::-1]
    return [[round(float(x), _DIGITS), round(float(y), _DIGITS)] for x, y in closed]


def write_geojson(
    path: Path, plumes: Sequence[Plume], geo: GeoGrid | None, extra: Mapping[str, Any] | None = None
) -> None:
    """Writes the plumes of a scene, strongest first, under a temporary name and renames it.

    Args:
        path: The file.
        plumes: The plumes.
        geo: Where the scene is, if known.
        extra: Properties for every plume: source file, sensor, time, model.
    """
    ordered = sorted(plumes, key=lambda plume: -plume.integrated_ppm_m_px)
    features = [plume_feature(plume, number, geo, extra) for number, plume in enumerate(ordered, start=1)]
    write_json(path, {"type": "FeatureCollection", "features": features})
