"""From STARCOP-layout folders to the tiles of a run: caches built beside the data, validation held out by scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flame.io import starcop
from flame.io.raster import open_raster
from flame.io.starcop.layout import LABEL
from flame.physics import BandMismatchError, BandSet
from flame.training.batches import TileSequence
from flame.training.cache import CachedTile, DatasetSource, TileCache, build_cache
from flame.training.splits import validation_mask

__all__ = ["ChosenTiles", "JoinedTiles", "open_split", "training_and_validation"]

CACHE_FOLDER = ".flame"
BAND_TOLERANCE_NM = 1.0


@dataclass(frozen=True, eq=False)
class ChosenTiles:
    """Some of the tiles of a sequence."""

    source: TileCache
    numbers: tuple[int, ...]

    @property
    def bands(self) -> BandSet:
        """Bands of every tile."""
        return self.source.bands

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> CachedTile:
        return self.source[self.numbers[index]]


@dataclass(frozen=True, eq=False)
class JoinedTiles:
    """The tiles of several sequences, one after the other; all must have the same bands."""

    parts: tuple[TileSequence, ...]

    def __post_init__(self) -> None:
        for part in self.parts[1:]:
            if not part.bands.matches(self.bands, BAND_TOLERANCE_NM):
                raise BandMismatchError(self.bands, part.bands, "one of the data sets")

    @property
    def bands(self) -> BandSet:
        """Bands of every tile."""
        return self.parts[0].bands

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getitem__(self, index: int) -> CachedTile:
        for part in self.parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)


def open_split(
    root: Path, split: str, workers: int = 1, progress: Callable[[int, int], None] | None = None
) -> TileCache:
    """The cache of a split, built at `<root>/.flame/<split>.cache` if it is not there.

    Args:
        root: Folder with `<split>.csv` and the tile folders.
        split: `train` or `test`.
        workers: Processes to build with.
        progress: Called with the number of tiles done and of all while building.
    """
    path = root / CACHE_FOLDER / f"{split}.cache"
    dataset = starcop.read_dataset(root, split, pad_to=_largest_side(root, split))
    build_cache(path, DatasetSource(dataset), workers=workers, progress=progress)
    return TileCache(path)


def _largest_side(root: Path, split: str) -> int | None:
    """The side that smaller tiles are padded to; None if all tiles are alike."""
    dataset = starcop.read_dataset(root, split)
    sizes = set()
    for record in dataset.records:
        label = dataset.folder(record) / LABEL
        if label.is_file():
            with open_raster(label) as source:
                sizes.add((source.height, source.width))
    return None if len(sizes) < 2 else max(max(size) for size in sizes)


def training_and_validation(
    roots: Sequence[Path],
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
    hold_out: bool = True,
) -> tuple[JoinedTiles, JoinedTiles]:
    """Tiles to train on and tiles to validate with, of all folders; both from their training splits.

    Without `hold_out` the tiles to validate with are trained on too: their figures then only tell how a run goes.
    """
    training, validation = [], []
    for root in roots:
        cache = open_split(root, "train", workers, progress)
        held = validation_mask(cache.names)
        training.append(ChosenTiles(cache, tuple(np.flatnonzero(~held | (not hold_out)).tolist())))
        validation.append(ChosenTiles(cache, tuple(np.flatnonzero(held).tolist())))
    return JoinedTiles(tuple(training)), JoinedTiles(tuple(validation))
