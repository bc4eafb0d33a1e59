"""How bright a pixel is in its tile."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32

from flame.prepare.fields.view import Field, TileView

__all__ = ["BRIGHTNESS"]


def brightness(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """Mean log-radiance relative to the tile's median."""
    return tile.layers.brightness


BRIGHTNESS = Field("brightness", brightness, 1)
