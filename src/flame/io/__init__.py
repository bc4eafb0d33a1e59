"""Files to scenes: one reader a format, a registry picks."""

from flame.io import starcop
from flame.io.errors import ReaderError
from flame.io.registry import READERS, Reader, read_scene

__all__ = ["READERS", "Reader", "ReaderError", "read_scene", "starcop"]
