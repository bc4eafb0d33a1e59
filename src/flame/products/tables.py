"""Plumes as tables and as one GeoJSON over many scenes, written plume by plume."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flame.files import finite, whole_file
from flame.products.fields import named_properties

__all__ = ["COLUMNS", "renamed_features", "write_csv", "write_features"]

COLUMNS = (
    "plume_id", "plume", "source", "sensor", "time", "confidence", "source_longitude", "source_latitude",
    "peak_longitude", "peak_latitude", "centroid_longitude", "centroid_latitude", "peak_ppm_m", "mean_ppm_m", "area_px",
    "area_m2", "length_m", "width_m", "fetch_m", "direction_deg", "parts", "at_edge", "mass_kg", "mass_sigma_kg",
    "background_ppm_m", "kg_per_m2_per_ppm_m", "light_path_factor", "rate_kg_h", "rate_sigma_kg_h", "rate_method",
    "wind_m_s", "wind_sigma_m_s", "wind_from_deg", "wind_source", "kg_h_per_m_s", "sigma_kg_h_per_m_s", "kg_h_offset",
    "spectral_p_value", "spectral_methane_ppm_m", "spectral_sigma_ppm_m", "source_row", "source_col", "peak_row",
    "peak_col", "model", "software", "notes",
)  # fmt: skip
"""Columns of `plumes.csv`, the same for every scene, so that tables can be put below each other."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(path: Path, features: Iterable[Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> int:
    """Writes the properties of features as rows and returns how many there were.

    Text that a spreadsheet would take for a formula gets an apostrophe before it: a file may be called anything.

    Args:
        path: The file.
        features: GeoJSON features.
        columns: Their names; FLAME's own unless given.
    """
    count = 0
    with (
        whole_file(path) as partial,
        partial.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        for feature in features:
            count += 1
            table.writerow([_cell(feature["properties"].get(name)) for name in columns])
    return count


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = "; ".join(str(part) for part in value)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return finite(value)


def write_features(path: Path, features: Iterable[Mapping[str, Any]]) -> int:
    """Writes features as one GeoJSON, one after the other, and returns how many there were."""
    count = 0
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.write('{"type": "FeatureCollection", "features": [')
        for feature in features:
            file.write((",\n" if count else "\n") + json.dumps(finite(feature), allow_nan=False))
            count += 1
        file.write("\n]}\n")
    return count


def renamed_features(features: Iterable[Mapping[str, Any]], fields: str) -> Iterator[dict[str, Any]]:
    """Features with the properties of another product."""
    for feature in features:
        yield {"type": "Feature", "geometry": feature["geometry"], "properties": named_properties(fields, feature)}
