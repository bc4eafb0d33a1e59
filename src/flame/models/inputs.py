"""Prepared tiles as the tensors that a network takes, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from flame.models.settings import ModelSettingsError
from flame.physics import BandSet
from flame.prepare import SPECTRA, PrepareSettings, TilePreparer
from flame.scene import Scene

__all__ = ["BatchPreparer", "PreparedBatch", "RawTile", "TileNeeds"]


@runtime_checkable
class TileNeeds(Protocol):
    """What a network needs tiles to be prepared like; `FlameSettings` is one."""

    @property
    def bands(self) -> int:
        """SWIR bands."""
        ...

    @property
    def prepare(self) -> PrepareSettings:
        """How tiles are prepared."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """What is prepared, names in `flame.prepare.INPUTS`."""
        ...

    @property
    def spectra(self) -> str:
        """Which of `inputs` are spectra."""
        ...


@dataclass(frozen=True, eq=False)
class RawTile:
    """A tile before preparation.

    Attributes:
        radiance: Radiance in µW cm-2 nm-1 sr-1; what stands under an invalid pixel is never read.
        valid: Pixels that may be used.
        rgb: Radiance near 640, 550 and 460 nm; may be None if the model does not use it.
    """

    radiance: Float32[np.ndarray, "band row col"]
    valid: Bool[np.ndarray, "row col"]
    rgb: Float32[np.ndarray, "3 row col"] | None = None

    @classmethod
    def of(cls, scene: Scene) -> RawTile:
        """The layers of a scene."""
        return cls(scene.radiance, scene.valid, scene.rgb)


@dataclass(frozen=True, eq=False)
class PreparedBatch:
    """Prepared tiles of one size.

    Attributes:
        inputs: What the network takes, tiles along the first axis; names of `flame.prepare.INPUTS`.
        usable: Pixels that take part.
    """

    inputs: dict[str, Float[Tensor, "batch ..."]]
    usable: Bool[Tensor, "batch row col"]

    def to(self, target: torch.device | torch.dtype) -> PreparedBatch:
        """The batch on a device, or its inputs in another precision."""
        moved = {name: tensor.to(target, non_blocking=True) for name, tensor in self.inputs.items()}
        usable = self.usable.to(target, non_blocking=True) if isinstance(target, torch.device) else self.usable
        return PreparedBatch(moved, usable)


class BatchPreparer:
    """Prepares tiles for a network; not to be shared between threads.

    Args:
        settings: The network's.
        bands: Bands of the tiles.
        threads: Threads of the preparation.
    """

    def __init__(self, settings: TileNeeds, bands: BandSet, threads: int = 1) -> None:
        if len(bands) != settings.bands:
            raise ModelSettingsError(f"the model has {settings.bands} bands, the tiles have {bands.describe()}")
        self._settings, self._bands, self._threads = settings, bands, threads
        self._preparers: dict[tuple[int, int], TilePreparer] = {}

    def _preparer(self, shape: tuple[int, int]) -> TilePreparer:
        if shape not in self._preparers:
            kind = self._settings
            self._preparers[shape] = TilePreparer(kind.prepare, kind.inputs, self._bands, shape, threads=self._threads)
        return self._preparers[shape]

    def prepare(self, tiles: Sequence[RawTile]) -> PreparedBatch:
        """The tiles, all of one size, as one batch.

        Raises:
            ModelSettingsError: If the model takes RGB and a tile has none.
        """
        if "rgb" in self._settings.inputs and any(tile.rgb is None for tile in tiles):
            raise ModelSettingsError("this model takes RGB, but the scene has none")
        rows, cols = tiles[0].valid.shape
        preparer = self._preparer((rows, cols))
        spectra = np.empty((len(tiles), len(self._bands), rows, cols), dtype=np.float32)
        layers: dict[str, list[np.ndarray]] = {name: [] for name in preparer.inputs if name not in SPECTRA}
        usable = np.empty((len(tiles), rows, cols), dtype=np.bool_)
        for number, tile in enumerate(tiles):
            made = preparer.prepare(
                *(tile.radiance, tile.valid, tile.rgb), spectra=spectra[number : number + 1], always=True
            )
            assert made.inputs is not None
            usable[number] = made.usable
            for name, arrays in layers.items():
                arrays.append(made.inputs[name].copy())
        inputs = {name: torch.from_numpy(np.concatenate(arrays)) for name, arrays in layers.items()}
        return PreparedBatch({self._settings.spectra: torch.from_numpy(spectra)} | inputs, torch.from_numpy(usable))
