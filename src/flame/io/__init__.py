"""Files to scenes: one reader per format; a registry picks."""

from flame.io import oxhyper, starcop
from flame.io.dataset import Dataset, TileFailure
from flame.io.envi import read_envi
from flame.io.errors import ReaderError
from flame.io.index import TileRecord
from flame.io.npz_chip import read_chip
from flame.io.registry import READERS, Reader, read_scene

__all__ = [
    "READERS",
    "Dataset",
    "Reader",
    "ReaderError",
    "TileFailure",
    "TileRecord",
    "oxhyper",
    "read_chip",
    "read_envi",
    "read_scene",
    "starcop",
]
