"""Reads a cache: tiles and batches whose layers have names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int

from flame.physics import BandSet
from flame.training.cache.format import IMAGE_LAYERS, CacheError, CacheFile, State

__all__ = ["Batch", "CachedTile", "TileCache"]


@dataclass(frozen=True, eq=False)
class CachedTile:
    """One tile; its layers are read-only views of the file.

    Attributes:
        name: The tile's identifier.
        radiance: In `flame.physics.RADIANCE_UNIT`; 0 where invalid.
        label: True where plume.
        valid: True where a pixel may be used.
        rgb: Radiance near 640, 550 and 460 nm.
        teacher_ppm_m: The teacher's map.
        enhancement_ppm_m: The true enhancement; simulated tiles only.
        emission_kg_h: Emission rate; None if not known.
    """

    name: str
    radiance: Float32[np.ndarray, "band row col"]
    label: Bool[np.ndarray, "row col"]
    valid: Bool[np.ndarray, "row col"]
    rgb: Float32[np.ndarray, "3 row col"] | None
    teacher_ppm_m: Float32[np.ndarray, "row col"] | None
    enhancement_ppm_m: Float32[np.ndarray, "row col"] | None
    emission_kg_h: float | None


@dataclass(frozen=True, eq=False)
class Batch:
    """Arrays that batches are read into, again and again; layers as in `CachedTile`, tiles along the first axis."""

    radiance: Float32[np.ndarray, "tile band row col"]
    label: Bool[np.ndarray, "tile row col"]
    valid: Bool[np.ndarray, "tile row col"]
    rgb: Float32[np.ndarray, "tile 3 row col"] | None
    teacher_ppm_m: Float32[np.ndarray, "tile row col"] | None
    enhancement_ppm_m: Float32[np.ndarray, "tile row col"] | None

    def __len__(self) -> int:
        return len(self.label)


_FIELDS = dict(
    zip(IMAGE_LAYERS, ("radiance", "rgb", "label", "valid", "teacher_ppm_m", "enhancement_ppm_m"), strict=True)
)


class TileCache:
    """A finished cache. Cheap to send to other processes: only its path travels."""

    def __init__(self, path: Path | str) -> None:
        """Opens a cache; each tile is compared with its checksum when it is first read.

        Raises:
            CacheError: If there is none, its build was interrupted, or it is damaged.
        """
        self.path = Path(path)
        self._open()

    def _open(self) -> None:
        self._file = CacheFile(self.path)
        state = self._file.arrays["state"]
        self._slots = np.flatnonzero(state == State.WRITTEN)
        # Tiles that could not be made have no checksum; one that has a right one was lost by damage to its state.
        for slot in np.flatnonzero(state != State.WRITTEN).tolist():
            if self._file.matches(slot):
                raise self._damaged(f"tile {slot} is marked as missing")
        self._checked = np.zeros(state.shape, dtype=np.bool_)
        self._layers: dict[str, Any] = {
            layer: self._file.arrays[layer].view(np.bool_) if layer in ("label", "valid") else self._file.arrays[layer]
            for layer in self._file.spec.layers
        }

    def __getstate__(self) -> dict[str, Path]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.path = state["path"]
        self._open()

    def __len__(self) -> int:
        return int(self._slots.size)

    @property
    def bands(self) -> BandSet:
        """Bands of every tile's radiance."""
        return self._file.spec.bands

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every tile."""
        return self._file.spec.rows, self._file.spec.cols

    @property
    def names(self) -> list[str]:
        """The tiles' identifiers, in order."""
        return [self._name(slot) for slot in self._slots.tolist()]

    @property
    def emission_kg_h(self) -> Float64[np.ndarray, " tile"]:
        """Emission rate of each tile; NaN where it is not known."""
        return np.array(self._file.arrays["emission_kg_h"][self._slots])

    def plume_pixels(self) -> Int[np.ndarray, " tile"]:
        """Valid plume pixels of each tile, for balancing batches."""
        label, valid = self._file.arrays["label"], self._file.arrays["valid"]
        counts = [int(np.count_nonzero((label[slot] == 1) & (valid[slot] == 1))) for slot in self._slots]
        return np.array(counts, dtype=np.int64)

    def __getitem__(self, index: int) -> CachedTile:
        slot = int(self._slots[index])
        self._verify(slot)
        layers = {_FIELDS[name]: np.asarray(array[slot]) for name, array in self._layers.items()}
        emission = float(self._file.arrays["emission_kg_h"][slot])
        return CachedTile(
            name=self._name(slot),
            emission_kg_h=None if np.isnan(emission) else emission,
            **{name: layers.get(name) for name in _FIELDS.values()},  # type: ignore[arg-type]
        )

    def new_batch(self, size: int, crop: tuple[int, int] | None = None) -> Batch:
        """Arrays for batches of this cache.

        Args:
            size: Tiles a batch.
            crop: Rows and columns to cut from each tile; whole tiles by default.
        """
        rows, cols = crop or self.shape
        if not (0 < rows <= self.shape[0] and 0 < cols <= self.shape[1]):
            raise CacheError(f"cannot cut {rows} x {cols} pixels from tiles of {self.shape[0]} x {self.shape[1]}")
        arrays = {
            _FIELDS[name]: np.zeros((size, *array.shape[1:-2], rows, cols), dtype=array.dtype)
            for name, array in self._layers.items()
        }
        return Batch(**{name: arrays.get(name) for name in _FIELDS.values()})  # type: ignore[arg-type]

    def read_into(
        self, indices: Sequence[int], batch: Batch, corners: Sequence[tuple[int, int]] | None = None
    ) -> list[str]:
        """Reads a batch.

        Args:
            indices: Which tiles, as many as the batch holds.
            batch: Where to put them, made by `new_batch`.
            corners: Row and column of the crop's upper left pixel in each tile; (0, 0) by default.

        Returns:
            The tiles' names.
        """
        if len(indices) != len(batch):
            raise CacheError(f"a batch of {len(batch)} tiles cannot take {len(indices)}")
        rows, cols = batch.label.shape[1:]
        slots = self._slots[np.asarray(indices)].tolist()
        for place, slot in enumerate(slots):
            row, col = corners[place] if corners is not None else (0, 0)
            if not (0 <= row <= self.shape[0] - rows and 0 <= col <= self.shape[1] - cols):
                raise CacheError(f"a crop of {rows} x {cols} pixels at ({row}, {col}) leaves tiles of {self.shape}")
            self._verify(slot)
            at = (slot, ..., slice(row, row + rows), slice(col, col + cols))
            for name, array in self._layers.items():
                getattr(batch, _FIELDS[name])[place] = array[at]
        return [self._name(slot) for slot in slots]

    def check(self) -> None:
        """Reads every tile and compares it with its checksum.

        Raises:
            CacheError: If a tile is not as it was written; the message names it.
        """
        self._checked[:] = False
        for slot in self._slots.tolist():
            self._verify(slot)

    def _verify(self, slot: int) -> None:
        """Compares a tile with its checksum when it is first read."""
        if not self._checked[slot]:
            if not self._file.matches(slot):
                raise self._damaged(f"tile {slot} ({self._name(slot)}) does not match its checksum")
            self._checked[slot] = True

    def _name(self, slot: int) -> str:
        return bytes(self._file.arrays["name"][slot]).decode(errors="backslashreplace")

    def _damaged(self, what: str) -> CacheError:
        return CacheError(
            f"{self.path}: {what}; the file was damaged after it was written, delete it and build it again"
        )
