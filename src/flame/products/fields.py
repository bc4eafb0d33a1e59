"""The fields of a plume under the names of other products: EMIT L2B and Carbon Mapper."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["FIELD_SETS", "field_columns", "field_files", "named_properties"]

_NOT_AVAILABLE = "NA"
_INSTRUMENTS = {
    "emit": ("emi", "ISS"),
    "aviris-ng": ("ang", None),
    "aviris-3": ("av3", None),
    "tanager-1": ("tan", "Tanager-1"),
    "enmap": ("enm", "EnMAP"),
    "prisma": ("pri", "PRISMA"),
}
"""Short name as in plume ids, and platform; aircraft change."""


def named_properties(fields: str, feature: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a GeoJSON feature of FLAME under other names.

    Args:
        fields: One of `FIELD_SETS`.
        feature: As in `plumes.geojson`.
    """
    return FIELD_SETS[fields](feature)


def _emit(feature: Mapping[str, Any]) -> dict[str, Any]:
    """EMIT L2B CH4PLM; "NA" where there is nothing valid, as there. Its rate is mass over fetch if there is one."""
    own = feature["properties"]
    rate = next((rate for rate in own.get("rates", ()) if rate["method"] == "fetch"), _primary(own))
    named = {
        "Plume ID": own.get("plume_id"),
        "DAAC Scene Names": [own["source"]] if own.get("source") else None,
        "UTC Time Observed": own.get("time"),
        "Max Plume Concentration (ppm m)": own.get("peak_ppm_m"),
        "Latitude of max concentration": own.get("peak_latitude"),
        "Longitude of max concentration": own.get("peak_longitude"),
        "Wind Speed (m/s)": rate.get("wind_m_s"),
        "Wind Speed Std (m/s)": rate.get("wind_sigma_m_s"),
        "Wind Speed Source": rate.get("wind_source"),
        "Emissions Rate Estimate (kg/hr)": rate.get("rate_kg_h"),
        "Emissions Rate Estimate Uncertainty (kg/hr)": rate.get("sigma_kg_h"),
        "Fetch Length (m)": own.get("fetch_m"),
    }
    return {name: _NOT_AVAILABLE if value is None else value for name, value in named.items()}


def _carbon_mapper(feature: Mapping[str, Any]) -> dict[str, Any]:
    """Carbon Mapper's plume list; null where nothing is known. The place of a plume is where it begins."""
    own = feature["properties"]
    rate = _primary(own)
    code, platform = _INSTRUMENTS.get(str(own.get("sensor")), (own.get("sensor"), None))
    return {
        "plume_id": _carbon_mapper_id(own, code),
        "plume_latitude": own.get("source_latitude", own.get("peak_latitude")),
        "plume_longitude": own.get("source_longitude", own.get("peak_longitude")),
        "datetime": own.get("time"),
        "plume_bounds": _bounds(feature.get("geometry")),
        "emission_auto": rate.get("rate_kg_h"),
        "emission_uncertainty_auto": rate.get("sigma_kg_h"),
        "wind_speed_avg_auto": rate.get("wind_m_s"),
        "wind_speed_std_auto": rate.get("wind_sigma_m_s"),
        "wind_direction_avg_auto": rate.get("wind_from_deg"),
        "wind_source_auto": rate.get("wind_source"),
        "instrument": code,
        "platform": platform,
        "gas": "CH4",
        "ipcc_sector": None,
    }


def _primary(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rate to state if only one is."""
    return own["rates"][0] if own.get("rates") else {}


def _carbon_mapper_id(own: Mapping[str, Any], code: str | None) -> str | None:
    """`emi20230614t094107-A`; FLAME's own id where instrument or time are not known."""
    letter = re.search(r"-([A-Z]+)$", str(own.get("plume_id", "")))
    if not (code and own.get("time") and letter):
        return own.get("plume_id")
    taken = datetime.fromisoformat(own["time"])
    taken = taken.replace(tzinfo=taken.tzinfo or UTC).astimezone(UTC)
    return f"{code}{taken:%Y%m%dt%H%M%S}-{letter[1]}"


def _bounds(geometry: Mapping[str, Any] | None) -> list[float] | None:
    """West, south, east, north of a polygon or of several; over the date line west is larger than east."""
    if geometry is None:
        return None
    parts = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
    corners = [corner for part in parts for corner in part[0]]
    lon, lat = zip(*corners, strict=True)
    if min(lon) <= -180 and max(lon) >= 180 and len(parts) > 1:
        lon = tuple(angle + 360 if angle < 0 else angle for angle in lon)
        return [min(lon), min(lat), round(max(lon) - 360, 7), max(lat)]
    return [min(lon), min(lat), max(lon), max(lat)]


FIELD_SETS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"emit": _emit, "carbonmapper": _carbon_mapper}
"""Names by which the sets are asked for."""


def field_files(fields: str) -> tuple[str, str]:
    """Names of the files, GeoJSON and CSV, with the plumes under the names of one of `FIELD_SETS`."""
    return f"plumes_{fields}.geojson", f"plumes_{fields}.csv"


def field_columns(fields: str) -> tuple[str, ...]:
    """The names themselves: columns of a table, also of one without plumes."""
    return tuple(named_properties(fields, {"properties": {}, "geometry": None}))
