"""Which tiles make up each batch, and the batch as named tensors: all from seed, epoch and tile number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from flame.physics import BandSet
from flame.training.augment import Placement, draw_placement
from flame.training.cache import CachedTile

__all__ = ["BatchSettings", "TileSequence", "TrainingBatch", "epoch_batches", "read_batch", "stack"]


@runtime_checkable
class TileSequence(Protocol):
    """Tiles by number, such as `TileCache`."""

    @property
    def bands(self) -> BandSet:
        """Bands of every tile."""
        ...

    def __len__(self) -> int:
        """How many tiles there are."""
        ...

    def __getitem__(self, index: int) -> CachedTile:
        """One tile."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """Layers of some tiles; teacher and truth in ppm m, None where the data set has none."""

    radiance: Float[Tensor, "batch band row col"]
    rgb: Float[Tensor, "batch 3 row col"] | None
    label: Bool[Tensor, "batch row col"]
    valid: Bool[Tensor, "batch row col"]
    teacher_ppm_m: Float[Tensor, "batch row col"] | None
    enhancement_ppm_m: Float[Tensor, "batch row col"] | None

    def to(self, device: torch.device) -> TrainingBatch:
        """The batch on a device."""
        moved = {k: None if v is None else v.to(device, non_blocking=True) for k, v in vars(self).items()}
        return TrainingBatch(**moved)  # type: ignore[arg-type]


@dataclass(frozen=True)
class BatchSettings:
    """How batches are drawn.

    Attributes:
        size: Tiles in a batch, over all processes together.
        crop: Side of the square cut from each tile; None for whole tiles.
        augment: Whether tiles are flipped and turned.
        plume_share: Share of crops drawn around a plume.
    """

    size: int = 24
    crop: int | None = None
    augment: bool = True
    plume_share: float = 0.5


def stack(tiles: Sequence[CachedTile]) -> TrainingBatch:
    """Tiles as one batch, copied."""

    def layer(name: str) -> Tensor | None:
        arrays = [getattr(tile, name) for tile in tiles]
        if any(array is None for array in arrays):
            return None
        return torch.from_numpy(np.stack(arrays))

    layers = {name: layer(name) for name in TrainingBatch.__dataclass_fields__}
    return TrainingBatch(**layers)  # type: ignore[arg-type]


def epoch_batches(tiles: int, size: int, seed: int, epoch: int) -> list[list[int]]:
    """Tile numbers of each batch of an epoch; the few that do not fill a last batch wait for another epoch."""
    order = np.random.default_rng((seed, 1, epoch)).permutation(tiles).tolist()
    size = min(size, tiles)
    return [order[start : start + size] for start in range(0, tiles - size + 1, size)]


def read_batch(
    source: TileSequence, numbers: Sequence[int], settings: BatchSettings, seed: int, epoch: int
) -> TrainingBatch:
    """The tiles of those numbers, cut and turned as seed, epoch and number say."""
    tiles = []
    for number in numbers:
        tile = source[number]
        rng = np.random.default_rng((seed, 2, epoch, number))
        placement: Placement = draw_placement(tile, settings.crop, settings.augment, settings.plume_share, rng)
        tiles.append(placement.apply(tile))
    return stack(tiles)


def prefetched(
    source: TileSequence, batches: Sequence[Sequence[int]], settings: BatchSettings, seed: int, epoch: int
) -> Iterator[TrainingBatch]:
    """The batches in order, each read while the one before is in use."""
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(read_batch, source, batches[0], settings, seed, epoch)] if batches else []
        for following in [*batches[1:], None]:
            if not coming:
                return
            current = coming.pop().result()
            if following is not None:
                coming.append(reader.submit(read_batch, source, following, settings, seed, epoch))
            yield current
