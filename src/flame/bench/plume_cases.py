"""Plumes of known rate in known wind, found and measured end to end: the cases behind rates, limits and checks.

Each case is a plume of one steady source, simulated for a rate and a wind, that absorbs the light of a simulated
scene; then everything runs as on a real scene: detection, outline, mass, spectrum.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from flame.detection import plume_labels
from flame.errors import FlameError
from flame.files import drop_torn_line, write_json
from flame.onboard import FILTER_MODEL, Detectors
from flame.physics import MAX_ENHANCEMENT_PPM_M, Wind, airmass_of, path_factor, sensor
from flame.pipeline.measure import MeasureSettings, measure_scene, reach_px
from flame.plumes import PlumeRecord
from flame.rates import PlumeFigures
from flame.records import from_entries, parse_json, read_json
from flame.scene import GeoGrid, Scene
from flame.simulate import TileSettings, preset, simulate_tile, tile_generator
from flame.simulate.instrument import point_spread
from flame.simulate.plumes import plume_column
from flame.simulate.tiles import absorb
from flame.tile import PlumeSource
from flame.workers import end_with_parent, threads_each

__all__ = ["CasePlan", "CaseResult", "FalsePlume", "FoundPlume", "run_cases"]

_PLAN, _ROWS = "cases.json", "cases.jsonl"
_PSF_PX = 0.5
_UTM_ORIGIN = (500_000.0, 4_000_000.0)


@dataclass(frozen=True)
class CasePlan:
    """Everything that fixes a set of cases.

    Attributes:
        sensor: Whose bands, noise and pixels.
        cases: How many.
        seed: Of all draws; a set to judge on has another seed than the one that was fitted on.
        rate_kg_h: Smallest and largest rate, drawn evenly in the logarithm.
        wind_m_s: Smallest and largest wind at 10 m, drawn evenly.
        size: Rows and columns of a scene.
        preset: What the scenes are like.
        model: What finds the plumes.
    """

    sensor: str
    cases: int
    seed: int
    rate_kg_h: tuple[float, ...] = (50.0, 5000.0)
    wind_m_s: tuple[float, ...] = (1.0, 10.0)
    size: int = 128
    preset: str = "wide"
    model: str = FILTER_MODEL

    def __post_init__(self) -> None:
        for name, (low, high) in (("rate_kg_h", self.rate_kg_h), ("wind_m_s", self.wind_m_s)):
            if not 0 < low <= high:
                raise FlameError(f"{name} must be two positive numbers, the smaller one first, got {low} and {high}")
        sensor(self.sensor)


@dataclass(frozen=True)
class FoundPlume:
    """The plume that was found of a case.

    Attributes:
        figures: What rates follow from.
        at_edge: Whether it reaches the scene's edge.
        pixels: Its size.
        parts: Fragments it was joined from.
        source_error_m: How far its source was placed from the true one.
        direction_error_deg: How far its direction is from the wind's.
        true_kg: Mass that truly is under its outline.
        p_value: Of its spectral check; None if that could not be made.
    """

    figures: PlumeFigures
    at_edge: bool
    pixels: int
    parts: int
    source_error_m: float
    direction_error_deg: float
    true_kg: float
    p_value: float | None


@dataclass(frozen=True)
class FalsePlume:
    """Something that was taken for a plume.

    Attributes:
        ime_kg: Its seeming mass.
        sigma_kg: The standard deviation of that.
        pixels: Its size.
        p_value: Of its spectral check.
    """

    ime_kg: float
    sigma_kg: float
    pixels: int
    p_value: float | None


@dataclass(frozen=True)
class CaseResult:
    """What became of one case.

    Attributes:
        index: Its number in the plan.
        rate_kg_h: True rate.
        wind_m_s: True wind.
        found: The plume, if it was found.
        false: What else was found in the scene.
    """

    index: int
    rate_kg_h: float
    wind_m_s: float
    found: FoundPlume | None
    false: tuple[FalsePlume, ...]


@dataclass(frozen=True, eq=False)
class _Case:
    """A scene with one plume, and the truth."""

    scene: Scene
    truth_ppm_m: Float32[np.ndarray, "row col"]
    source: PlumeSource


def _plain(settings: TileSettings) -> TileSettings:
    """No plume, and a scene in its own pixels without missing corners: the truth of a place stays its truth."""
    return replace(
        settings,
        plume=replace(settings.plume, source_shares=(1.0,)),
        instrument=replace(settings.instrument, map_chance=0.0, edge_chance=0.0),
    )


def _draw(plan: CasePlan, index: int) -> _Case:
    rng = tile_generator(plan.seed, index)
    least, most = np.log(plan.rate_kg_h)
    rate = float(np.exp(rng.uniform(least, most)))
    wind_m_s, to_deg = float(rng.uniform(plan.wind_m_s[0], plan.wind_m_s[1])), float(rng.uniform(0.0, 360.0))
    made = simulate_tile(rng, preset(plan.preset, size=plan.size, sensor_name=plan.sensor).each(_plain), "case")
    scene, pixel_m = made.tile.scene, sensor(plan.sensor).pixel_m
    # Upwind of the middle by up to 0.35 of the size: most of the tile is room for the plume.
    angle = np.deg2rad(to_deg)
    upwind = np.array([np.cos(angle), -np.sin(angle)]) * rng.uniform(0.15, 0.35) + rng.uniform(-0.1, 0.1, 2)
    row, col = (plan.size * (0.5 + upwind)).tolist()
    source = PlumeSource(row, col, rate, wind_m_s, to_deg)
    shapes = preset(plan.preset).regime(rng).plume
    column = plume_column(rng, scene.shape, pixel_m, source, replace(shapes, burst_share=0.0))
    acquisition = scene.acquisition
    factor = path_factor(airmass_of(acquisition.solar_zenith_deg or 0.0, acquisition.view_zenith_deg or 0.0))
    slant = np.minimum(np.float32(factor) * column, np.float32(MAX_ENHANCEMENT_PPM_M))
    seen = point_spread(slant[None], _PSF_PX)[0]
    noise = scene.radiance - made.background_radiance
    radiance = absorb(made.background_radiance, seen, scene.bands, np.zeros(scene.shape, np.float32)) + noise
    radiance = np.where(scene.valid, radiance, np.float32(0))
    affine = (pixel_m, 0.0, _UTM_ORIGIN[0], 0.0, -pixel_m, _UTM_ORIGIN[1])
    return _Case(replace(scene, radiance=radiance, geo=GeoGrid(crs="EPSG:32631", affine=affine)), seen, source)


@lru_cache(maxsize=2)
def _detectors(model: str) -> Detectors:
    return Detectors(model, threads=1)


def _run(plan: CasePlan, index: int) -> CaseResult:
    case = _draw(plan, index)
    detection = _detectors(plan.model).for_bands(case.scene.bands).run(case.scene)
    wind = Wind(case.source.wind_m_s, (case.source.wind_to_deg + 180.0) % 360.0, 0.0)
    record = measure_scene(case.scene, detection, "case", MeasureSettings(winds=(wind,), seed=index))
    labels = plume_labels(detection.mask, reach_px(case.scene))
    level = detection.level_ppm_m
    found, false = None, []
    for plume in record.plumes:  # the heaviest first
        inside = labels == labels[plume.plume.peak_row, plume.plume.peak_col]
        # Half of the outline's level is gas; where outlines follow what is visible, as much as a pixel's noise.
        least_ppm_m = record.sigma_ppm_m[inside] if level is None else 0.5 * level
        there = float(np.mean(case.truth_ppm_m[inside] > least_ppm_m))
        if there < 0.5:
            false.append(_false(plume))
        elif found is None:
            found = _found(case, plume, float(case.truth_ppm_m[inside].sum(dtype=np.float64)))
    return CaseResult(index, case.source.emission_kg_h, case.source.wind_m_s, found, tuple(false))


def _found(case: _Case, plume: PlumeRecord, true_ppm_m_px: float) -> FoundPlume | None:
    if plume.figures is None or plume.shape is None:
        return None
    mass = plume.figures.mass
    pixel_m2 = mass.area_m2 / plume.plume.area_px
    away = np.hypot(plume.source.row - case.source.row, plume.source.col - case.source.col)
    turn = (plume.shape.to_deg - case.source.wind_to_deg + 180.0) % 360.0 - 180.0
    return FoundPlume(
        figures=plume.figures,
        at_edge=plume.at_edge,
        pixels=plume.plume.area_px,
        parts=plume.plume.parts,
        source_error_m=float(away * np.sqrt(pixel_m2)),
        direction_error_deg=abs(float(turn)),
        true_kg=true_ppm_m_px * mass.kg_per_m2 * pixel_m2,
        p_value=None if plume.check is None else plume.check.p_value,
    )


def _false(plume: PlumeRecord) -> FalsePlume:
    mass = plume.mass
    return FalsePlume(
        0.0 if mass is None else mass.ime_kg,
        1.0 if mass is None else mass.sigma_kg,
        plume.plume.area_px,
        None if plume.check is None else plume.check.p_value,
    )


def run_cases(
    plan: CasePlan, folder: Path, workers: int | None = None, on_case: Callable[[], None] = lambda: None
) -> list[CaseResult]:
    """Runs a plan; cases that an earlier run of it finished are read from the folder, and more may be added to them.

    Args:
        plan: What to simulate.
        folder: Where the results are kept; one that holds another plan is refused.
        workers: Processes; one for each core unless given.
        on_case: Called after each case.

    Raises:
        FlameError: If the folder holds the cases of another plan.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stored = folder / _PLAN
    if stored.is_file() and replace(from_entries(CasePlan, read_json(stored, "a plan")), cases=plan.cases) != plan:
        raise FlameError(f"{folder} holds other cases (see {_PLAN}); choose an empty folder")
    write_json(stored, asdict(plan))
    drop_torn_line(folder / _ROWS)
    done = {result.index: result for result in _stored(folder / _ROWS) if result.index < plan.cases}
    for _ in done:
        on_case()
    with (folder / _ROWS).open("a", encoding="utf-8") as file:
        for result in _computed(plan, [index for index in range(plan.cases) if index not in done], workers):
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            done[result.index] = result
            on_case()
    return [done[index] for index in range(plan.cases)]


def _stored(path: Path) -> Iterator[CaseResult]:
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entries: Any = parse_json(line, str(path), "the result of a case")
                yield from_entries(CaseResult, entries)
            except FlameError:  # a damaged line is done again
                continue


def _computed(plan: CasePlan, left: list[int], workers: int | None) -> Iterator[CaseResult]:
    count = min(workers or os.cpu_count() or 1, max(len(left), 1))
    if count == 1:
        yield from (_run(plan, index) for index in left)
        return
    with threads_each(1), ProcessPoolExecutor(count, get_context("spawn"), end_with_parent) as pool:
        yield from pool.map(_run, [plan] * len(left), left)
