"""Tiles as training reads them: one memory-mapped file a split, built once, resumable. NumPy only, no torch."""

from flame.training.cache.build import BuildReport, build_cache
from flame.training.cache.format import CacheError
from flame.training.cache.reader import Batch, CachedTile, TileCache
from flame.training.cache.sources import DatasetSource, MadeTiles, TileSource, mag1c_sas_teacher

__all__ = [
    "Batch",
    "BuildReport",
    "CacheError",
    "CachedTile",
    "DatasetSource",
    "MadeTiles",
    "TileCache",
    "TileSource",
    "build_cache",
    "mag1c_sas_teacher",
]
