"""A detection to files, and a scene's files to its part of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from flame import __version__
from flame.files import write_json, write_whole
from flame.onboard import Detection, Detector, FilterDetector, Quality
from flame.onboard.downlink import data_reduction, encode_plume
from flame.pipeline.scene_folders import RECORD
from flame.plumes import SceneRecord
from flame.products.geojson import write_records
from flame.products.geolocate import map_grid
from flame.products.geotiff import write_cog
from flame.products.quicklook import plot_quicklook
from flame.products.report import ReportSection
from flame.records import RecordError, read_json
from flame.scene import AnyScene, flag_counts

__all__ = ["PRODUCTS", "SOFTWARE", "read_section", "write_products"]

PRODUCTS = ("probability.tif", "score.tif", "mask.tif", "plumes.geojson", "quicklook.png")
"""The files of a scene beside its record."""

SOFTWARE = f"flame {__version__}"

_DOWNLINK = "downlink.bin"
_TABLE = ("plume", "confidence", "peak_ppm_m", "mean_ppm_m", "area_px", "area_m2", "mass_kg")


def write_products(
    folder: Path,
    source: str,
    scene: AnyScene,
    detection: Detection,
    detector: Detector | FilterDetector,
    measured: SceneRecord,
    truth: Bool[np.ndarray, "row col"] | None = None,
    downlink: bool = False,
    marks: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Writes the maps, the plumes, the quick look and, last, the record; returns what the record says.

    Args:
        folder: Where to.
        source: Name of the scene for people.
        scene: What was looked at.
        detection: What was found.
        detector: What found it.
        measured: Its plumes with their numbers.
        truth: The true plume mask, if known; it is drawn into the quick look.
        downlink: Whether to write the plumes as downlink packets too.
        marks: What else the record should say.
    """
    facts = _facts(source, scene, detection, detector, measured)
    grid = map_grid(scene.geo)
    tags = {"source": source, "model": facts["model"], "software": facts["software"]}
    layers = (
        ("probability", detection.probability, "plume probability"),
        ("score", detection.score_ppm_m, "methane score (ppm m)"),
        ("mask", detection.mask, "plume mask"),
    )
    for name, layer, description in layers:
        write_cog(folder / f"{name}.tif", layer, detection.usable, grid, description, tags)
    extra = {key: facts[key] for key in ("source", "sensor", "time", "model", "software")}
    plumes = [record.plume for record in measured.plumes]
    write_records(folder / "plumes.geojson", measured.plumes, scene.geo, extra)
    count = len(plumes)
    title = f"{source}: {count} plume{'' if count == 1 else 's'}"
    plot_quicklook(folder / "quicklook.png", scene, detection.score_ppm_m, detection.mask, plumes, title, truth)
    if downlink:
        packets = [encode_plume(plume, 0, number) for number, plume in enumerate(detection.plumes)]
        write_whole(folder / _DOWNLINK, b"".join(packets))
        facts["downlink"] = asdict(data_reduction(detection.mask, packets, len(scene.bands)))
    facts |= {**(marks or {}), "finished": True}
    write_json(folder / RECORD, facts)
    return facts


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
        "plumes": len(measured.plumes),
        "plume_pixels": int(detection.mask.sum()),
        "quality": _quality_names(detection.flags),
        "pixels_flagged": {} if scene.flags is None else flag_counts(scene.flags),
        "tiles": len(detection.tiles),
        "model": identity.model,
        "model_sha256": identity.sha256,
        "threshold": identity.threshold,
        "runtime": detection.runtime,
        "enhancement": measured.enhancement_source,
        "coefficients": measured.coefficients,
        "could_show": [asdict(limit) for limit in measured.limits],
        "notes": list(measured.notes),
        "seconds": {name: round(value, 4) for name, value in asdict(detection.timings).items()},
        "software": SOFTWARE,
    }


def _quality_names(flags: Quality) -> list[str]:
    return [str(flag.name).lower() for flag in Quality if flag in flags and flag]


def read_section(folder: Path) -> ReportSection:
    """A scene's part of the report, from its files: nothing of a detection must be kept for it.

    Raises:
        RecordError: If a file is missing or damaged.
    """
    facts = read_json(folder / RECORD, "the record of a detection")
    plumes = read_json(folder / "plumes.geojson", "the plumes of a scene")
    try:
        rows = [feature["properties"] for feature in plumes["features"]]
        shown = [{name: row[name] for name in _TABLE if name in row} for row in rows]
        return ReportSection(str(facts["source"]), _short(facts), folder / "quicklook.png", shown)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError) as failure:
        raise RecordError(f"{folder}: the products are damaged ({failure!r}); run it again with --force") from None


def _short(facts: dict[str, Any]) -> dict[str, str]:
    share = facts["usable_pixels"] / (facts["rows"] * facts["columns"])
    return {
        "sensor": facts["sensor"] or "not stated",
        "time": facts["time"] or "not stated",
        "pixels": f"{facts['rows']} x {facts['columns']}",
        "usable": f"{100 * share:.1f} %",
        "quality flags": ", ".join(facts["quality"]) or "none",
        "pixels flagged": ", ".join(f"{name} {n:,}" for name, n in facts["pixels_flagged"].items()) or "none",
        "model": facts["model"],
        "runtime": facts["runtime"],
        "seconds": f"{facts['seconds']['total_s']:.2f}",
    }
