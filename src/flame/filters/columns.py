"""A filter on a whole scene: columns with their own wavelengths are filtered with their own absorption."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float32

from flame.filters.background import PIXELS_PER_BAND
from flame.filters.errors import FilterError
from flame.filters.registry import Filter
from flame.physics import SMILE_MATTERS_NM
from flame.scene import AnyScene

__all__ = ["filter_scene"]

_LEAST_COLUMNS = 16
_MAX_BYTES = 1_500_000_000


def filter_scene(
    method: Filter, scene: AnyScene, settings: Any = None, *, smile_nm: float | None = SMILE_MATTERS_NM
) -> Float32[np.ndarray, "row col"]:
    """Scores of a scene in memory or in its file.

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
    out = np.zeros(scene.shape, dtype=np.float32)
    seen = False
    for first in range(0, rows, lines):
        part = scene.rows(first, min(first + lines, rows))
        if not part.valid.any():
            continue
        seen = True
        target = out[first : first + lines]
        if scene.smile is None or smile_nm is None or scene.smile.spread_nm <= smile_nm:
            target[:] = method.score(np.ascontiguousarray(part.radiance), scene.bands, part.valid, settings)
            continue
        # Enough pixels for a covariance, even where a third of them are masked.
        least = max(_LEAST_COLUMNS, -(-3 * PIXELS_PER_BAND * len(scene.bands) // (2 * lines)))
        for across, bands in scene.smile.groups(smile_nm, least):
            valid = np.ascontiguousarray(part.valid[:, across])
            if valid.any():
                radiance = np.ascontiguousarray(part.radiance[:, :, across])
                target[:, across] = method.score(radiance, bands, valid, settings)
    if not seen:
        raise FilterError(f"{scene.acquisition.source or 'the scene'}: no valid pixel; there is nothing to filter")
    return out
