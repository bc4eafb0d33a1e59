"""From STARCOP-layout folders to the tiles of a run: caches built beside the data, validation held out by scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from flame.io import starcop
from flame.io.raster import open_raster
from flame.io.starcop.layout import LABEL
from flame.physics import BandMismatchError, BandSet
from flame.training.batches import TileSequence
from flame.training.cache import CachedTile, DatasetSource, TileCache, build_cache
from flame.training.splits import on_other_ground, validation_mask

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
    validation: Sequence[Path] = (),
) -> tuple[JoinedTiles, JoinedTiles]:
    """Tiles to train on and tiles to validate with; no scene is on both sides, if held out.

    Args:
        roots: Folders whose training splits are used.
        workers: Processes to build caches with.
        progress: Called with the number of tiles done and of all while building.
        hold_out: Whether the tiles to validate with are kept out of training. If not, their figures only tell how a
            run goes.
        validation: Folders whose training splits validate; training then leaves out their scenes. A share of the
            scenes of `roots` unless given.
    """
    caches = [open_split(root, "train", workers, progress) for root in roots]
    names = [name for cache in caches for name in cache.names]
    if validation:
        others = [open_split(root, "train", workers, progress) for root in validation]
        held_names = [name for cache in others for name in cache.names]
        kept = on_other_ground(names, held_names) if hold_out else np.ones(len(names), np.bool_)
        return _chosen(caches, kept), JoinedTiles(tuple(others))
    # Of all folders together: a scene may have tiles in several of them.
    held = validation_mask(names)
    return _chosen(caches, ~held | (not hold_out)), _chosen(caches, held)


def _chosen(caches: Sequence[TileCache], wanted: Bool[np.ndarray, " tile"]) -> JoinedTiles:
    """The wanted tiles of some caches, counted through all of them."""
    parts, start = [], 0
    for cache in caches:
        numbers = np.flatnonzero(wanted[start : start + len(cache)])
        start += len(cache)
        if numbers.size:
            parts.append(ChosenTiles(cache, tuple(numbers.tolist())))
    return JoinedTiles(tuple(parts))
