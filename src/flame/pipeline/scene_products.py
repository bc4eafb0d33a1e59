"""A detection to files: maps, plumes, tables, pictures, the page of a scene and its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from flame import __version__
from flame.files import write_json, write_whole
from flame.io.radiance_unit import UNIT_CONFLICT
from flame.onboard import Detection, Detector, FilterDetector, Quality
from flame.onboard.downlink import data_reduction, encode_plume
from flame.pipeline.report_words import scene_facts, scene_limits, scene_making
from flame.pipeline.scene_folders import RECORD
from flame.plumes import SceneRecord, plume_letters
from flame.products.fields import FIELD_SETS, field_columns, field_files
from flame.products.geojson import read_features, write_records
from flame.products.geotiff import write_cog
from flame.products.layers import LAYERS, SceneMaps
from flame.products.map_view import MapView
from flame.products.netcdf import write_netcdf
from flame.products.pictures import Scales
from flame.products.plume_section import Truth, headline
from flame.products.qgis import write_plume_style, write_raster_style
from flame.products.quicklook import MarkedPlume, plot_quicklook
from flame.products.scene_page import SceneReport, write_scene_page
from flame.products.stac import ITEM, ItemFacts, item_time, write_item
from flame.products.tables import renamed_features, write_csv, write_features
from flame.scene import AnyScene, flag_counts

__all__ = [
    "PAGE",
    "PRODUCTS",
    "SOFTWARE",
    "ProductOptions",
    "SceneTruth",
    "remove_other_fields",
    "write_products",
]

PAGE = "report.html"
PLUMES = "plumes.geojson"
_NETCDF = "maps.nc"
_QUICKLOOK = "quicklook.png"
_TABLE = "plumes.csv"
_DOWNLINK = "downlink.bin"

PRODUCTS = (*(f"{name}.tif" for name in LAYERS), _NETCDF, PLUMES, _TABLE, _QUICKLOOK, PAGE)
"""The files of every scene beside its record."""

SOFTWARE = f"flame {__version__}"


@dataclass(frozen=True)
class ProductOptions:
    """What is written besides.

    Attributes:
        downlink: Whether to write the plumes as downlink packets too.
        fields: Other products under whose names the plumes are written too; see `flame.products.fields`.
        batch: Whether the scene's folder is one of a batch, whose page and STAC collection stand in the folder above.
    """

    downlink: bool = False
    fields: tuple[str, ...] = ()
    batch: bool = True


@dataclass(frozen=True, eq=False)
class SceneTruth:
    """What is known of a simulated scene.

    Attributes:
        mask: The true plume mask.
        plumes: The truth of each plume that was found, in the order of the records.
        sources: True sources: each one's name, true rate, and what was found of it.
    """

    mask: Bool[np.ndarray, "row col"]
    plumes: Sequence[Truth] = ()
    sources: Sequence[tuple[str, str, str]] = field(default_factory=tuple)


def write_products(
    folder: Path,
    source: str,
    scene: AnyScene,
    detection: Detection,
    detector: Detector | FilterDetector,
    measured: SceneRecord,
    options: ProductOptions | None = None,
    truth: SceneTruth | None = None,
    marks: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Writes every product of a scene and, last, the record; returns what the record says.

    Args:
        folder: Where to.
        source: Name of the scene for people.
        scene: What was looked at.
        detection: What was found.
        detector: What found it.
        measured: Its plumes with their numbers.
        options: What is written besides.
        truth: What is known of a simulated scene; it is shown beside what was found.
        marks: What else the record should say.
    """
    options = options or ProductOptions()
    facts = _facts(source, scene, detection, detector, measured)
    maps = SceneMaps(
        measured.enhancement_ppm_m,
        detection.probability,
        detection.mask,
        detection.usable,
        detection.quality,
        scene.flags,
        measured.sigma_ppm_m,
    )
    view = MapView.of(scene.geo, scene.shape)
    files = _write_maps(folder, maps, view, scene, facts)
    files |= _write_plumes(folder, scene, measured, facts, options)
    truth_mask = None if truth is None else truth.mask
    marked = [MarkedPlume(plume.plume, plume_letters(plume.number), headline(plume)) for plume in measured.plumes]
    found = _counted(len(marked)) if facts["judged"] else "not judged"
    plot_quicklook(folder / _QUICKLOOK, scene, maps, marked, f"{source}: {found}", truth_mask, view)
    files[_QUICKLOOK] = "the scene on one picture"
    if options.downlink:
        packets = [encode_plume(plume, 0, number) for number, plume in enumerate(detection.plumes)]
        write_whole(folder / _DOWNLINK, b"".join(packets))
        facts["downlink"] = asdict(data_reduction(detection.mask, packets, len(scene.bands)))
        files[_DOWNLINK] = "the plumes as packets for a radio link"
    else:
        (folder / _DOWNLINK).unlink(missing_ok=True)  # an earlier run's tell of other plumes
    files[RECORD] = "the record: what was run on what, and how"
    own = {key: facts[key] for key in ("plumes", "plume_pixels", "model", "usable_pixels")}
    item = ItemFacts(folder.name, source, SOFTWARE, files | {PAGE: "the report"}, own)
    if write_item(folder / ITEM, item, view, scene.acquisition, options.batch):
        files[ITEM] = "STAC item"
    page = SceneReport(
        source,
        scene_facts(scene, measured, facts, view),
        scene_making(facts, measured),
        scene_limits(scene, measured, facts),
        files,
        truth_mask,
        () if truth is None else truth.plumes,
        () if truth is None else truth.sources,
        f"../{PAGE}" if options.batch else None,
    )
    write_scene_page(folder / PAGE, scene, maps, measured, page, view)
    facts |= {**(marks or {}), "fields": list(options.fields), "finished": True}
    write_json(folder / RECORD, facts)
    return facts


def _write_maps(
    folder: Path, maps: SceneMaps, view: MapView, scene: AnyScene, facts: Mapping[str, Any]
) -> dict[str, str]:
    """GeoTIFFs with their styles, and all of them as netCDF; returns what each file is."""
    taken = item_time(scene.acquisition)
    tags = {"source": facts["source"], "model": facts["model"], "software": SOFTWARE}
    tags |= {"retrieval": facts["enhancement"], "sensor": facts["sensor"] or "not stated"}
    tags |= {"time": taken} if taken else {}
    scales = Scales.of(maps)
    files: dict[str, str] = {}
    for name in maps.names:
        kind = LAYERS[name]
        named = ("quality bits", "scene flags") if name == "quality" else (kind.titled,)
        unit = None if kind.unit == "1" else "ppm m"
        own = tags | {"about": kind.about}
        write_cog(folder / f"{name}.tif", maps.bands(name), maps.shown(name), view.grid, named, own, unit)
        write_raster_style(folder / f"{name}.qml", name, scales.top(name))
        files |= {f"{name}.tif": f"{kind.titled}, cloud-optimised GeoTIFF", f"{name}.qml": f"QGIS style of {name}.tif"}
    attributes = {
        "title": f"Methane in {facts['source']}",
        "summary": "Methane enhancement, its standard deviation, plume probability, plume mask and quality.",
        "source": f"{facts['sensor'] or 'imaging spectrometer'}: {facts['source']}",
        "history": f"made by {SOFTWARE} with {facts['model']}; enhancement by {facts['enhancement']}",
        "keywords": "methane, plume, imaging spectroscopy",
    }
    write_netcdf(folder / _NETCDF, maps, scene.geo, scene.acquisition.time, attributes)
    return files | {_NETCDF: "all maps on the scene's own pixels, CF netCDF"}


def _write_plumes(
    folder: Path, scene: AnyScene, measured: SceneRecord, facts: Mapping[str, Any], options: ProductOptions
) -> dict[str, str]:
    """Plumes as GeoJSON and CSV, with other names too if asked for; returns what each file is."""
    extra = {key: facts[key] for key in ("source", "sensor", "time", "model", "software")}
    write_records(folder / PLUMES, measured.plumes, scene.geo, extra)
    write_plume_style(folder / "plumes.qml", "plume_id")
    features = read_features(folder / PLUMES)
    write_csv(folder / _TABLE, features)
    files = {PLUMES: "outlines and numbers of the plumes", _TABLE: "the numbers as a table"}
    remove_other_fields(folder, options.fields)
    for fields in options.fields:
        names = field_files(fields)
        write_features(folder / names[0], renamed_features(features, fields))
        write_csv(folder / names[1], renamed_features(features, fields), field_columns(fields))
        files |= dict.fromkeys(names, f"the plumes with the field names of {fields}")
    return files | {"plumes.qml": "QGIS style of plumes.geojson"}


def remove_other_fields(folder: Path, fields: Sequence[str]) -> None:
    """Removes what an earlier run wrote under field names that are not asked for now: it tells of other plumes."""
    for name in FIELD_SETS.keys() - set(fields):
        for file in field_files(name):
            (folder / file).unlink(missing_ok=True)


def _counted(plumes: int) -> str:
    return f"{plumes} plume{'' if plumes == 1 else 's'}"


def _facts(
    source: str,
    scene: AnyScene,
    detection: Detection,
    detector: Detector | FilterDetector,
    measured: SceneRecord,
) -> dict[str, Any]:
    identity, seen = detector.identity, scene.acquisition
    return {
        "source": source,
        "sensor": seen.sensor,
        "time": None if seen.time is None else seen.time.isoformat(),
        "rows": scene.shape[0],
        "columns": scene.shape[1],
        "usable_pixels": int(detection.usable.sum()),
        "judged": bool(detection.usable.any()),
        "plumes": len(measured.plumes),
        "plume_pixels": int(detection.mask.sum()),
        "quality": _quality_names(detection.flags),
        "pixels_flagged": {} if scene.flags is None else flag_counts(scene.flags),
        "tiles": len(detection.tiles),
        "model": identity.model,
        "model_sha256": identity.sha256,
        "threshold": identity.rule.threshold,
        "core_sigmas": identity.rule.core_sigmas,
        "outline_level_ppm_m": detection.level_ppm_m,
        "runtime": detection.runtime,
        "enhancement": measured.enhancement_source,
        "coefficients": measured.coefficients,
        "could_show": [asdict(limit) for limit in measured.limits],
        "notes": [
            *(*measured.notes, *measured.wind_notes),
            *([seen.extra[UNIT_CONFLICT]] if UNIT_CONFLICT in seen.extra else []),
        ],
        "wind_notes": list(measured.wind_notes),
        "seconds": {name: round(value, 4) for name, value in asdict(detection.timings).items()},
        "software": SOFTWARE,
    }


def _quality_names(flags: Quality) -> list[str]:
    return [str(flag.name).lower() for flag in Quality if flag in flags and flag]
