"""Runs a model over tiles and judges it with the flight software's own decision rule and metrics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float32

from flame.detection import DecisionRule, Evaluation, Metrics, ScoreJudge, plume_mask
from flame.models import BatchPreparer
from flame.models.trained import AnyModel
from flame.training.batches import TileSequence, TrainingBatch, stack

__all__ = ["evaluate_model", "probabilities"]


@torch.no_grad()
def probabilities(model: AnyModel, batch: TrainingBatch) -> Float32[np.ndarray, "batch row col"]:
    """Plume probability of each pixel of a batch; 0 where a pixel is not usable, as in flight."""
    return np.asarray((torch.sigmoid(model(batch.inputs).logit.float()) * batch.usable).cpu().numpy())


def evaluate_model(
    model: AnyModel,
    source: TileSequence,
    device: torch.device | None = None,
    rule: DecisionRule | None = None,
    batch: int = 4,
    progress: Callable[[int, int], None] | None = None,
    judge: ScoreJudge | None = None,
) -> Metrics:
    """Metrics over all tiles of a split: probability above 0.5, opened by a 3x3 cross, valid pixels only.

    Args:
        model: The network; left in evaluation mode.
        source: The tiles.
        device: Where the model is; the CPU unless given.
        rule: Decision rule; the paper's unless given.
        batch: Tiles in one forward pass.
        progress: Called with the number of tiles done and of all.
        judge: Takes every probability map too, to judge it by other rules beside this one.
    """
    evaluation = Evaluation(probabilities=True)
    model.eval()
    preparer = BatchPreparer(model.settings, source.bands, torch.get_num_threads())
    for start in range(0, len(source), batch):
        tiles = [source[number] for number in range(start, min(start + batch, len(source)))]
        layers = stack(tiles, preparer)
        found = probabilities(model, layers if device is None else layers.to(device))
        for tile, probability, usable in zip(tiles, found, layers.usable.numpy(), strict=True):
            mask = plume_mask(probability, usable, rule)
            evaluation.add(probability, mask, tile.label, tile.valid, tile.emission_kg_h)
            if judge is not None:
                judge.add(np.where(usable, probability, np.float32(0)), tile.label, tile.valid)
        if progress is not None:
            progress(start + len(tiles), len(source))
    return evaluation.metrics()
