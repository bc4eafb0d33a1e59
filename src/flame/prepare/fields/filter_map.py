"""MAG1C and MAG1C-SAS of the tile: what two-stage networks look at (HyperSTARCOP, Růžička et al. 2023)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32

from flame.prepare.fields.view import Field, TileView

__all__ = ["MAG1C", "MAG1C_SAS"]


def _map_of(tile: TileView, name: str) -> Float32[np.ndarray, "row col"]:
    """A filter's enhancement in units of `faint_ppm_m`; 0 everywhere in a tile that is too empty for the filter."""
    from flame.filters import FilterError, filter_named  # a flight without such a network does not load the filters

    try:
        found = filter_named(name).score(tile.radiance, tile.bands, tile.usable)
    except FilterError:
        return np.zeros(tile.usable.shape, dtype=np.float32)
    return np.asarray(found / np.float32(tile.settings.faint_ppm_m))


def mag1c(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """MAG1C over the whole tile (MAG1C-tile of the paper)."""
    return _map_of(tile, "mag1c")


def mag1c_sas(tile: TileView) -> Float32[np.ndarray, "row col"]:
    """MAG1C-SAS, the faster form by Herec et al. (2025)."""
    return _map_of(tile, "mag1c-sas")


MAG1C = Field("mag1c", mag1c)
MAG1C_SAS = Field("mag1c_sas", mag1c_sas)
