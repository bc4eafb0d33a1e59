"""The U-Net of `flame.models.backbones.unet` on the compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flame.kernels import Image, pack
from flame.onboard.native.operator import LEAKY, Crew, pack_up

__all__ = ["Pyramid", "levels_of"]


def levels_of(arrays: Mapping[str, np.ndarray]) -> int:
    """Levels below full resolution; 0 if the weights are of another backbone."""
    return sum(f"backbone.down.{level}.0.weight" in arrays for level in range(len(arrays)))


class Pyramid:
    """The backbone of a network for tiles of one size.

    Args:
        crew: Kernels and threads.
        arrays: Folded weights by name; those of the backbone are taken.
        rows: Rows of the tile.
        cols: Columns; both multiples of two to the power of the levels.

    Attributes:
        lifted: The field to put in before `run`, which leaves the features in its place.
    """

    def __init__(self, crew: Crew, arrays: Mapping[str, np.ndarray], rows: int, cols: int) -> None:
        self._crew = crew
        self._levels = levels_of(arrays)
        width = len(arrays["backbone.beside.weight"])
        self.lifted = Image(width, rows, cols)
        self._beside = pack(arrays["backbone.beside.weight"].reshape(width, -1))
        self._down, self._up = [], []
        self._fields: list[tuple[Image, Image]] = []
        for level in range(self._levels):
            step = 2 ** (level + 1)
            both = [
                (arrays[f"backbone.down.{level}.{k}.weight"], arrays[f"backbone.down.{level}.{k}.bias"]) for k in (0, 3)
            ]
            own = len(both[0][0])
            # A level's second image serves twice: between its convolutions, and for what comes up from below.
            self._fields.append((Image(own, rows // step, cols // step), Image(own, rows // step, cols // step)))
            self._down.append([(pack(weight.reshape(own, -1)), bias) for weight, bias in both])
            name = f"backbone.up.{self._levels - 1 - level}"
            self._up.append((pack_up(arrays[f"{name}.weight"]), arrays[f"{name}.bias"]))

    def run(self) -> Image:
        """Features of the lifted field."""
        crew, above = self._crew, self.lifted
        for (first, second), (here, between) in zip(self._down, self._fields, strict=True):
            crew.down(above, 3, *first, LEAKY, between)
            crew.convolve([(between, 3)], *second, LEAKY, here)
            above = here
        sources = [self._fields[-1][0]]
        for level in range(self._levels - 1, 0, -1):
            here, risen = self._fields[level - 1]
            crew.up(sources, 4, *self._up[level], LEAKY, risen)
            sources = [risen, here]
        crew.up_onto(sources, *self._up[0], self._beside, self.lifted)
        return self.lifted
