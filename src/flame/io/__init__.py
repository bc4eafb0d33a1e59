"""Files to scenes: one reader per format, a registry picks. `open_scene(path)` is the door."""

from flame.io import oxhyper, starcop
from flame.io.damage import looks_like_product
from flame.io.dataset import Dataset, TileFailure
from flame.io.envi import open_envi, read_envi
from flame.io.errors import ReaderError, UnknownFormatError
from flame.io.index import TileRecord
from flame.io.npz_chip import read_chip
from flame.io.options import OpenOptions
from flame.io.registry import READERS, Reader, find_reader, open_scene, read_scene
from flame.io.xarray_view import to_xarray

__all__ = [
    "READERS",
    "Dataset",
    "OpenOptions",
    "Reader",
    "ReaderError",
    "TileFailure",
    "TileRecord",
    "UnknownFormatError",
    "find_reader",
    "looks_like_product",
    "open_envi",
    "open_scene",
    "oxhyper",
    "read_chip",
    "read_envi",
    "read_scene",
    "starcop",
    "to_xarray",
]
