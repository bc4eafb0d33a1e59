"""Which tiles make up each batch, and the batch as named tensors: all from seed, epoch and tile number.

A tile is cut and turned first and prepared afterwards, as a flight sees it: its background is that of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from flame.models import BatchPreparer, RawTile
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
    """Some tiles, prepared, and what is to be learned from them.

    Attributes:
        inputs: What the network takes.
        label: True where plume.
        usable: Pixels that take part: the others teach nothing.
        teacher_ppm_m: The teacher's map; None if a tile has none.
        enhancement_ppm_m: The true enhancement; None if a tile has none.
    """

    inputs: dict[str, Float[Tensor, "batch ..."]]
    label: Bool[Tensor, "batch row col"]
    usable: Bool[Tensor, "batch row col"]
    teacher_ppm_m: Float[Tensor, "batch row col"] | None
    enhancement_ppm_m: Float[Tensor, "batch row col"] | None

    def to(self, device: torch.device) -> TrainingBatch:
        """The batch on a device."""

        def moved(layer: Tensor | None) -> Any:
            return None if layer is None else layer.to(device, non_blocking=True)

        inputs = {name: moved(tensor) for name, tensor in self.inputs.items()}
        layers = {entry.name: moved(getattr(self, entry.name)) for entry in fields(self) if entry.name != "inputs"}
        return TrainingBatch(inputs, **layers)


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


def stack(tiles: Sequence[CachedTile], preparer: BatchPreparer) -> TrainingBatch:
    """Tiles as one batch, prepared."""

    def layer(name: str) -> Tensor | None:
        arrays = [getattr(tile, name) for tile in tiles]
        if any(array is None for array in arrays):
            return None
        return torch.from_numpy(np.stack(arrays))

    # Turned tiles are views whose columns lie far apart; in one piece they are read faster than they are copied.
    raw = [RawTile(np.ascontiguousarray(tile.radiance), tile.valid, tile.rgb) for tile in tiles]
    prepared = preparer.prepare(raw)
    label = layer("label")
    assert label is not None
    return TrainingBatch(prepared.inputs, label, prepared.usable, layer("teacher_ppm_m"), layer("enhancement_ppm_m"))


def epoch_batches(tiles: int, size: int, seed: int, epoch: int) -> list[list[int]]:
    """Tile numbers of each batch of an epoch; the few that do not fill a last batch wait for another epoch."""
    order = np.random.default_rng((seed, 1, epoch)).permutation(tiles).tolist()
    size = min(size, tiles)
    return [order[start : start + size] for start in range(0, tiles - size + 1, size)]


def read_batch(
    source: TileSequence,
    numbers: Sequence[int],
    settings: BatchSettings,
    seed: int,
    epoch: int,
    preparer: BatchPreparer,
) -> TrainingBatch:
    """The tiles of those numbers, cut and turned as seed, epoch and number say, and prepared."""
    tiles = []
    for number in numbers:
        tile = source[number]
        rng = np.random.default_rng((seed, 2, epoch, number))
        placement: Placement = draw_placement(tile, settings.crop, settings.augment, settings.plume_share, rng)
        tiles.append(placement.apply(tile))
    return stack(tiles, preparer)


def prefetched(
    source: TileSequence,
    batches: Sequence[Sequence[int]],
    settings: BatchSettings,
    seed: int,
    epoch: int,
    preparer: BatchPreparer,
) -> Iterator[TrainingBatch]:
    """The batches in order, each read and prepared while the one before is in use."""
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(read_batch, source, batches[0], settings, seed, epoch, preparer)] if batches else []
        for following in [*batches[1:], None]:
            if not coming:
                return
            current = coming.pop().result()
            if following is not None:
                coming.append(reader.submit(read_batch, source, following, settings, seed, epoch, preparer))
            yield current
