"""Scenes of any size as overlapping tiles, and tiles back into scenes without seams.

Along each axis tiles start every `tile - overlap` pixels; the last one is moved back so that it ends with the scene.
Neighbours hand over on a ramp of half the overlap, in its middle: the quarter of the overlap next to a tile's edge,
where the model sees least around it, gets no weight. Ramps stand at the same place whatever comes after them, so a
stream of unknown length and a whole scene are cut alike. Weights are multiples of 1/256 and therefore sum to exactly 1
in float32, products of two axes included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int

from flame.errors import FlameError

__all__ = ["RowStitcher", "Span", "TileGrid", "TilingError"]

_WEIGHT_STEPS = 256


class TilingError(FlameError):
    """Tile settings or tiles that do not fit together."""


@dataclass(frozen=True, eq=False)
class Span:
    """One tile's stretch along one axis.

    Attributes:
        start: First pixel of the tile in the scene.
        stop: End of the tile in the scene, exclusive; less than a tile away only if the scene is smaller than a tile.
        weight: Share of this tile in each of its pixels from start to stop.
        settled: Pixels before this one need no later tile.
    """

    start: int
    stop: int
    weight: Float32[np.ndarray, " pixel"]
    settled: int


@dataclass(frozen=True)
class TileGrid:
    """How an axis is cut.

    Attributes:
        tile: Side of a tile, in pixels.
        overlap: Pixels shared by neighbours at least; even, and at most half a tile.
    """

    tile: int = 512
    overlap: int = 64

    def __post_init__(self) -> None:
        if self.tile < 1 or self.overlap < 0 or self.overlap % 2 or 2 * self.overlap > self.tile:
            raise TilingError(
                f"the overlap must be even and at most half a tile, got overlap {self.overlap} for tiles of {self.tile}"
            )

    @classmethod
    def usual(cls, tile: int) -> TileGrid:
        """Tiles of that side with an eighth of it shared."""
        return cls(tile, tile // 16 * 2)

    @property
    def step(self) -> int:
        """Distance between the starts of neighbouring tiles."""
        return self.tile - self.overlap

    def count(self, length: int) -> int:
        """Number of tiles along an axis of that length."""
        return 1 if length <= self.tile else 1 + -(-(length - self.tile) // self.step)

    def spans(self, length: int) -> Iterator[Span]:
        """The tiles along an axis, in order."""
        if length < 1:
            raise TilingError(f"an axis needs at least one pixel, got {length}")
        last = self.count(length) - 1
        for index in range(last + 1):
            yield self.span(index, length if index == last else None)

    def span(self, index: int, length: int | None = None) -> Span:
        """One tile, seen from where only the pixels so far are known.

        Args:
            index: Number of the tile along the axis.
            length: Length of the axis if this is its last tile, None if more tiles follow.
        """
        nominal = index * self.step
        start = nominal if length is None else max(0, min(nominal, length - self.tile))
        stop = start + self.tile if length is None else length
        at = np.arange(start, stop)
        weight = np.ones(stop - start, dtype=np.float32)
        if index > 0:
            weight *= self._rise(at - nominal)
        if length is None:
            weight *= np.float32(1.0) - self._rise(at - (nominal + self.step))
        settled = stop if length is not None else nominal + self.step + self.overlap // 4
        return Span(start, stop, weight, settled)

    def _rise(self, into_overlap: Int[np.ndarray, " pixel"]) -> Float32[np.ndarray, " pixel"]:
        """Weight of the later of two tiles, by the distance into their overlap: 0, a ramp over its middle half, 1."""
        if self.overlap == 0:
            return (into_overlap >= 0).astype(np.float32)
        share = np.clip((into_overlap - self.overlap // 4 + 0.5) / (self.overlap // 2), 0.0, 1.0)
        return (np.floor(share * _WEIGHT_STEPS) / _WEIGHT_STEPS).astype(np.float32)


class RowStitcher:
    """Blends tiles that arrive row of tiles by row of tiles; holds one row of tiles and no more.

    Args:
        layers: Number of maps a tile brings.
        width: Columns of the scene.
        grid: How the scene is cut.
    """

    def __init__(self, layers: int, width: int, grid: TileGrid) -> None:
        self._total = np.zeros((layers, grid.tile, width), dtype=np.float32)
        self._first = 0
        self._alone: Float32[np.ndarray, "layer row col"] | None = None

    def add(self, rows: Span, cols: Span, maps: Float32[np.ndarray, "layer row col"]) -> None:
        """Adds one tile's maps, cut to the span of the scene they cover; they are the stitcher's from then on."""
        if self._is_alone(rows, cols):
            self._alone = maps
            return
        weight = rows.weight[:, None] * cols.weight
        at = rows.start - self._first
        begin = max(-at, 0)  # a last tile that was moved back reaches into rows given out before, with no weight
        self._total[:, at + begin : at + rows.stop - rows.start, cols.start : cols.stop] += (
            weight[begin:] * maps[:, begin:]
        )

    def take(self, until: int) -> Float32[np.ndarray, "layer row col"]:
        """Gives out the rows before `until`; no tile may add to them afterwards."""
        count = until - self._first
        if self._alone is not None:
            done, self._alone, self._first = self._alone[:, :count], None, until
            return done
        done = self._total[:, :count].copy()
        self._total[:, : -count or None] = self._total[:, count:].copy()
        self._total[:, self._total.shape[1] - count :] = 0.0
        self._first = until
        return done

    def _is_alone(self, rows: Span, cols: Span) -> bool:
        """Whether all that is still to come is this one tile: then there is nothing to blend."""
        whole = (
            rows.start == self._first and rows.settled == rows.stop and cols.stop - cols.start == self._total.shape[2]
        )
        return whole and bool((rows.weight == 1).all() and (cols.weight == 1).all())
