"""A packaged model judged on labelled tiles by the runtime that flies: no torch, no cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from flame.detection import Evaluation, JudgedRow, Metrics, ScoreJudge, plume_mask
from flame.io import Dataset, TileFailure
from flame.onboard import Detectors

__all__ = ["PackageEvaluation", "evaluate_package"]


@dataclass(frozen=True)
class PackageEvaluation:
    """How good a packaged model is on a data set.

    Attributes:
        metrics: The figures, over all tiles that could be read.
        facts: Which model, in which engine, with which threshold.
        failures: Tiles that could not be read.
        rules: The same maps judged by the rules of `flame.detection.RULES`; empty if no tile has a plume.
    """

    metrics: Metrics
    facts: dict[str, object]
    failures: tuple[TileFailure, ...]
    rules: Mapping[str, JudgedRow]


def evaluate_package(
    dataset: Dataset,
    detectors: Detectors,
    threshold: float | None = None,
    progress: Callable[[], None] = lambda: None,
) -> PackageEvaluation:
    """Detects in every tile and counts against its label, valid pixels only.

    The model's own tile has a fixed size: smaller tiles are padded with invalid pixels, larger ones are cut and joined,
    as `flame detect` does.

    Args:
        dataset: Labelled tiles.
        detectors: Which model and engine.
        threshold: Probability above which a pixel is plume; what the detectors were asked for unless given.
        progress: Called after each tile.

    Raises:
        FlameError: If the model does not fit the tiles' bands, or no tile could be read.
    """
    evaluation = Evaluation(probabilities=True)
    failures: list[TileFailure] = []
    facts: dict[str, object] = {}
    judge: ScoreJudge | None = None
    for tile in dataset.tiles(failures):
        detector = detectors.for_bands(tile.scene.bands, str(dataset.root / tile.name))
        found = detector.run(tile.scene)
        rule = detector.rule if threshold is None else replace(detector.rule, threshold=threshold, core_sigmas=None)
        mask = found.mask if threshold is None else plume_mask(found.probability, found.usable, rule)
        evaluation.add(found.probability, mask, tile.label, tile.scene.valid, tile.emission_kg_h)
        judge = judge or ScoreJudge(rule.threshold, probabilities=True)
        judge.add(np.where(found.usable, found.probability, np.float32(0)), tile.label, tile.scene.valid)
        facts = {
            "model": detector.identity.model,
            "sha256": detector.identity.sha256,
            "runtime": detector.runtime,
            "threshold": rule.threshold,
        }
        progress()
    metrics = evaluation.metrics()
    rules = judge.rows() if judge is not None and metrics.plume_free_tiles < metrics.tiles else {}
    return PackageEvaluation(metrics, facts, tuple(failures), rules)
