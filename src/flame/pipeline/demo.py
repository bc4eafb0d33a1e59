"""The demonstration: a simulated scene, the packaged model, products, and how it compares with the truth."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from scipy import ndimage

from flame.detection import PixelCounts
from flame.files import require_writable
from flame.onboard import Detection, Detectors
from flame.physics import sensor
from flame.pipeline.detect import REPORT, Outcome, write_scene_report
from flame.pipeline.measure import measure_scene
from flame.pipeline.scene_products import write_products
from flame.scene import GeoGrid
from flame.simulate import preset, simulate_tile, tile_generator
from flame.tile import LabelledTile

__all__ = ["DemoResult", "demo_tile", "run_demo"]

_NOWHERE = GeoGrid(crs="EPSG:32631", affine=(5.0, 0.0, 166_021.0, 0.0, -5.0, 2_560.0))
"""A grid of 5 m pixels in the Gulf of Guinea, where 0 N 0 E is: the scene is of no real place."""


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demonstration found.

    Attributes:
        counts: Detected pixels against the annotator's label.
        true_plumes: Labelled plumes in the scene.
        found_plumes: Those of them that a detection touches.
        false_plumes: Detections that touch no label.
        detection: Everything that was found.
        seconds: Time of each step by name.
        report: The page to look at.
    """

    counts: PixelCounts
    true_plumes: int
    found_plumes: int
    false_plumes: int
    detection: Detection
    seconds: dict[str, float]
    report: Path


def demo_tile(size: int, seed: int, sensor_name: str) -> LabelledTile:
    """A simulated scene with three sources, at a made-up place."""
    settings = preset("cluttered", size=size, sensor_name=sensor_name)
    settings = replace(settings, plume=replace(settings.plume, source_shares=(0.0, 0.0, 0.0, 1.0)))
    tile = simulate_tile(tile_generator(seed, 0), settings, "demo scene").tile
    return replace(tile, scene=replace(tile.scene, geo=_NOWHERE))


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
    told(f"writing products to {out}")
    began = time.perf_counter()
    measured = measure_scene(tile.scene, detection, "demo")
    write_products(out, "demo scene", tile.scene, detection, detector, measured, truth=tile.label)
    lap("write products", began)
    true_plumes, found = _touched(tile.label, detection.mask)
    detected, right = _touched(detection.mask, tile.label)
    counts = PixelCounts.of(detection.mask, tile.label, tile.scene.valid)
    report = out / REPORT
    outcome = Outcome("demo scene", "done", out, len(measured.plumes), detector.identity.model)
    write_scene_report(report, [outcome], "FLAME demonstration: a simulated scene")
    return DemoResult(counts, true_plumes, found, detected - right, detection, seconds, report)


def _touched(own: Bool[np.ndarray, "row col"], other: Bool[np.ndarray, "row col"]) -> tuple[int, int]:
    """How many connected parts a mask has, and how many of them the other mask touches."""
    labels, count = ndimage.label(own, np.ones((3, 3)))
    return int(count), int(np.unique(labels[own & other]).size)
