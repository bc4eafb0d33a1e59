"""Pixel fields: what tells a network how a pixel stands in its own tile, in units that do not depend on the scene.

A new field is one file with a function in NumPy and a `Field`, and one line below. A kernel in C is optional.
"""

from flame.prepare.fields.anomaly import ANOMALY, COHERENCE
from flame.prepare.fields.brightness import BRIGHTNESS
from flame.prepare.fields.clutter import CLUTTER
from flame.prepare.fields.filter_map import MAG1C, MAG1C_SAS
from flame.prepare.fields.noise import NOISE
from flame.prepare.fields.response import ENHANCEMENT, MATCHED_FILTER
from flame.prepare.fields.view import LAYERS, Field, FieldSettings, PixelLayers, TileView

__all__ = ["FIELDS", "LAYERS", "Field", "FieldSettings", "PixelLayers", "TileView"]

FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        MATCHED_FILTER,
        BRIGHTNESS,
        ANOMALY,
        COHERENCE,
        NOISE,
        ENHANCEMENT,
        CLUTTER,
        MAG1C,
        MAG1C_SAS,
    )
}
"""All fields by name."""
