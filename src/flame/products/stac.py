"""STAC: an item for each scene and a collection over a batch, as plain JSON; no STAC library is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flame.files import json_text, write_json, write_whole
from flame.products.footprint import footprint
from flame.products.layers import LAYERS
from flame.products.map_view import MapView
from flame.scene import Acquisition

__all__ = ["COLLECTION", "ITEM", "ItemFacts", "item_time", "write_collection", "write_item"]

ITEM = "item.json"
COLLECTION = "collection.json"

_VERSION = "1.1.0"
_COLLECTION_ID = "methane-plumes"
_EXTENSIONS = (
    "https://stac-extensions.github.io/projection/v2.0.0/schema.json",
    "https://stac-extensions.github.io/raster/v2.0.0/schema.json",
    "https://stac-extensions.github.io/view/v1.0.0/schema.json",
    "https://stac-extensions.github.io/processing/v1.2.0/schema.json",
)
_COG = "image/tiff; application=geotiff; profile=cloud-optimized"
_TYPES = {
    ".tif": (_COG, ["data"]),
    ".nc": ("application/x-netcdf", ["data"]),
    ".geojson": ("application/geo+json", ["data"]),
    ".csv": ("text/csv", ["data"]),
    ".png": ("image/png", ["overview"]),
    ".html": ("text/html", ["overview"]),
    ".json": ("application/json", ["metadata"]),
    ".qml": ("application/xml", ["style"]),
    ".bin": ("application/octet-stream", ["data"]),
}


@dataclass(frozen=True)
class ItemFacts:
    """What an item says of a scene besides its place and time.

    Attributes:
        id: Unique in a batch.
        title: For people.
        software: Name and version.
        files: Its files and what each is.
        properties: FLAME's own, by name; each is written as `flame:name`.
    """

    id: str
    title: str
    software: str
    files: Mapping[str, str]
    properties: Mapping[str, Any] = field(default_factory=dict)


def item_time(acquisition: Acquisition) -> str | None:
    """When a scene was taken, in RFC 3339; None if not known."""
    taken = acquisition.time
    if taken is None:
        return None
    return taken.replace(tzinfo=taken.tzinfo or UTC).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_item(path: Path, facts: ItemFacts, view: MapView, acquisition: Acquisition, in_batch: bool) -> bool:
    """Writes the item of a scene; not where its time is unknown, since STAC has no word for that.

    Args:
        path: The file, in the scene's folder.
        facts: What to say.
        view: Its map.
        acquisition: When and how it was taken.
        in_batch: Whether it belongs to the collection in the folder above.

    Returns:
        Whether it was written.
    """
    taken = item_time(acquisition)
    if taken is None:
        path.unlink(missing_ok=True)  # one of an earlier run tells of another content
        return False
    write_json(path, _item(facts, view, acquisition, taken, in_batch))
    return True


def _item(facts: ItemFacts, view: MapView, acquisition: Acquisition, taken: str, in_batch: bool) -> dict[str, Any]:
    place = footprint(view.geo, view.scene_shape)
    name, _, version = facts.software.partition(" ")
    properties: dict[str, Any] = {
        "datetime": taken,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "title": facts.title,
        "processing:level": "L2",
        "processing:software": {name: version},
        "instruments": [acquisition.sensor] if acquisition.sensor else [],
        **_projection(view),
        **{f"flame:{key}": value for key, value in facts.properties.items()},
    }
    if not properties["instruments"]:
        del properties["instruments"]
    if acquisition.solar_zenith_deg is not None and abs(acquisition.solar_zenith_deg) <= 180:
        properties["view:sun_elevation"] = round(90.0 - acquisition.solar_zenith_deg, 3)
    if acquisition.view_zenith_deg is not None and 0 <= acquisition.view_zenith_deg <= 90:
        properties["view:incidence_angle"] = round(acquisition.view_zenith_deg, 3)
    links = []
    item: dict[str, Any] = {"type": "Feature", "stac_version": _VERSION, "stac_extensions": list(_EXTENSIONS)}
    item |= {"id": facts.id, "geometry": None, "properties": properties}
    if place is not None:
        item |= {"geometry": place[0], "bbox": place[1]}
    if in_batch:
        item["collection"] = _COLLECTION_ID
        above = {"href": f"../{COLLECTION}", "type": "application/json"}
        links = [{"rel": rel} | above for rel in ("root", "parent", "collection")]
    assets = {
        Path(file).stem if file.endswith(".tif") else file: _asset(file, about) for file, about in facts.files.items()
    }
    return item | {"links": links, "assets": assets}


def _projection(view: MapView) -> dict[str, Any]:
    """Grid of the scene's GeoTIFFs."""
    if view.grid.crs is None:
        return {"proj:code": None, "proj:shape": list(view.shape)}
    code = view.grid.crs if view.grid.crs.upper().startswith("EPSG:") else None
    found: dict[str, Any] = {"proj:code": code, "proj:shape": list(view.shape)}
    if code is None:
        from rasterio.crs import CRS

        found["proj:wkt2"] = CRS.from_user_input(view.grid.crs).to_wkt(version="WKT2_2019")
    return found | {"proj:transform": [float(value) for value in view.grid.affine]}


def _asset(file: str, about: str) -> dict[str, Any]:
    media, roles = _TYPES[Path(file).suffix]
    asset: dict[str, Any] = {"href": f"./{file}", "title": about, "type": media, "roles": roles}
    kind = LAYERS.get(Path(file).stem)
    if file.endswith(".tif") and kind is not None:
        asset["description"] = kind.about
        if kind.name == "quality":
            bands = [{"name": name, "data_type": "uint16", "nodata": 65535} for name in ("quality", "scene_flags")]
        elif kind.name == "mask":
            bands = [{"name": "mask", "data_type": "uint8", "nodata": 255}]
        else:
            bands = [{"name": kind.name, "data_type": "float32", "nodata": "nan"}]
            if kind.unit != "1":
                bands[0]["unit"] = "ppm m"
        asset["bands"] = bands
    return asset


def write_collection(path: Path, items: Iterable[tuple[str, Mapping[str, Any]]], software: str) -> bool:
    """Writes the collection over the scenes of a batch; items are looked at one by one.

    Args:
        path: The file.
        items: Each item's place, relative to the collection, and its content.
        software: What made them.

    Returns:
        Whether there was any item to write a collection of.
    """
    links: list[dict[str, Any]] = [{"rel": "root", "href": f"./{COLLECTION}", "type": "application/json"}]
    boxes: list[list[float]] = []
    times: list[str] = []
    for href, item in items:
        links.append({"rel": "item", "href": href, "type": "application/geo+json"})
        times.append(str(item["properties"]["datetime"]))
        if item.get("bbox"):
            boxes.append([float(value) for value in item["bbox"]])
    if not times:
        path.unlink(missing_ok=True)
        return False
    collection = {
        "type": "Collection",
        "stac_version": _VERSION,
        "id": _COLLECTION_ID,
        "title": "Methane plumes",
        "description": f"Methane enhancement, plume masks and plumes of {len(times)} scenes, made by {software}.",
        "license": "other",
        "keywords": ["methane", "plume", "imaging spectroscopy"],
        "extent": {
            "spatial": {"bbox": [_around(boxes), *(boxes if len(boxes) > 1 else [])]},
            "temporal": {"interval": [[min(times), max(times)]]},
        },
        "links": links,
    }
    write_whole(path, json_text(collection))
    return True


def _around(boxes: list[list[float]]) -> list[float]:
    """The box of all boxes; the whole Earth where no scene has a place, or one lies over the date line."""
    if not boxes or any(west > east for west, _, east, _ in boxes):
        south, north = (min(b[1] for b in boxes), max(b[3] for b in boxes)) if boxes else (-90.0, 90.0)
        return [-180.0, south, 180.0, north]
    west, south = (min(box[at] for box in boxes) for at in (0, 1))
    east, north = (max(box[at] for box in boxes) for at in (2, 3))
    return [west, south, east, north]
