"""Where the tiles of a cache come from: a data set on disk, or a function that makes them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from flame.io import Dataset
from flame.scene import Scene
from flame.tile import LabelledTile

__all__ = ["DatasetSource", "MadeTiles", "Teacher", "TileSource", "describe", "mag1c_sas_teacher"]

Teacher = Callable[[Scene], Float32[np.ndarray, "row col"]]
"""Computes the map that the score head is taught with, in ppm m; must be importable."""


@runtime_checkable
class TileSource(Protocol):
    """A numbered list of tiles, each made when asked for, in any order and in any process."""

    def __len__(self) -> int:
        """How many tiles there are."""
        ...

    def tile(self, index: int) -> LabelledTile:
        """Makes one tile."""
        ...

    def label(self, index: int) -> str:
        """What to call a tile that could not be made."""
        ...

    def fingerprint(self) -> str:
        """Tells this list from any other; the same on every run."""
        ...


@dataclass(frozen=True)
class DatasetSource:
    """The tiles of a data set on disk, such as `flame.io.starcop.read_dataset` opens."""

    dataset: Dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def tile(self, index: int) -> LabelledTile:
        """Reads one tile."""
        return self.dataset.read(self.dataset.records[index])

    def label(self, index: int) -> str:
        """The tile's name."""
        return self.dataset.records[index].name

    def fingerprint(self) -> str:
        """The tiles' names and the way they are read; not where they lie, so a data set may be moved."""
        names = "\n".join(record.name for record in self.dataset.records)
        digest = hashlib.blake2b(names.encode(), digest_size=8).hexdigest()
        return f"data set {digest} by {describe(self.dataset.read_folder)}"


@dataclass(frozen=True)
class MadeTiles:
    """Tiles made by a function of their number, such as the simulator with a generator for each.

    Attributes:
        count: How many tiles there are.
        make: Makes tile number 0 to `count - 1`, the same each time it is asked; must be importable.
        key: Says what is made (seed and settings): a build only goes on under the same key.
    """

    count: int
    make: Callable[[int], LabelledTile]
    key: str

    def __len__(self) -> int:
        return self.count

    def tile(self, index: int) -> LabelledTile:
        """Makes one tile."""
        return self.make(index)

    def label(self, index: int) -> str:
        """The tile's number."""
        return f"tile {index}"

    def fingerprint(self) -> str:
        """The key and the count."""
        return f"{self.count} tiles of {self.key}"


def describe(function: Callable[..., object] | None) -> str:
    """A function's name with the arguments bound to it, the same on every run."""
    if isinstance(function, partial):
        bound = ", ".join(f"{name}={value!r}" for name, value in sorted(function.keywords.items()))
        return f"{describe(function.func)}({bound})"
    return "none" if function is None else str(getattr(function, "__qualname__", type(function).__qualname__))


def mag1c_sas_teacher(scene: Scene) -> Float32[np.ndarray, "row col"]:
    """The paper's teacher map: MAG1C-SAS in ppm m, 0 where invalid."""
    from flame.filters import mag1c_sas

    return mag1c_sas.score(scene.radiance, scene.bands, scene.valid)
