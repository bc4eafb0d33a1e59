"""STARCOP tiles: one folder per tile, one single-band GeoTIFF per band, CSV files for the splits. Read and written.

Růžička et al. (2023), "Semantic segmentation of methane plumes with hyperspectral machine learning models",
Scientific Reports 13, 19999. The simulator writes the same layout with the truth beside it.
"""

from flame.io.index import TileRecord, find_index, read_index, write_index
from flame.io.starcop.reader import LOOKS_LIKE, is_tile, open_tile, read_dataset, read_tile, read_tile_scene
from flame.io.starcop.writer import write_tile

__all__ = [
    "LOOKS_LIKE",
    "TileRecord",
    "find_index",
    "is_tile",
    "open_tile",
    "read_dataset",
    "read_index",
    "read_tile",
    "read_tile_scene",
    "write_index",
    "write_tile",
]
