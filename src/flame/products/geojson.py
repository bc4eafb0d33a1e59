"""Plumes as GeoJSON (RFC 7946: longitude and latitude, outer rings counter-clockwise)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from flame.detection import PixelPolygon, Plume
from flame.files import write_json
from flame.physics import kg_per_m2_from_ppm_m
from flame.plumes import LightPath, PlumeRecord
from flame.products.dateline import Ring, globe_polygons
from flame.products.geolocate import longitude_latitude, pixel_area_m2
from flame.rates import Rate
from flame.records import RecordError, read_json
from flame.scene import GeoGrid

__all__ = [
    "measured_properties",
    "plume_feature",
    "plume_properties",
    "read_features",
    "write_geojson",
    "write_records",
]

_BENDING_DEG = 80.0
_DIGITS = 7
"""About a centimetre."""


def plume_properties(plume: Plume, number: int, geo: GeoGrid | None, light: LightPath | None) -> dict[str, Any]:
    """What is known of a plume, by name and unit.

    Args:
        plume: The plume.
        number: Its number.
        geo: Where the scene is, if known; without it there is no area in m2 and no mass.
        light: The light's path, which the mass takes out of the score; None if the plume could not be weighed: then
            neither area nor mass is told.
    """
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
        rows = np.array([plume.centroid_row, plume.peak_row + 0.5])
        lon, lat = longitude_latitude(geo, rows, np.array([plume.centroid_col, plume.peak_col + 0.5]))
        # NaN, where a position is not known, becomes null in the file.
        properties |= {
            "centroid_longitude": round(float(lon[0]), _DIGITS),
            "centroid_latitude": round(float(lat[0]), _DIGITS),
            "peak_longitude": round(float(lon[1]), _DIGITS),
            "peak_latitude": round(float(lat[1]), _DIGITS),
        }
    if geo is not None and light is not None:
        area_m2 = pixel_area_m2(geo, plume.centroid_row, plume.centroid_col)
        column_ppm_m_px = plume.integrated_ppm_m_px / light.factor
        properties |= {
            "area_m2": round(plume.area_px * area_m2, 1),
            "mass_kg": float(f"{kg_per_m2_from_ppm_m(column_ppm_m_px) * area_m2:.6g}"),
            "light_path_factor": round(light.factor, 4),
            "light_path_basis": light.basis,
        }
    return properties


def plume_feature(
    plume: Plume,
    number: int,
    geo: GeoGrid | None,
    light: LightPath | None,
    extra: Mapping[str, Any] | None = None,
) -> Any:
    """One plume as a GeoJSON feature.

    Where any corner of its outline has no position, its geometry is null and its outline is given in pixels instead.
    """
    properties = plume_properties(plume, number, geo, light) | dict(extra or {})
    polygons = None if geo is None else _polygons(plume, geo)
    if polygons is None:
        if geo is not None:
            properties["position"] = "not known for every corner of the outline"
        properties["outline_px"] = [_rings_px(polygon) for polygon in plume.polygons]
        return {"type": "Feature", "geometry": None, "properties": properties}
    kind = "Polygon" if len(polygons) == 1 else "MultiPolygon"
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": polygons[0] if kind == "Polygon" else polygons},
        "properties": properties,
    }


def _polygons(plume: Plume, geo: GeoGrid) -> list[list[list[list[float]]]] | None:
    """The outline in degrees; None if the position of a corner is not known."""
    found = []
    for polygon in plume.polygons:
        rings = [_on_globe(ring.astype(float), geo) for ring in _rings(polygon)]
        if not all(np.isfinite(ring).all() for ring in rings):
            return None
        found += [[_closed(ring) for ring in part] for part in globe_polygons(rings)]
    return found or None


def _on_globe(ring: Float[np.ndarray, "_corner 2"], geo: GeoGrid) -> Ring:
    """A ring of (row, col) corners in degrees; near a pole, where straight sides bend, with a corner at every pixel."""
    placed = np.stack(longitude_latitude(geo, ring[:, 0], ring[:, 1]), axis=1)
    if not np.abs(placed[:, 1]).max() > _BENDING_DEG:
        return placed
    sides = zip(ring, np.roll(ring, -1, axis=0), strict=True)
    steps = [np.linspace(one, other, int(np.abs(other - one).max()), endpoint=False) for one, other in sides]
    every = np.concatenate(steps)
    return np.stack(longitude_latitude(geo, every[:, 0], every[:, 1]), axis=1)


def _closed(ring: Ring) -> list[list[float]]:
    return [[round(float(x), _DIGITS), round(float(y), _DIGITS)] for x, y in np.concatenate([ring, ring[:1]])]


def _rings(polygon: PixelPolygon) -> list[Int[np.ndarray, "_ 2"]]:
    return [polygon.exterior, *polygon.holes]


def _rings_px(polygon: PixelPolygon) -> list[list[list[int]]]:
    return [np.concatenate([ring, ring[:1]]).tolist() for ring in _rings(polygon)]


def write_geojson(
    path: Path,
    plumes: Sequence[Plume],
    geo: GeoGrid | None,
    light: LightPath | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Writes the plumes of a scene, strongest first, under a temporary name and renames it.

    Args:
        path: The file.
        plumes: The plumes.
        geo: Where the scene is, if known.
        light: The light's path; the table's own unless given.
        extra: Properties for every plume: source file, sensor, time, model.
    """
    ordered = sorted(plumes, key=lambda plume: -plume.integrated_ppm_m_px)
    path_taken = light or LightPath()
    features = [plume_feature(plume, number, geo, path_taken, extra) for number, plume in enumerate(ordered, start=1)]
    write_json(path, {"type": "FeatureCollection", "features": features})


def measured_properties(record: PlumeRecord) -> dict[str, Any]:
    """What was measured of a plume, by name and unit; what is not known is left out."""
    properties: dict[str, Any] = {
        "plume_id": record.id,
        "parts": record.plume.parts,
        "at_edge": record.at_edge,
        "source_row": record.source.row,
        "source_col": record.source.col,
        "image_direction_deg": round(record.image_deg, 1),
        "rates": [_rate_properties(rate) for rate in record.rates],
        "notes": list(record.all_notes),
    }
    if record.source.longitude_deg is not None and record.source.latitude_deg is not None:
        properties |= {
            "source_longitude": round(record.source.longitude_deg, _DIGITS),
            "source_latitude": round(record.source.latitude_deg, _DIGITS),
        }
    if (shape := record.shape) is not None:
        properties |= {
            "direction_deg": round(shape.to_deg, 1),
            "length_m": round(shape.length_m, 1),
            "width_m": round(shape.width_m, 1),
            "fetch_m": round(shape.fetch_m, 1),
        }
    if (mass := record.mass) is not None:
        properties |= {
            "mass_kg": _figures(mass.ime_kg),
            "mass_sigma_kg": _figures(mass.sigma_kg),
            "background_ppm_m": round(mass.background_ppm_m, 2),
            "kg_per_m2_per_ppm_m": _figures(mass.kg_per_m2),
        }
    if (rate := record.rate) is not None:
        properties |= {
            "rate_kg_h": _figures(rate.kg_h),
            "rate_sigma_kg_h": _figures(rate.sigma_kg_h),
            "rate_method": rate.method,
            "wind_m_s": rate.wind.speed_m_s,
            "wind_sigma_m_s": rate.wind.error_m_s,
            "wind_from_deg": rate.wind.from_deg,
            "wind_source": rate.wind.source,
        }
    if (unit := record.unit_rate) is not None:
        properties |= {
            "kg_h_per_m_s": _figures(unit.kg_h_per_m_s),
            "sigma_kg_h_per_m_s": _figures(unit.sigma_kg_h_per_m_s),
            "kg_h_offset": _figures(unit.offset_kg_h),
            "kg_h_per_m_s_basis": unit.basis,
        }
    if (check := record.check) is not None:
        properties |= {
            "spectral_p_value": _figures(check.p_value),
            "spectral_methane_ppm_m": round(check.alpha_ppm_m, 1),
            "spectral_sigma_ppm_m": round(check.sigma_ppm_m, 1),
        }
    return properties


def _rate_properties(rate: Rate) -> dict[str, Any]:
    return {
        "method": rate.method,
        "rate_kg_h": _figures(rate.kg_h),
        "sigma_kg_h": _figures(rate.sigma_kg_h),
        "wind_m_s": rate.wind.speed_m_s,
        "wind_sigma_m_s": rate.wind.error_m_s,
        "wind_from_deg": rate.wind.from_deg,
        "wind_source": rate.wind.source,
        "effective_wind_m_s": _figures(rate.effective_m_s),
        "coefficients": rate.coefficients,
        "note": rate.note,
    }


def _figures(value: float) -> float:
    """Six figures, which is more than anything here is known to."""
    return float(f"{value:.6g}")


def write_records(
    path: Path, records: Sequence[PlumeRecord], geo: GeoGrid | None, extra: Mapping[str, Any] | None = None
) -> None:
    """Writes measured plumes in their order, under a temporary name and renames it.

    Args:
        path: The file.
        records: The plumes.
        geo: Where the scene is, if known.
        extra: Properties for every plume: source file, sensor, time, model.
    """
    features = []
    for record in records:
        light = None if record.mass is None else record.light
        own = measured_properties(record) | dict(extra or {})
        features.append(plume_feature(record.plume, record.number, geo, light, own))
    write_json(path, {"type": "FeatureCollection", "features": features})


def read_features(path: Path) -> list[dict[str, Any]]:
    """The features of a file that `write_records` wrote.

    Raises:
        RecordError: If it is not there or damaged.
    """
    content = read_json(path, "the plumes of a scene")
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, list) or not all(map(_is_feature, features)):
        raise RecordError(f"{path}: holds no list of plumes; run it again with --force")
    return features


def _is_feature(content: object) -> bool:
    return isinstance(content, dict) and isinstance(content.get("properties"), dict) and "geometry" in content
