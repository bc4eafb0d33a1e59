"""The one transform of training: quarter turns and flips that move every layer of a tile at once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from flame.training.cache import CachedTile

__all__ = ["Placement", "draw_placement"]


@dataclass(frozen=True)
class Placement:
    """Where a training sample is cut from its tile and how it is turned.

    Attributes:
        row: First row of the crop.
        col: First column of the crop.
        rows: Rows of the crop.
        cols: Columns of the crop.
        quarter_turns: Counter-clockwise turns by 90 degrees, 0 to 3.
        flip: Whether columns are mirrored after turning.
    """

    row: int
    col: int
    rows: int
    cols: int
    quarter_turns: int = 0
    flip: bool = False

    @classmethod
    def whole(cls, tile: CachedTile) -> Placement:
        """The tile as it is."""
        return cls(0, 0, *tile.valid.shape)

    def apply(self, tile: CachedTile) -> CachedTile:
        """The tile with every layer cut and turned alike, as views. A layer added to `CachedTile` moves by itself."""
        layers = {entry.name: getattr(tile, entry.name) for entry in fields(tile)}
        moved: dict[str, Any] = {name: self._move(v) for name, v in layers.items() if isinstance(v, np.ndarray)}
        return replace(tile, **moved)

    def _move(self, layer: np.ndarray) -> np.ndarray:
        cut: Any = layer[..., self.row : self.row + self.rows, self.col : self.col + self.cols]
        turned = np.rot90(cut, self.quarter_turns, axes=(-2, -1))
        return np.asarray(turned[..., ::-1] if self.flip else turned)


def draw_placement(
    tile: CachedTile, crop: int | None, augment: bool, plume_share: float, rng: np.random.Generator
) -> Placement:
    """A random crop and one of the eight flips and turns.

    Args:
        tile: The tile to cut from.
        crop: Side of the square crop; None, or not smaller than the tile: the whole tile.
        augment: Whether to flip and turn.
        plume_share: Share of crops drawn around a plume pixel, where there is one.
        rng: Source of randomness.
    """
    height, width = tile.valid.shape
    rows, cols = min(crop or height, height), min(crop or width, width)
    row, col = int(rng.integers(height - rows + 1)), int(rng.integers(width - cols + 1))
    if (rows, cols) != (height, width) and rng.random() < plume_share and tile.label.any():
        marked = np.argwhere(tile.label)
        centre = marked[rng.integers(len(marked))] - (int(rng.integers(rows)), int(rng.integers(cols)))
        row, col = (int(v) for v in np.clip(centre, 0, (height - rows, width - cols)))
    turns, flip = int(rng.integers(4)), bool(rng.integers(2))
    return Placement(row, col, rows, cols, turns, flip) if augment else Placement(row, col, rows, cols)
