"""A filter on a whole scene, block by block; columns with their own wavelengths get their own absorption."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters.background import PIXELS_PER_BAND
from flame.filters.errors import FilterError
from flame.filters.lines import FadedMaps, LineBlock, line_blocks
from flame.filters.registry import Filter
from flame.physics import SMILE_MATTERS_NM, BandSet
from flame.scene import AnyScene

__all__ = ["filter_layers", "filter_scene"]

_LEAST_COLUMNS = 16
_BLOCK_BYTES = 128_000_000
_LEAST_LINES, _SHARED_LINES = 96, 32

Layers = dict[str, Float32[np.ndarray, "row col"]]


def filter_scene(
    method: Filter, scene: AnyScene, settings: Any = None, *, smile_nm: float | None = SMILE_MATTERS_NM
) -> Float32[np.ndarray, "row col"]:
    """Scores of a scene in memory or in its file; arguments as in `filter_layers`."""
    alone = replace(method, layers=None)
    return filter_layers(alone, scene, settings, smile_nm=smile_nm)["score"]


def filter_layers(
    method: Filter, scene: AnyScene, settings: Any = None, *, smile_nm: float | None = SMILE_MATTERS_NM
) -> Layers:
    """All that a filter says of a scene in memory or in its file, by name, its score first.

    Where the scene tells of smile (bands that differ from column to column), neighbouring columns whose wavelengths
    agree are filtered together, with the absorption of their own bands and their own background: a filter itself needs
    to know nothing of it. Scenes of more than 128 MB of radiance are filtered in blocks of lines, each with its own
    background, that share 32 lines and fade into one another there: memory does not grow with the lines. A block with
    fewer than five usable pixels a band borrows lines of the nearest one that has more.

    Args:
        method: The filter.
        scene: Radiance in the methane window.
        settings: Settings of the filter; its defaults if None.
        smile_nm: Largest difference of wavelengths within a group of columns; None to ignore smile.

    Raises:
        FilterError: If nothing can be filtered.
    """
    scene = scene.methane()
    work = _SceneFilter(method, scene, settings, smile_nm)
    rows, cols = scene.shape
    blocks = line_blocks(rows, max(_LEAST_LINES, _BLOCK_BYTES // (4 * len(scene.bands) * cols)), _SHARED_LINES)
    enough = PIXELS_PER_BAND * len(scene.bands) if len(blocks) > 1 else 1
    maps = FadedMaps(scene.shape)
    done: list[LineBlock] = []
    poor: list[LineBlock] = []
    for block in blocks:
        part = scene.rows(block.first, block.stop)
        usable = int(np.count_nonzero(part.valid))
        if usable >= enough:
            maps.add(block, work.layers(part.radiance, part.valid))
            done.append(block)
        elif usable:
            poor.append(block)
    for block in poor:
        helper = min(done, key=lambda other: abs(other.first - block.first), default=None)
        maps.add(block, work.with_help(block, helper))
    if not maps.layers:
        raise FilterError(f"{scene.acquisition.source or 'the scene'}: no valid pixel; there is nothing to filter")
    return maps.layers


class _SceneFilter:
    """One filter with its settings, for blocks of lines of one scene."""

    def __init__(self, method: Filter, scene: AnyScene, settings: Any, smile_nm: float | None) -> None:
        self._method, self._scene, self._settings, self._smile_nm = method, scene, settings, smile_nm

    def layers(self, radiance: Float32[np.ndarray, "band row col"], valid: Bool[np.ndarray, "row col"]) -> Layers:
        """What the filter says of some lines."""
        scene, smile_nm = self._scene, self._smile_nm
        if scene.smile is None or smile_nm is None or scene.smile.spread_nm <= smile_nm:
            return self._image(radiance, scene.bands, valid)
        out: Layers = {}
        # Enough pixels for a covariance, even where a third of them are masked.
        least = max(_LEAST_COLUMNS, -(-3 * PIXELS_PER_BAND * len(scene.bands) // (2 * valid.shape[0])))
        for across, bands in scene.smile.groups(smile_nm, least):
            if valid[:, across].any():
                for name, layer in self._image(radiance[:, :, across], bands, valid[:, across]).items():
                    out.setdefault(name, np.zeros(valid.shape, dtype=np.float32))[:, across] = layer
        return out

    def _image(
        self, radiance: Float32[np.ndarray, "band row col"], bands: BandSet, valid: Bool[np.ndarray, "row col"]
    ) -> Layers:
        image = np.ascontiguousarray(radiance), bands, np.ascontiguousarray(valid), self._settings
        return self._method.layers(*image) if self._method.layers else {"score": self._method.score(*image)}

    def with_help(self, block: LineBlock, helper: LineBlock | None) -> Layers:
        """What the filter says of a block after lines of another one, the nearer half of it, were laid under it."""
        part = self._scene.rows(block.first, block.stop)
        kept = np.flatnonzero(part.valid.any(axis=1))
        radiance, valid = part.radiance[:, kept], part.valid[kept]
        if helper is not None:
            middle = (helper.first + helper.stop) // 2
            span = (helper.first, middle) if block.first < helper.first else (middle, helper.stop)
            other = self._scene.rows(*span)
            radiance, valid = np.concatenate([radiance, other.radiance], axis=1), np.concatenate([valid, other.valid])
        out: Layers = {}
        for name, layer in self.layers(radiance, valid).items():
            out[name] = np.zeros(part.valid.shape, dtype=np.float32)
            out[name][kept] = layer[: kept.size]
        return out
