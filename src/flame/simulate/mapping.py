"""Onto the map by nearest neighbours: some detector samples fill two map pixels, some none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from scipy import ndimage

from flame.simulate.settings import InstrumentSettings

__all__ = ["Mapping", "draw_mapping"]

_BEND_SCALE_PX = 40.0
_BEND_PX = 0.8


@dataclass(frozen=True, eq=False)
class Mapping:
    """Which pixel of the ground grid each map pixel shows.

    Attributes:
        place: Flat index into the ground grid; the same one occurs several times where a sample was repeated.
    """

    place: Int[np.ndarray, "_row _col"]

    def __call__(self, layer: np.ndarray) -> np.ndarray:
        """A layer of the tile (its last two axes are row and column) as the map shows it."""
        return np.take(layer.reshape(*layer.shape[:-2], -1), self.place, axis=-1)

    @property
    def repeated_share(self) -> float:
        """Share of map pixels that repeat another."""
        return 1.0 - np.unique(self.place).size / self.place.size


def draw_mapping(rng: np.random.Generator, shape: tuple[int, int], settings: InstrumentSettings) -> Mapping | None:
    """A flight line at any angle, bent a little by the aircraft's roll; None for a tile on the detector's own grid.

    Orthorectified data, as STARCOP's, repeat samples where the map is finer than the detector. Noise is then equal in
    neighbours, and what an opening would have removed stays.
    """
    # No draw at all where the chance is nil: presets without a map keep their bytes.
    if settings.map_chance <= 0 or rng.uniform() >= settings.map_chance:
        return None
    angle = rng.uniform(0.0, 2 * np.pi)
    along, across = (np.float32(settings.samples_per_pixel.draw(rng)) for _ in range(2))
    bend = ndimage.gaussian_filter(rng.standard_normal(shape, dtype=np.float32), _BEND_SCALE_PX, mode="wrap")
    bend *= np.float32(_BEND_PX) / max(float(bend.std()), 1e-9)
    row, col = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    u = (np.floor((cos * col + sin * row + bend) * along) + 0.5) / along - bend
    v = (np.floor((cos * row - sin * col) * across) + 0.5) / across
    source_row = np.clip(np.rint(sin * u + cos * v), 0, shape[0] - 1).astype(np.intp)
    source_col = np.clip(np.rint(cos * u - sin * v), 0, shape[1] - 1).astype(np.intp)
    return Mapping(source_row * shape[1] + source_col)
