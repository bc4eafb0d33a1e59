"""How noisy a tile is around a pixel."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32
from scipy.ndimage import uniform_filter

from flame.prepare.fields.view import Field, TileView

__all__ = ["NOISE"]


def noise(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """Log of the local noise: what differs between neighbouring columns, averaged over bands and 3 x 3 pixels."""
    steps = tile.layers.steps
    if not steps.size:  # a single column has no neighbours
        steps = np.zeros((steps.shape[0], 1), dtype=np.float32)
    beside = np.pad(steps, ((0, 0), (1, 1)), mode="edge")[:, : tile.usable.shape[1] + 1]
    mean = uniform_filter(np.float32(0.25) * (beside[:, 1:] + beside[:, :-1]), 3, mode="nearest")
    return np.float32(0.5) * np.log(mean + np.float32(tile.settings.tiny))


NOISE = Field("noise", noise, 4)
