"""The operator with what stands around it on a coarser grid: from a lifted field to features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flame.kernels import Image
from flame.onboard.native.operator import LINEAR, Crew, Operator, pack_scaled, pack_up

__all__ = ["Trunk"]


class Trunk:
    """The backbone of a network for tiles of one size.

    Args:
        crew: Kernels and threads.
        arrays: Weights by name; those of the backbone are taken.
        width: Feature channels.
        side: Rows and columns of the tile.

    Attributes:
        lifted: The field to put in before `run`.
    """

    def __init__(self, crew: Crew, arrays: Mapping[str, np.ndarray], width: int, side: int) -> None:
        self._crew = crew
        self.lifted, self._z = (Image(width, side, side) for _ in range(2))
        backbone = {name.removeprefix("backbone."): a for name, a in arrays.items() if name.startswith("backbone.")}
        self._coarse = {name: a for name, a in backbone.items() if not name.startswith(("blocks.", "operator."))}
        own = {name.removeprefix("operator."): a for name, a in backbone.items() if name not in self._coarse}
        grid = side // 2 if self._coarse else side
        self._operator = Operator(crew, own, grid, grid)
        self._trunk = Image(width, grid, grid) if self._coarse else self.lifted
        self._nothing = np.zeros(width, dtype=np.float32)

    def run(self) -> tuple[Image, np.ndarray]:
        """Features of the lifted field, and the factors of their channels."""
        if not self._coarse:
            return self._operator.run(self.lifted)
        coarse, crew = self._coarse, self._crew
        ones = np.ones(self.lifted.channels, dtype=np.float32)
        crew.down(self.lifted, 2, pack_scaled(coarse["down.weight"], ones), coarse["down.bias"], LINEAR, self._trunk)
        features, gate = self._operator.run(self._trunk)
        up = pack_up(coarse["up.weight"] * gate[:, None, None, None])
        crew.up([features], 2, up, coarse["up.bias"], LINEAR, self._z)
        beside = pack_scaled(coarse["beside.weight"], ones)
        crew.convolve([(self.lifted, 1)], beside, self._nothing, LINEAR, self._z, onto=True)
        return self._z, ones
