"""Mean and covariance of log-radiance over a training set."""

from __future__ import annotations

import numpy as np

from flame.models import SpectralStatistics
from flame.prepare import PrepareSettings, TilePreparer
from flame.training.batches import TileSequence

__all__ = ["training_statistics"]

_PIXELS_PER_TILE = 4096
_ORIGIN = float(np.log(0.5))


def training_statistics(source: TileSequence, prepare: PrepareSettings, tiles: int = 400) -> SpectralStatistics:
    """Statistics over the usable pixels of evenly spread tiles and pixels, in double precision.

    Args:
        source: The training tiles.
        prepare: How tiles are prepared.
        tiles: At most so many are looked at.
    """
    bands = len(source.bands)
    count, total, outer = 0, np.zeros(bands), np.zeros((bands, bands))
    for number in np.unique(np.linspace(0, len(source) - 1, min(tiles, len(source))).astype(int)).tolist():
        tile = source[number]
        step = max(1, int((tile.valid.size / _PIXELS_PER_TILE) ** 0.5))
        valid = np.ascontiguousarray(tile.valid[::step, ::step])
        preparer = TilePreparer(prepare, ("log_radiance",), source.bands, valid.shape)
        made = preparer.prepare(np.ascontiguousarray(tile.radiance[:, ::step, ::step]), valid, None, always=True)
        assert made.inputs is not None
        log = made.inputs["log_radiance"][0][:, made.usable].astype(np.float64)
        # Sums about a fixed origin near the mean, so that nothing cancels.
        centred = log - _ORIGIN
        count += centred.shape[1]
        total += centred.sum(1)
        outer += centred @ centred.T
    mean = total / max(count, 1)
    return SpectralStatistics(mean + _ORIGIN, outer / max(count, 1) - np.outer(mean, mean))
