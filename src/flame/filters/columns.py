"""A filter on a whole scene: columns with their own wavelengths are filtered with their own absorption."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float32

from flame.filters.background import PIXELS_PER_BAND
from flame.filters.errors import FilterError
from flame.filters.registry import Filter
from flame.physics import SMILE_MATTERS_NM, BandSet
from flame.scene import AnyScene

__all__ = ["filter_layers", "filter_scene"]

_LEAST_COLUMNS = 16
_MAX_BYTES = 1_500_000_000


def filter_scene(
    method: Filter, scene: AnyScene, settings: Any = None, *, smile_nm: float | None = SMILE_MATTERS_NM
) -> Float32[np.ndarray, "row col"]:
    """Scores of a scene in memory or in its file; arguments as in `filter_layers`."""
    alone = replace(method, layers=None)
    return filter_layers(alone, scene, settings, smile_nm=smile_nm)["score"]


def filter_layers(
    method: Filter, scene: AnyScene, settings: Any = None, *, smile_nm: float | None = SMILE_MATTERS_NM
) -> dict[str, Float32[np.ndarray, "row col"]]:
    """All that a filter says of a scene in memory or in its file, by name, its score first.

    Where the scene tells of smile (bands that differ from column to column), neighbouring columns whose wavelengths
    agree are filtered together, with the absorption of their own bands and their own background: a filter itself needs
    to know nothing of it. Scenes of more than 1.5 GB are filtered in blocks of lines, each with its own background.

    Args:
        method: The filter.
        scene: Radiance in the methane window.
        settings: Settings of the filter; its defaults if None.
        smile_nm: Largest difference of wavelengths within a group of columns; None to ignore smile.

    Raises:
        FilterError: If nothing can be filtered.
    """
    scene = scene.methane()
    rows, cols = scene.shape
    blocks = -(-4 * len(scene.bands) * rows * cols // _MAX_BYTES)
    lines = -(-rows // blocks)
    out: dict[str, Float32[np.ndarray, "row col"]] = {}

    def fill(where: tuple[slice, slice], radiance: np.ndarray, bands: BandSet, valid: np.ndarray) -> None:
        image = np.ascontiguousarray(radiance), bands, np.ascontiguousarray(valid), settings
        for name, layer in (method.layers(*image) if method.layers else {"score": method.score(*image)}).items():
            out.setdefault(name, np.zeros(scene.shape, dtype=np.float32))[where] = layer

    seen = False
    for first in range(0, rows, lines):
        part = scene.rows(first, min(first + lines, rows))
        if not part.valid.any():
            continue
        seen = True
        down = slice(first, first + lines)
        if scene.smile is None or smile_nm is None or scene.smile.spread_nm <= smile_nm:
            fill((down, slice(None)), part.radiance, scene.bands, part.valid)
            continue
        # Enough pixels for a covariance, even where a third of them are masked.
        least = max(_LEAST_COLUMNS, -(-3 * PIXELS_PER_BAND * len(scene.bands) // (2 * lines)))
        for across, bands in scene.smile.groups(smile_nm, least):
            if part.valid[:, across].any():
                fill((down, across), part.radiance[:, :, across], bands, part.valid[:, across])
    if not seen:
        raise FilterError(f"{scene.acquisition.source or 'the scene'}: no valid pixel; there is nothing to filter")
    return out
