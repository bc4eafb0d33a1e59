"""From a tile of radiance to a `PreparedTile`: every field that is computed without a learned weight, once.

Training, export and flight all prepare tiles here. NumPy (`reference`) says what each step is, the compiled kernels
(`compiled`) are its fast equal, and tests hold one against the other on every instruction set.
"""

from flame.prepare.background import inverse_root, tile_background
from flame.prepare.fields import FIELDS, Field, FieldSettings, TileView
from flame.prepare.preparer import TilePreparer
from flame.prepare.quality import UNUSABLE, Quality
from flame.prepare.settings import BackgroundSettings, PixelSettings, PrepareSettings, RgbKind
from flame.prepare.tile import INPUTS, OF_BACKGROUND, SPECTRA, PreparedTile
from flame.records import SettingsError

__all__ = [
    "FIELDS",
    "INPUTS",
    "OF_BACKGROUND",
    "SPECTRA",
    "UNUSABLE",
    "BackgroundSettings",
    "Field",
    "FieldSettings",
    "PixelSettings",
    "PrepareSettings",
    "PreparedTile",
    "Quality",
    "RgbKind",
    "SettingsError",
    "TilePreparer",
    "TileView",
    "inverse_root",
    "tile_background",
]
