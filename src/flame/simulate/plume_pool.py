"""Plume columns made once and drawn many times: turned, mirrored, stretched, moved and scaled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64
from scipy import ndimage

from flame.errors import FlameError
from flame.simulate.plumes import PlumeSettings, draw_emission, draw_wind, plume_column
from flame.tile import PlumeSource

__all__ = ["PlumePool", "make_plume_pool"]

_UNIT_KG_H = 100.0


@dataclass(frozen=True, eq=False)
class PlumePool:
    """Columns of single steady or bursting sources, all blowing to the right.

    Attributes:
        column: Vertical column for an emission of 1 kg/h, in ppm m; the source lies at `source_row`, `source_col`.
        wind_m_s: Wind of each.
        source_row: Row of all sources.
        source_col: Column of all sources.
        pixel_m: Pixel size.
        settings: What they were drawn from.
    """

    column: Float32[np.ndarray, "plume row col"]
    wind_m_s: Float64[np.ndarray, " plume"]
    source_row: float
    source_col: float
    pixel_m: float
    settings: PlumeSettings

    def draw(
        self, rng: np.random.Generator, shape: tuple[int, int], emission_factor: float = 1.0
    ) -> tuple[Float32[np.ndarray, "row col"], tuple[PlumeSource, ...]]:
        """The plumes of one tile: as many sources, as strong and as placed as `draw_plumes` would draw them.

        A plume stretched by a factor is thinner by the same factor, so that its emission stays what it was.

        Args:
            rng: Source of randomness.
            shape: Rows and columns of the tile.
            emission_factor: Factor on the emission rates of the settings.
        """
        settings = self.settings
        total = np.zeros(shape, np.float32)
        sources = []
        width_m = self.pixel_m * float(np.sqrt(shape[0] * shape[1]))
        wind_to_deg = float(rng.uniform(0.0, 360.0))
        angle = np.deg2rad(wind_to_deg)
        along = np.array([-np.cos(angle), np.sin(angle)])
        for _ in range(int(rng.choice(len(settings.source_shares), p=settings.source_shares))):
            index = int(rng.integers(len(self.column)))
            place = (rng.uniform(size=2) - along * rng.uniform(0.0, settings.margin)) * shape
            stretch, mirrored = float(np.exp(rng.uniform(-0.25, 0.25))), -1.0 if rng.uniform() < 0.5 else 1.0
            emission_kg_h = emission_factor * draw_emission(rng, settings, width_m)
            # From the tile's pixel to the pool's: along the wind is its column, across it its row.
            across = mirrored * np.array([along[1], -along[0]])
            matrix = np.stack([across, along]) / stretch
            offset = np.array([self.source_row, self.source_col]) - 0.5 - matrix @ (place - 0.5)
            column = ndimage.affine_transform(self.column[index], matrix, offset, shape, order=1, prefilter=False)
            total += np.float32(emission_kg_h / stretch) * column
            sources.append(
                PlumeSource(float(place[0]), float(place[1]), emission_kg_h, float(self.wind_m_s[index]), wind_to_deg)
            )
        return total, tuple(sources)


def make_plume_pool(
    rng: np.random.Generator, count: int, size: int, pixel_m: float, settings: PlumeSettings | None = None
) -> PlumePool:
    """Simulates the columns of a pool.

    Args:
        rng: Source of randomness.
        count: Number of plumes; 0.05 s each for tiles of 128 pixels.
        size: Rows and columns of the tiles they are meant for; a plume must reach across the diagonal.
        pixel_m: Pixel size.
        settings: What to draw from; defaults if not given.

    Raises:
        FlameError: If the count is not positive.
    """
    if count < 1:
        raise FlameError(f"a pool needs at least one plume, got {count}")
    settings = settings or PlumeSettings()
    length = int(np.ceil(1.6 * size))
    shape = (length, length)
    row, col = length / 2, 0.12 * length
    columns, winds = np.empty((count, *shape), np.float32), np.empty(count)
    for index in range(count):
        winds[index] = draw_wind(rng, settings)
        source = PlumeSource(row, col, _UNIT_KG_H, float(winds[index]), 90.0)
        columns[index] = plume_column(rng, shape, pixel_m, source, settings) / np.float32(_UNIT_KG_H)
    return PlumePool(columns, winds, row, col, pixel_m, settings)
