"""Moves a model's logit so that the fixed decision rule, probability above 0.5, is the best one on held-out tiles.

Dice and cross-entropy leave the logit where their sum is least, which is not where F1 after the opening is highest. One
number chosen on the validation split corrects that; the rule itself stays the paper's.
"""

from __future__ import annotations

import numpy as np
import torch

from flame.detection import DecisionRule, PixelCounts, plume_mask
from flame.models import BatchPreparer, Flame
from flame.training.batches import TileSequence, stack

__all__ = ["best_logit", "calibrate"]

_LOGITS = tuple(np.linspace(-4.0, 4.0, 65).tolist())


@torch.no_grad()
def best_logit(model: Flame, tiles: TileSequence, device: torch.device | None = None) -> float:
    """The logit above which calling a pixel plume, opening included, gives the highest F1 on the tiles."""
    counts = [PixelCounts()] * len(_LOGITS)
    model.eval()
    preparer = BatchPreparer(model.settings, tiles.bands, torch.get_num_threads())
    for number in range(len(tiles)):
        tile = tiles[number]
        batch = stack([tile], preparer)
        usable = batch.usable[0].numpy()
        batch = batch if device is None else batch.to(device)
        logit = model(batch.inputs).logit[0].float().cpu().numpy()
        for at, threshold in enumerate(_LOGITS):
            mask = plume_mask(logit, usable, DecisionRule(threshold))
            counts[at] += PixelCounts.of(mask, tile.label, tile.valid)
    f1 = np.array([count.f1 for count in counts])
    if not np.isfinite(f1).any():
        return 0.0
    # A broad top has noise on it: the middle of what is within half a percent of the best moves least.
    near = np.flatnonzero(np.nan_to_num(f1) >= 0.995 * np.nanmax(f1))
    return float(_LOGITS[int(near[len(near) // 2])])


@torch.no_grad()
def calibrate(model: Flame, tiles: TileSequence, device: torch.device | None = None) -> float:
    """Shifts the model's logit by `best_logit` in place and gives the shift."""
    shift = best_logit(model, tiles, device)
    bias = model.segmentation.project.bias
    assert bias is not None
    bias -= shift
    return shift
