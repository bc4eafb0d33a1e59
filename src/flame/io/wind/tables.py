"""Winds of a table: one row or point a reading, with its place, its time and its wind."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flame.io.wind.times import time_weights
from flame.physics import Wind, WindError

__all__ = ["NAMES", "table_readings", "wind_of_table"]

NAMES: dict[str, tuple[str, ...]] = {
    "time": ("time", "datetime", "utc", "timestamp", "valid_time"),
    "latitude": ("latitude", "lat"),
    "longitude": ("longitude", "lon", "lng"),
    "speed": ("speed", "wind_speed", "speed_m_s", "wind_speed_m_s", "ws"),
    "direction": ("direction", "from", "from_deg", "wind_direction", "wind_from_deg", "wd"),
    "sigma": ("sigma", "sigma_m_s", "wind_sigma", "speed_std"),
    "u": ("u", "u10"),
    "v": ("v", "v10"),
}
"""Columns by meaning, in capitals or not; any of the names will do. Speeds are in m/s, angles in degrees."""

_EXPECTED = "expected columns such as time,latitude,longitude,speed,direction (m/s, degrees it blows from), or u and v"
_FARTHEST_KM = 100.0
_KM_PER_DEGREE = 111.32
_MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Reading:
    """A wind at one place and time; the time is None if the table states none."""

    time: datetime | None
    latitude: float
    longitude: float
    wind: Wind

    def distance_km(self, longitude: float, latitude: float) -> float:
        east = (self.longitude - longitude + 180.0) % 360.0 - 180.0
        return _KM_PER_DEGREE * math.hypot(east * math.cos(math.radians(latitude)), self.latitude - latitude)


def wind_of_table(path: Path, text: str, when: datetime | None, longitude: float, latitude: float) -> Wind:
    """The wind of the nearest place within 100 km, between the times around the scene's."""
    near = [(r.distance_km(longitude, latitude), r) for r in table_readings(path, text)]
    closest = min(distance for distance, _ in near)
    if not closest <= _FARTHEST_KM:
        raise WindError(f"{path}: no wind within {_FARTHEST_KM:.0f} km of {latitude:.3f}, {longitude:.3f}")
    here = [r for distance, r in near if distance <= closest + 1e-6]
    timed = [r for r in here if r.time is not None]
    if not timed:
        return here[0].wind
    times = [r.time for r in timed if r.time is not None]
    return _mean([(timed[index].wind, weight) for index, weight in time_weights(path, times, when)])


def table_readings(path: Path, text: str) -> list[Reading]:
    """Every wind of a table.

    Raises:
        WindError: If a row or point cannot be understood, or there is none.
    """
    rows = _geojson_rows(path, text) if text.lstrip().startswith("{") else _csv_rows(path, text)
    readings = [_reading(path, number, row) for number, row in rows]
    if not readings:
        raise WindError(f"{path}: has no row of wind; {_EXPECTED}")
    return readings


def _mean(parts: list[tuple[Wind, float]]) -> Wind:
    """Winds of two times as one; as vectors where both have a direction."""
    first = parts[0][0]
    sigmas = [wind.sigma_m_s for wind, _ in parts if wind.sigma_m_s is not None]
    sigma = max(sigmas) if sigmas else None
    if any(wind.from_deg is None for wind, _ in parts):
        return Wind(sum(weight * wind.speed_m_s for wind, weight in parts), None, sigma, first.source)
    east = sum(-weight * wind.speed_m_s * math.sin(math.radians(wind.from_deg or 0.0)) for wind, weight in parts)
    north = sum(-weight * wind.speed_m_s * math.cos(math.radians(wind.from_deg or 0.0)) for wind, weight in parts)
    return Wind.of_components(east, north, sigma, first.source)


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    table = csv.DictReader(text.splitlines())
    try:
        _check_columns(path, [str(name).strip() for name in table.fieldnames or ()])
        for number, row in enumerate(table, start=2):
            if number > _MOST_ROWS:
                raise WindError(f"{path}: more than {_MOST_ROWS:,} rows; cut it to the days that are needed")
            yield number, {str(k).strip().lower(): v for k, v in row.items() if k is not None}
    except csv.Error as mistake:
        raise WindError(f"{path}: no table of winds ({mistake}); {_EXPECTED}") from None


def _check_columns(path: Path, found: list[str]) -> None:
    """Refuses a table whose columns have no place or no wind, and says what they are called."""
    if not found:
        raise WindError(f"{path}: empty; {_EXPECTED}")
    if len(found) == 1 and any(mark in found[0] for mark in ";\t"):
        raise WindError(f"{path}: its columns are not separated by commas; {_EXPECTED}, with decimal points")
    small = {name.lower() for name in found}

    def has(name: str) -> bool:
        return not small.isdisjoint(NAMES[name])

    missing = [name for name in ("latitude", "longitude") if not has(name)]
    if missing:
        why = f"no column of {' and '.join(missing)}"
    elif not (has("speed") or (has("u") and has("v"))):
        why = f"neither speed nor u and v, in m/s (a speed is named {_known('speed')})"
    else:
        return
    raise WindError(f"{path}: {why} among its columns {', '.join(found[:12])}; {_EXPECTED}")


def _geojson_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        features = json.loads(text)["features"]
        for number, feature in enumerate(features, start=1):
            longitude, latitude = feature["geometry"]["coordinates"][:2]
            properties = {str(k).lower(): v for k, v in feature["properties"].items()}
            yield number, properties | {"longitude": longitude, "latitude": latitude}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WindError(f"{path}: not a GeoJSON FeatureCollection of points with a wind each") from None


def _reading(path: Path, number: int, row: Mapping[str, Any]) -> Reading:
    def value(name: str) -> Any:
        found = [row[alias] for alias in NAMES[name] if row.get(alias) not in (None, "")]
        return found[0] if found else None

    def real(name: str) -> float | None:
        given = value(name)
        try:
            return None if given is None else float(given)
        except (TypeError, ValueError):
            hint = "; write a decimal point" if "," in str(given) else ""
            raise WindError(f"{path}: row {number}: {name} '{given}' is no number{hint}") from None

    latitude, longitude, speed, sigma = (real(name) for name in ("latitude", "longitude", "speed", "sigma"))
    east, north = real("u"), real("v")
    if latitude is None or longitude is None:
        raise WindError(f"{path}: row {number}: no place; its latitude or its longitude is empty")
    if not (abs(latitude) <= 90.0 and -180.0 <= longitude <= 360.0):
        raise WindError(f"{path}: row {number}: latitude {latitude}, longitude {longitude} is no place on Earth")
    try:
        if east is not None and north is not None:
            wind = Wind.of_components(east, north, sigma, path.name)
        elif speed is not None:
            wind = Wind(speed, real("direction"), sigma, path.name)
        else:
            raise WindError(f"neither speed nor u and v, in m/s (a speed is named {_known('speed')})")
    except WindError as mistake:
        raise WindError(f"{path}: row {number}: {mistake}") from None
    return Reading(_time(path, number, value("time")), latitude, longitude, wind)


def _known(name: str) -> str:
    return ", ".join(f"'{alias}'" for alias in NAMES[name])


def _time(path: Path, number: int, given: Any) -> datetime | None:
    if given is None:
        return None
    try:
        parsed = datetime.fromisoformat(str(given).strip())
    except ValueError:
        raise WindError(f"{path}: row {number}: time '{given}' is not of the form 2024-02-28T06:30:00Z") from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
