"""Scene, BandSet, GeoGrid: what a reader returns and every later room takes.

A scene comes in two shapes with one face. `Scene` holds its radiance in memory. `SceneFile` is a window on a file: it
knows bands, size, place and time, and reads lines when asked. Whoever goes by lines calls `rows(first, stop)` on either
and gets `SceneRows`: radiance, colour, flags and validity of those lines. `AnyScene` stands for both.

Why a pixel may not be used is told by its flags (`SceneFlag`, one bit a cause); `MaskRule` says which causes count, and
`valid` is what is left. Smile is carried as `ColumnBands`, the bands of each column.
"""

from flame.physics import BandError, BandMismatchError, BandSet, ColumnBands
from flame.scene.carrier import RGB_WAVELENGTHS_NM, Acquisition, Scene, SceneError, SceneRows
from flame.scene.flags import DEFAULT_MASK, MaskRule, SceneFlag, flag_counts, flag_names
from flame.scene.geo import GeoGrid, LookupTable
from flame.scene.lazy import AnyScene, SceneFile

__all__ = [
    "DEFAULT_MASK",
    "RGB_WAVELENGTHS_NM",
    "Acquisition",
    "AnyScene",
    "BandError",
    "BandMismatchError",
    "BandSet",
    "ColumnBands",
    "GeoGrid",
    "LookupTable",
    "MaskRule",
    "Scene",
    "SceneError",
    "SceneFile",
    "SceneFlag",
    "SceneRows",
    "flag_counts",
    "flag_names",
]
