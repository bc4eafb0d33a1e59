"""A method's figures on the test tiles, and its maps of the tiles that are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float

from flame.bench.comparison.tiles import panel_numbers
from flame.detection import DecisionRule, Evaluation, ScoreJudge, plume_mask
from flame.filters import filter_named
from flame.models import BatchPreparer
from flame.models.trained import AnyModel
from flame.onboard import Asked, Detector
from flame.scene import Scene
from flame.training.batches import TileSequence, stack
from flame.training.evaluate import evaluate_model

__all__ = ["Judged", "judge_filter", "judge_model", "judge_packaged", "model_maps"]

_BATCH_PIXELS = 40_000
"""Pixels in one forward pass; a tile of 512 pixels is passed alone."""

Maps = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Judged:
    """What is kept of a method.

    Attributes:
        figures: `metrics` by the method's rule, `rules` by every rule of `flame.detection.RULES`, and the `threshold`.
        maps: Arrays named `<what>/<kind of tile>`.
    """

    figures: dict[str, Any]
    maps: Maps


def judge_filter(name: str, tiles: TileSequence) -> Judged:
    """A classical filter: its canonical threshold and the opening, as in the paper; the best if it has none."""
    method = filter_named(name)
    judge = ScoreJudge(method.threshold)
    scores = []
    for number in range(len(tiles)):
        tile = tiles[number]
        score = method.score(np.ascontiguousarray(tile.radiance), tiles.bands, tile.valid)
        scores.append(score)
        judge.add(score, tile.label, tile.valid)
    rows = judge.rows()
    threshold = rows["best_opened"].threshold if method.threshold is None else method.threshold
    evaluation, rule = Evaluation(probabilities=False), DecisionRule(threshold)
    masks = [plume_mask(score, tiles[number].valid, rule) for number, score in enumerate(scores)]
    for number, (score, mask) in enumerate(zip(scores, masks, strict=True)):
        tile = tiles[number]
        evaluation.add(score, mask, tile.label, tile.valid, tile.emission_kg_h)
    maps: Maps = {}
    for kind, number in panel_numbers(tiles).items():
        maps |= {f"score/{kind}": scores[number].astype(np.float16), f"mask/{kind}": masks[number]}
    figures = {
        "threshold": threshold,
        "threshold_chosen_on_test": method.threshold is None,
        "metrics": evaluation.metrics().to_dict(),
        "rules": {rule: row.to_dict() for rule, row in rows.items()},
    }
    return Judged(figures, maps)


def judge_packaged(name: str, level: Literal["visible"] | None, tiles: TileSequence) -> Judged:
    """A packaged model by its own rule, in the runtime that flies."""
    detector = Detector(name, asked=Asked(level=level))
    rule = detector.rule
    judge, evaluation = ScoreJudge(rule.threshold, probabilities=True), Evaluation(probabilities=True)
    found = []
    for number in range(len(tiles)):
        tile = tiles[number]
        said = detector.run(Scene(np.ascontiguousarray(tile.radiance), tiles.bands, tile.valid))
        judge.add(said.probability, tile.label, tile.valid)
        evaluation.add(said.probability, said.mask, tile.label, tile.valid, tile.emission_kg_h)
        found.append(said)
    maps: Maps = {}
    for kind, number in panel_numbers(tiles).items():
        said = found[number]
        maps[f"probability/{kind}"] = (255 * said.probability).round().astype(np.uint8)
        maps[f"mask/{kind}"] = said.mask
        maps[f"score/{kind}"] = np.clip(said.score_ppm_m, -6e4, 6e4).astype(np.float16)
    figures = {
        "threshold": rule.threshold,
        "threshold_chosen_on_test": False,
        "metrics": evaluation.metrics().to_dict(),
        "rules": {rule: row.to_dict() for rule, row in judge.rows().items()},
    }
    return Judged(figures, maps)


def judge_model(model: AnyModel, tiles: TileSequence, device: torch.device) -> Judged:
    """A trained network: probability above 0.5, opened."""
    rule = DecisionRule()
    judge = ScoreJudge(rule.threshold, probabilities=True)
    batch = max(1, _BATCH_PIXELS // max(1, tiles[0].label.size))
    metrics = evaluate_model(model.to(device), tiles, device, rule, batch, judge=judge)
    figures = {
        "threshold": rule.threshold,
        "threshold_chosen_on_test": False,
        "metrics": metrics.to_dict(),
        "rules": {name: row.to_dict() for name, row in judge.rows().items()},
    }
    return Judged(figures, model_maps(model, tiles, device))


@torch.no_grad()
def model_maps(model: AnyModel, tiles: TileSequence, device: torch.device, prefix: str = "") -> Maps:
    """Probability, mask and, if the model has one, score in ppm m of the tiles that are shown."""
    model.eval()
    preparer = BatchPreparer(model.settings, tiles.bands)
    maps: Maps = {}
    for kind, number in panel_numbers(tiles).items():
        batch = stack([tiles[number]], preparer)
        usable = batch.usable[0].numpy()
        output = model(batch.to(device).inputs)
        probability = _plain(torch.sigmoid(output.logit.float()), usable)
        maps[f"{prefix}probability/{kind}"] = (255 * probability).round().astype(np.uint8)
        maps[f"{prefix}mask/{kind}"] = plume_mask(probability, usable)
        if output.score_ppm_m is not None:
            score = np.clip(_plain(output.score_ppm_m.float(), usable), -6e4, 6e4)
            maps[f"{prefix}score/{kind}"] = score.astype(np.float16)
    return maps


def _plain(field: torch.Tensor, usable: np.ndarray) -> Float[np.ndarray, "row col"]:
    return np.where(usable, field[0].cpu().numpy(), np.float32(0))
