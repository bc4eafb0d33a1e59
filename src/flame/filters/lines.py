"""A long scene in blocks of lines that overlap, and maps in which one block fades into the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

__all__ = ["FadedMaps", "LineBlock", "line_blocks"]


@dataclass(frozen=True)
class LineBlock:
    """Some lines of a scene.

    Attributes:
        first: First line.
        stop: The line after the last one.
        above: How many of its first lines the block before has too.
        below: How many of its last lines the block after has too.
    """

    first: int
    stop: int
    above: int = 0
    below: int = 0

    @property
    def lines(self) -> slice:
        """Where the block stands in the scene."""
        return slice(self.first, self.stop)

    def weight(self) -> Float32[np.ndarray, " row"]:
        """How much each line counts: rising over the lines shared above, falling over those shared below."""
        weight = np.ones(self.stop - self.first, dtype=np.float32)
        if self.above:
            weight[: self.above] = (np.arange(self.above) + 0.5) / self.above
        if self.below:
            weight[-self.below :] = 1 - (np.arange(self.below) + 0.5) / self.below
        return weight


def line_blocks(rows: int, most: int, overlap: int) -> list[LineBlock]:
    """Blocks that cover all lines, as even as can be, none longer than `most`; neighbours share `overlap` lines.

    Args:
        rows: Lines of the scene.
        most: Lines of a block at most; more than twice the overlap.
        overlap: Lines that neighbours share.
    """
    if rows <= most:
        return [LineBlock(0, rows)]
    count = -(-(rows - overlap) // (most - overlap))
    edges = [(rows - overlap) * at // count for at in range(count + 1)]
    return [
        LineBlock(
            edges[at], edges[at + 1] + overlap, above=overlap if at else 0, below=overlap if at < count - 1 else 0
        )
        for at in range(count)
    ]


class FadedMaps:
    """Maps of a whole scene, filled block by block in any order.

    Args:
        shape: Rows and columns of the scene.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._written = np.zeros(shape[0], dtype=np.bool_)
        self.layers: dict[str, Float32[np.ndarray, "row col"]] = {}

    def add(self, block: LineBlock, layers: Mapping[str, Float32[np.ndarray, "row col"]]) -> None:
        """Lays the maps of a block over what is there, fading where another block has been."""
        share = np.where(self._written[block.lines], block.weight(), np.float32(1))[:, None]
        for name, layer in layers.items():
            there = self.layers.setdefault(name, np.zeros(self._shape, dtype=np.float32))[block.lines]
            shared = np.flatnonzero(share[:, 0] < 1)
            old, new = there[shared], layer[shared]
            there[:] = layer
            # What is not finite (the sigma of a pixel that cannot be used) is not mixed into what is.
            known = np.isfinite(old) & np.isfinite(new)
            mixed = share[shared] * np.where(known, new, 0) + (1 - share[shared]) * np.where(known, old, 0)
            there[shared] = np.where(known, mixed, np.where(np.isfinite(new), new, old))
        self._written[block.lines] = True
