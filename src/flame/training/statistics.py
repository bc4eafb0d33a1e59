"""Mean and covariance of log-radiance over a training set, and mean and spread of the fields of other networks."""

from __future__ import annotations

import numpy as np
import torch

from flame.models import BatchPreparer, RawTile, SpectralStatistics
from flame.models.segmenter import Segmenter
from flame.models.trained import NetworkModel
from flame.prepare import PrepareSettings, TilePreparer
from flame.training.batches import TileSequence

__all__ = ["fit_normalisation", "training_statistics"]

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
    for number in _spread(len(source), tiles):
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


@torch.no_grad()
def fit_normalisation(model: NetworkModel, source: TileSequence, tiles: int = 100) -> None:
    """Gives a network the training set's mean and spread of each field that it wants standardised.

    Args:
        model: The network; one of a user's own that normalises by itself is left alone.
        source: The training tiles.
        tiles: At most so many are looked at.
    """
    layers = model.network.to_fit() if isinstance(model.network, Segmenter) else {}
    if not layers:
        return
    preparer = BatchPreparer(model.settings, source.bands)
    count, sums = 0, {name: torch.zeros(2, layer.mean.numel()).double() for name, layer in layers.items()}
    for number in _spread(len(source), tiles):
        tile = source[number]
        batch = preparer.prepare([RawTile(np.ascontiguousarray(tile.radiance), tile.valid, tile.rgb)])
        fields = model.settings.taken(batch.inputs)
        count += int(batch.usable.sum())
        for name, total in sums.items():
            seen = fields[name][0][:, batch.usable[0]].double()
            total += torch.stack([seen.sum(1), seen.square().sum(1)])
    for name, (total, squares) in sums.items():
        mean = total / max(count, 1)
        variance = (squares / max(count, 1) - mean.square()).clamp_min(0.0)
        layers[name].fit(mean.float(), variance.sqrt().float())


def _spread(tiles: int, most: int) -> list[int]:
    """Numbers of evenly spread tiles."""
    numbers: list[int] = np.unique(np.linspace(0, tiles - 1, min(most, tiles)).astype(int)).tolist()
    return numbers
