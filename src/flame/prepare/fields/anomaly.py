"""How far a pixel is from the background, and how much of that points along methane."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32

from flame.prepare.fields.view import Field, TileView

__all__ = ["ANOMALY", "COHERENCE"]


def anomaly(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """Log of the Mahalanobis distance per band (RX; Reed and Yu 1990)."""
    return np.float32(0.5) * np.log(tile.layers.power + np.float32(tile.settings.tiny))


def coherence(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """Share of the residual that points along methane, signed: the adaptive coherence estimator, times sqrt(bands)."""
    return np.asarray(tile.layers.response / np.sqrt(tile.layers.power + np.float32(tile.settings.tiny)))


ANOMALY = Field("anomaly", anomaly, 2)
COHERENCE = Field("coherence", coherence, 3)
