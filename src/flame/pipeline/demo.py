"""The demonstration: a simulated scene, the packaged model, products, and how it compares with the truth."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from flame.detection import PixelCounts
from flame.files import require_writable
from flame.onboard import Detection, Detectors
from flame.physics import sensor
from flame.pipeline.demo_truth import compare_with_truth, sources_found, true_wind
from flame.pipeline.measure import MeasureSettings, measure_scene
from flame.pipeline.scene_products import PAGE, ProductOptions, write_products
from flame.plumes import PlumeRecord
from flame.scene import GeoGrid
from flame.simulate import labels_at_level, preset, simulate_tile, tile_generator
from flame.tile import LabelledTile

__all__ = ["DemoResult", "RatedPlume", "demo_tile", "run_demo"]

_NOWHERE_M = (166_021.0, 2_560.0)
"""Corner of the scene in UTM zone 31: in the Gulf of Guinea, where 0 N 0 E is, and so of no real place."""


@dataclass(frozen=True, eq=False)
class RatedPlume:
    """A found plume and its truth.

    Attributes:
        record: The plume.
        true_kg_h: What its sources emit.
        pieces: Found plumes that are of the same source.
    """

    record: PlumeRecord
    true_kg_h: float
    pieces: int = 1


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demonstration found.

    Attributes:
        counts: Detected pixels against the truth at the level of the outlines, or else against the annotator's label.
        true_plumes: Sources whose plume exceeds that level, or that an annotator would draw.
        found_plumes: Those of them of which a plume was found.
        false_plumes: Found plumes that are of no source.
        detection: Everything that was found.
        seconds: Time of each step by name.
        report: The page to look at.
        rated: The plumes that are of a true source.
    """

    counts: PixelCounts
    true_plumes: int
    found_plumes: int
    false_plumes: int
    detection: Detection
    seconds: dict[str, float]
    report: Path
    rated: tuple[RatedPlume, ...] = ()


def demo_tile(size: int, seed: int, sensor_name: str) -> LabelledTile:
    """A simulated scene with three sources, at a made-up place."""
    settings = preset("cluttered", size=size, sensor_name=sensor_name)
    settings = replace(settings, plume=replace(settings.plume, source_shares=(0.0, 0.0, 0.0, 1.0)))
    tile = simulate_tile(tile_generator(seed, 0), settings, "demo scene").tile
    side, (left, top) = settings.pixel_m, _NOWHERE_M
    geo = GeoGrid(crs="EPSG:32631", affine=(side, 0.0, left, 0.0, -side, top), source="a made-up place")
    return replace(tile, scene=replace(tile.scene, geo=geo))


def run_demo(
    out: Path,
    detectors: Detectors,
    size: int = 512,
    seed: int = 0,
    sensor_name: str = "aviris-ng",
    told: Callable[[str], None] = lambda _: None,
) -> DemoResult:
    """Simulates, detects, writes products and a report.

    Args:
        out: Folder for the products.
        detectors: Which model and engine.
        size: Rows and columns of the scene.
        seed: Which scene.
        sensor_name: Sensor to simulate.
        told: Called with a line before each step.
    """
    require_writable(out)
    seconds: dict[str, float] = {}

    def lap(name: str, began: float) -> None:
        seconds[name] = time.perf_counter() - began

    began = time.perf_counter()
    detector = detectors.for_bands(sensor(sensor_name).bands)
    lap("load model", began)
    told(f"simulating a scene of {size} x {size} pixels as {sensor_name} sees it")
    began = time.perf_counter()
    tile = demo_tile(size, seed, sensor_name)
    lap("simulate", began)
    told(f"detecting with {detector.identity.model} on {detector.runtime}")
    began = time.perf_counter()
    detection = detector.run(tile.scene)
    lap("detect", began)
    if detection.level_ppm_m is not None and tile.enhancement_ppm_m is not None:  # judged by the truth at that level
        label = labels_at_level(tile.enhancement_ppm_m, detection.level_ppm_m, tile.scene.valid)
        tile = replace(tile, label=label)
    told(f"writing products to {out}")
    began = time.perf_counter()
    measured = measure_scene(tile.scene, detection, "demo", MeasureSettings(true_wind(tile)))
    truth = compare_with_truth(tile, measured.plumes)
    alone = ProductOptions(batch=False)
    write_products(
        out, "FLAME demonstration: a simulated scene", tile.scene, detection, detector, measured, alone, truth
    )
    lap("write products", began)
    sources = [each for each in sources_found(tile, measured.plumes) if each.drawn]
    counts = PixelCounts.of(detection.mask, tile.label, tile.scene.valid)
    rated = [
        RatedPlume(record, known.kg_h, max(len(each.plumes) for each in sources if record in each.plumes))
        for record, known in zip(measured.plumes, truth.plumes, strict=True)
        if known.kg_h
    ]
    found, false = sum(bool(each.plumes) for each in sources), len(measured.plumes) - len(rated)
    return DemoResult(counts, len(sources), found, false, detection, seconds, out / PAGE, tuple(rated))
