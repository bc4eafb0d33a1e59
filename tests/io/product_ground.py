"""A small piece of ground with a plume, a cloud and a lake, as each sensor would see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from scipy import ndimage

from flame.physics import BandSet, clear_sky_radiance, sensor, transmittance
from flame.scene.surface import SOLAR_IRRADIANCE

TIME = datetime(2023, 6, 14, 9, 41, 7, tzinfo=UTC)
SUN_DEG, VIEW_DEG = 32.0, 7.0
SOUTH_WEST_LAT, SOUTH_WEST_LON = 38.4, 54.1
SQUARE_PPM_M = 30_000.0


@dataclass(frozen=True, eq=False)
class Ground:
    """What a product file is made of.

    Attributes:
        bands: All bands of the sensor, in increasing wavelength.
        radiance: Radiance of every band in FLAME's unit.
        latitude: Latitude of pixel centres on a swath turned by 12 degrees.
        longitude: Longitude of pixel centres.
        cloud: Cloudy pixels.
        water: Water pixels.
        source: Row and column of the plume's strongest pixel.
        column_ppm_m: The plume.
        pixel_deg: Size of a pixel in degrees of latitude.
    """

    bands: BandSet
    radiance: np.ndarray
    latitude: np.ndarray
    longitude: np.ndarray
    cloud: np.ndarray
    water: np.ndarray
    source: tuple[int, int]
    column_ppm_m: np.ndarray
    pixel_deg: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.cloud.shape

    @property
    def pixel_m(self) -> float:
        return self.pixel_deg * 111_320.0


def make_ground(
    name: str,
    rows: int = 96,
    cols: int = 80,
    seed: int = 3,
    bands: BandSet | None = None,
    squares: Sequence[tuple[int, int]] = (),
) -> Ground:
    """Ground seen by a sensor: patches of four brightnesses with texture, one plume, one cloud, one lake.

    Args:
        name: The sensor.
        rows: Size.
        cols: Size.
        seed: Of patches, texture and noise.
        bands: Other bands than the sensor's.
        squares: Middle pixels of squares of 3 x 3 full of methane, in place of the plume.
    """
    rng = np.random.default_rng(seed)
    known = sensor(name)
    bands = bands or known.bands
    shape = (rows, cols)
    patches = ndimage.gaussian_filter(rng.standard_normal(shape), 6)
    levels = np.array([0.16, 0.24, 0.3, 0.38])[np.digitize(patches, np.quantile(patches, [0.25, 0.5, 0.75]))]
    reflectance = levels * (1 + 0.04 * ndimage.gaussian_filter(rng.standard_normal(shape), 1))
    # Redder where brighter, so that the spectra span more than one direction.
    soil = np.interp(bands.centres_nm, [400, 460, 640, 900, 1300], [0.25, 0.35, 0.65, 0.9, 1.0])[:, None, None]
    slope = 1 + 0.25 * (reflectance[None] - 0.25) * (bands.centres_nm[:, None, None] - 1400) / 1000
    down, across = np.indices(shape)
    row, col = rows // 2 + 7, cols // 2 - 9
    along, beside = across - col, down - row
    width = 1.2 + 0.12 * np.maximum(along, 0)
    column = 9000.0 * np.exp(-0.5 * (beside / width) ** 2) / width * np.exp(-np.maximum(along, 0) / 14.0)
    column *= np.where(along >= 0, 1.0, np.exp(-0.5 * (along / 1.0) ** 2))
    column[column < 20] = 0
    if squares:
        column[:] = 0
        for at_row, at_col in squares:
            column[at_row - 1 : at_row + 2, at_col - 1 : at_col + 2] = SQUARE_PPM_M
    cloud, water = np.zeros(shape, bool), np.zeros(shape, bool)
    cloud[4:14, 6:20] = True
    water[rows - 14 : rows - 4, cols - 22 : cols - 6] = True
    light = _light(bands)
    radiance = (reflectance[None] * soil * slope * light[:, None, None]).astype(np.float32)
    radiance[:, cloud] = (0.62 * light)[:, None]
    visible = bands.centres_nm < 700
    radiance[:, water] = (np.where(visible, 0.05, 0.004) * light)[:, None]
    inside = bands.within(1410.0, 2490.0)
    radiance[inside] *= transmittance(column, bands.select(inside)).astype(np.float32)
    radiance *= 1 + rng.standard_normal(radiance.shape, dtype=np.float32) / 500
    pixel_deg = known.pixel_m / 111_320.0
    turn = np.deg2rad(12.0)
    north, east = (
        (rows - down) * np.cos(turn) - across * np.sin(turn),
        across * np.cos(turn) + (rows - down) * np.sin(turn),
    )
    latitude = SOUTH_WEST_LAT + north * pixel_deg
    longitude = SOUTH_WEST_LON + east * pixel_deg / np.cos(np.deg2rad(SOUTH_WEST_LAT))
    return Ground(bands, radiance, latitude, longitude, cloud, water, (row, col), column, pixel_deg)


def _light(bands: BandSet) -> np.ndarray:
    """Radiance over a white surface: the sun's light, with the air's absorption where the packaged table tells it."""
    known = np.array(list(SOLAR_IRRADIANCE))
    sun = np.interp(bands.centres_nm, known, [SOLAR_IRRADIANCE[int(nm)] for nm in known])
    sun[bands.centres_nm > 2130] = 9.2 * (2130 / bands.centres_nm[bands.centres_nm > 2130]) ** 3.5
    light = sun * np.cos(np.deg2rad(SUN_DEG)) / np.pi
    inside = bands.within(1410.0, 2490.0)
    clear = clear_sky_radiance(bands.select(inside))
    trend = np.interp(
        bands.centres_nm[inside], [1410, 1610, 2130, 2490], [clear.max(), clear.max(), clear.max() / 2, clear.max() / 5]
    )
    light[inside] *= np.clip(clear / trend, 0.02, 1.0)
    light[(bands.centres_nm > 1340) & (bands.centres_nm < 1450)] *= 0.003  # where water vapour hides the ground
    return light
