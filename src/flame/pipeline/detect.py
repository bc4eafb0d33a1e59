"""Scenes to products: what `flame detect` and `flame demo` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from flame import __version__
from flame.errors import FlameError
from flame.files import write_json, write_whole
from flame.io import read_scene
from flame.onboard import Detection, Detector, Quality, choose_model
from flame.onboard.downlink import DataReduction, data_reduction, encode_plume
from flame.products.geojson import plume_properties, write_geojson
from flame.products.geolocate import map_grid
from flame.products.geotiff import write_cog
from flame.products.quicklook import plot_quicklook
from flame.products.report import ReportSection, write_report
from flame.scene import BandSet, Scene

__all__ = [
    "Detectors",
    "Outcome",
    "detect_files",
    "output_names",
    "write_downlink",
    "write_products",
    "write_scene_report",
]

_TABLE = ("plume", "confidence", "peak_ppm_m", "mean_ppm_m", "area_px", "area_m2", "mass_kg")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one input.

    Attributes:
        source: The input.
        folder: Where its products are.
        detection: What was found, None if it failed.
        section: Its part of the report.
        bands: Bands of the scene, 0 if it could not be read.
        failure: Why it failed.
    """

    source: str
    folder: Path
    detection: Detection | None
    section: ReportSection
    bands: int = 0
    failure: str | None = None


class Detectors:
    """Detectors by model, opened when a scene first needs one.

    Args:
        model: A packaged name or family, the path of an ONNX file, or None for the default family.
        runtime: "auto", "native", "onnxruntime" or "openvino".
        threads: CPU threads; all unless given.
    """

    def __init__(self, model: str | None = None, runtime: str = "auto", threads: int | None = None) -> None:
        self._model, self._runtime, self._threads = model, runtime, threads
        self._open: dict[str, Detector] = {}

    def for_bands(self, bands: BandSet, where: str = "the scene") -> Detector:
        """The detector whose model was made for these bands; `where` names the scene if there is none."""
        package = choose_model(self._model, bands, where)
        key = package.manifest.sha256
        if key not in self._open:
            self._open[key] = Detector(package, self._runtime, self._threads)
        return self._open[key]


def output_names(inputs: Sequence[Path]) -> list[str]:
    """A folder name for each input: its stem, numbered where stems repeat."""
    names: list[str] = []
    for path in inputs:
        stem = path.stem or path.name
        name, number = stem, 2
        while name in names:
            name, number = f"{stem}-{number}", number + 1
        names.append(name)
    return names


def detect_files(
    inputs: Sequence[Path],
    out: Path,
    detectors: Detectors,
    done: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Detects in each input and writes its products and one report; an input that fails does not stop the others.

    Args:
        inputs: Scene files or folders.
        out: Folder for the products, one folder per input, and report.html.
        detectors: Which model and engine.
        done: Called after each input.
    """
    outcomes = []
    for path, name in zip(inputs, output_names(inputs), strict=True):
        folder = out / name
        try:
            scene = read_scene(path)
            detector = detectors.for_bands(scene.bands, str(path))
            detection = detector.run(scene)
            section = write_products(folder, str(path.name), scene, detection, detector)
            outcome = Outcome(str(path), folder, detection, section, len(scene.bands))
        except (FlameError, OSError) as mistake:
            failed = ReportSection(path.name, failure=str(mistake))
            outcome = Outcome(str(path), folder, None, failed, failure=str(mistake))
        outcomes.append(outcome)
        done(outcome)
    write_scene_report(out / "report.html", outcomes)
    return outcomes


def write_products(
    folder: Path,
    source: str,
    scene: Scene,
    detection: Detection,
    detector: Detector,
    truth: Bool[np.ndarray, "row col"] | None = None,
) -> ReportSection:
    """Writes the maps, the plumes, the quick look and `detection.json`; returns the scene's part of the report.

    Args:
        folder: Where to.
        source: Name of the scene for people.
        scene: What was looked at.
        detection: What was found.
        detector: What found it.
        truth: The true plume mask, if known; it is drawn into the quick look.
    """
    facts = _facts(source, scene, detection, detector)
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
    write_geojson(folder / "plumes.geojson", detection.plumes, scene.geo, extra)
    count = len(detection.plumes)
    title = f"{source}: {count} plume{'' if count == 1 else 's'}"
    picture = folder / "quicklook.png"
    plot_quicklook(picture, scene, detection.score_ppm_m, detection.mask, detection.plumes, title, truth)
    write_json(folder / "detection.json", facts)
    ordered = sorted(detection.plumes, key=lambda plume: -plume.integrated_ppm_m_px)
    rows = [plume_properties(plume, number, scene.geo) for number, plume in enumerate(ordered, start=1)]
    shown = [{name: row[name] for name in _TABLE if name in row} for row in rows]
    return ReportSection(source, _short(facts), picture, shown)


def write_downlink(path: Path, detection: Detection, bands: int, scene: int = 0) -> DataReduction:
    """Writes all plumes as packets and returns what they save.

    Args:
        path: The file.
        detection: What was found.
        bands: Bands of the scene.
        scene: Number of the scene in the packets.
    """
    packets = [encode_plume(plume, scene, number) for number, plume in enumerate(detection.plumes)]
    write_whole(path, b"".join(packets))
    return data_reduction(detection.mask, packets, bands)


def _facts(source: str, scene: Scene, detection: Detection, detector: Detector) -> dict[str, Any]:
    manifest, seen = detector.manifest, scene.acquisition
    return {
        "source": source,
        "sensor": seen.sensor,
        "time": None if seen.time is None else seen.time.isoformat(),
        "rows": scene.shape[0],
        "columns": scene.shape[1],
        "usable_pixels": int(detection.usable.sum()),
        "plumes": len(detection.plumes),
        "plume_pixels": int(detection.mask.sum()),
        "quality": _quality_names(detection.flags),
        "tiles": len(detection.tiles),
        "model": f"{manifest.name} for {manifest.sensor}",
        "model_sha256": manifest.sha256,
        "threshold": manifest.threshold,
        "runtime": detection.runtime,
        "seconds": {name: round(value, 4) for name, value in asdict(detection.timings).items()},
        "software": f"flame {__version__}",
    }


def _quality_names(flags: Quality) -> list[str]:
    return [str(flag.name).lower() for flag in Quality if flag in flags and flag]


def _short(facts: dict[str, Any]) -> dict[str, str]:
    share = facts["usable_pixels"] / (facts["rows"] * facts["columns"])
    return {
        "sensor": facts["sensor"] or "not stated",
        "time": facts["time"] or "not stated",
        "pixels": f"{facts['rows']} x {facts['columns']}",
        "usable": f"{100 * share:.1f} %",
        "quality flags": ", ".join(facts["quality"]) or "none",
        "model": facts["model"],
        "runtime": facts["runtime"],
        "seconds": f"{facts['seconds']['total_s']:.2f}",
    }


def write_scene_report(path: Path, outcomes: Sequence[Outcome], title: str = "Methane plumes") -> None:
    """One page for all inputs."""
    found = [o.detection for o in outcomes if o.detection is not None]
    failed = len(outcomes) - len(found)
    plumes = sum(len(detection.plumes) for detection in found)
    summary = f"{plumes} plume{'' if plumes == 1 else 's'} in {len(found)} scene{'' if len(found) == 1 else 's'}"
    summary += f"; {failed} input{'' if failed == 1 else 's'} failed." if failed else "."
    footer = (
        f"Made by flame {__version__}. Scores are in ppm m; mass is the score summed over a plume's ground area, "
        "without a background taken off."
    )
    write_report(path, title, summary, [outcome.section for outcome in outcomes], footer)
