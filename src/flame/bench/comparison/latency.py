"""Seconds a tile of every method, measured in turn in one run, so that a busy machine is busy for all alike."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from flame.bench.comparison.methods import Method, recipe_of
from flame.bench.comparison.runs import Setting
from flame.detection import DecisionRule, plume_mask
from flame.filters import filter_named
from flame.models import BatchPreparer, Flame, FlameSettings, RawTile, SpectralStatistics
from flame.models.trained import AnyModel, NetworkModel
from flame.onboard import Asked, Detector
from flame.physics import unit_absorption
from flame.pipeline.datasets import SimulationPlan
from flame.scene import Scene
from flame.training.distributed import World
from flame.training.loop import chosen_device

__all__ = ["measure_latency"]

Timed = Callable[[], dict[str, float]]
"""Works on a tile once and says how many seconds each part took."""


def measure_latency(methods: Iterable[Method], setting: Setting, rounds: int = 7) -> dict[str, Any]:
    """Times every method on one tile from radiance to mask and keeps the report.

    A round times each method once; the next begins with another method. Weights are untrained: they do not matter to
    the time. Networks run in PyTorch, one tile a batch, after the preparation of their fields, which for two-stage ones
    is the filter; a packaged model runs in the runtime that flies.

    Args:
        methods: What to time.
        setting: The scale gives the tile's size.
        rounds: How many times; the median counts.
    """
    scale = setting.scale
    scene = SimulationPlan(1, scale.seed, scale.preset, scale.size).draw(0).tile.scene.methane()
    device = chosen_device(setting.device, World())
    timed = {method.key: (method, _timed(method, setting, scene, device)) for method in methods}
    for _, run in timed.values():
        run()  # what is done once, such as loading a library, is nobody's time
    keys = list(timed)
    seen: dict[str, list[dict[str, float]]] = {key: [] for key in keys}
    for number in range(rounds):
        setting.tell(f"round {number + 1} of {rounds}")
        first = number % len(keys)
        for key in keys[first:] + keys[:first]:
            seen[key].append(timed[key][1]())
    report = {
        "scale": scale.facts(),
        "rounds": rounds,
        "machine": {"processor": platform.machine(), "threads": torch.get_num_threads(), "device": str(device)},
        "methods": {
            key: {"title": timed[key][0].title, "family": timed[key][0].family, **_summary(parts)}
            for key, parts in seen.items()
        },
    }
    setting.records.keep_latency(report)
    return report


def _summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    totals = [sum(parts.values()) for parts in rounds]
    medians = {name: statistics.median(parts[name] for parts in rounds) for name in rounds[0]}
    found = {"ms": 1e3 * statistics.median(totals), "fastest_ms": 1e3 * min(totals)}
    found |= {f"{name}_ms": 1e3 * median for name, median in medians.items()}
    return {name: round(value, 3) for name, value in found.items()}


def _timed(method: Method, setting: Setting, scene: Scene, device: torch.device) -> Timed:
    if method.filtered is not None:
        return _timed_filter(method.filtered, scene)
    if method.packaged is not None:
        return _timed_packaged(method.packaged, method.level, scene)
    return _timed_model(_untrained(method, setting, scene).to(device).eval(), scene, device)


def _timed_filter(name: str, scene: Scene) -> Timed:
    method = filter_named(name)
    rule = DecisionRule(method.threshold or 0.0)

    def run() -> dict[str, float]:
        started = time.perf_counter()
        plume_mask(method.score(scene.radiance, scene.bands, scene.valid), scene.valid, rule)
        return {"filter": time.perf_counter() - started}

    return run


def _timed_packaged(name: str, level: Literal["visible"] | None, scene: Scene) -> Timed:
    detector = Detector(name, asked=Asked(level=level))

    def run() -> dict[str, float]:
        started = time.perf_counter()
        detector.run(scene)
        return {"native": time.perf_counter() - started}

    return run


def _untrained(method: Method, setting: Setting, scene: Scene) -> AnyModel:
    torch.manual_seed(0)
    kind = replace(recipe_of(method, setting.scale, setting.changes).model, bands=len(scene.bands))
    if isinstance(kind, FlameSettings):
        return Flame(kind, unit_absorption(scene.bands), SpectralStatistics.standard(kind.bands))
    return NetworkModel(kind)


def _timed_model(model: AnyModel, scene: Scene, device: torch.device) -> Timed:
    preparer = BatchPreparer(model.settings, scene.bands, torch.get_num_threads())
    raw = [RawTile.of(scene)]

    @torch.no_grad()
    def run() -> dict[str, float]:
        started = time.perf_counter()
        batch = preparer.prepare(raw).to(device)
        prepared = time.perf_counter()
        probability = torch.sigmoid(model(batch.inputs).logit.float())[0].cpu().numpy()
        plume_mask(np.asarray(probability), batch.usable[0].cpu().numpy())
        return {"preparation": prepared - started, "network": time.perf_counter() - prepared}

    return run
