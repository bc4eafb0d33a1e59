"""Scene, BandSet, GeoGrid: what a reader returns and every later room takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.errors import FlameError
from flame.physics import METHANE_WINDOW_NM, RADIANCE_UNIT, BandError, BandMismatchError, BandSet

__all__ = ["Acquisition", "BandError", "BandMismatchError", "BandSet", "GeoGrid", "Scene", "SceneError"]

RGB_WAVELENGTHS_NM = (640.0, 550.0, 460.0)
"""Where the red, green and blue of `Scene.rgb` are taken."""


class SceneError(FlameError):
    """A scene that contradicts itself or holds nothing to work on."""


@dataclass(frozen=True, eq=False)
class GeoGrid:
    """Where the pixels of a scene are: a map grid (CRS and affine) or a latitude and longitude for each pixel.

    Attributes:
        crs: Coordinate reference system as an EPSG code or WKT; set together with `affine`.
        affine: (a, b, c, d, e, f), x = a col + b row + c and y = d col + e row + f at pixel corners, as in rasterio.
        latitude_deg: Latitude of each pixel centre; set together with `longitude_deg`.
        longitude_deg: Longitude of each pixel centre.
    """

    crs: str | None = None
    affine: tuple[float, float, float, float, float, float] | None = None
    latitude_deg: Float[np.ndarray, "_row _col"] | None = None
    longitude_deg: Float[np.ndarray, "_row _col"] | None = None

    def __post_init__(self) -> None:
        on_map = self.crs is not None and self.affine is not None
        by_pixel = self.latitude_deg is not None and self.longitude_deg is not None
        if (self.crs is None) != (self.affine is None):
            raise SceneError("a map grid needs both a CRS and an affine transform, got only one of them")
        if (self.latitude_deg is None) != (self.longitude_deg is None):
            raise SceneError("pixel positions need both latitude and longitude, got only one of them")
        if on_map == by_pixel:
            raise SceneError("a GeoGrid is either CRS and affine, or latitude and longitude arrays")
        if self.latitude_deg is not None and self.longitude_deg is not None:
            lat, lon = self.latitude_deg.shape, self.longitude_deg.shape
            if lat != lon:
                raise SceneError(f"latitude has shape {lat} and longitude {lon}; expected one shape")

    @property
    def shape(self) -> tuple[int, int] | None:
        """Rows and columns if the grid fixes them (latitude and longitude arrays do)."""
        return None if self.latitude_deg is None else (self.latitude_deg.shape[0], self.latitude_deg.shape[1])


@dataclass(frozen=True)
class Acquisition:
    """When and how a scene was taken; whatever is not known is None.

    Attributes:
        sensor: Sensor name as in `flame.physics.SENSORS`.
        time: Start of acquisition, UTC.
        solar_zenith_deg: Sun's angle from the vertical.
        view_zenith_deg: Sensor's angle from the vertical.
        source: The file or folder it came from.
        extra: Anything else the file says.
    """

    sensor: str | None = None
    time: datetime | None = None
    solar_zenith_deg: float | None = None
    view_zenith_deg: float | None = None
    source: str | None = None
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scene:
    """Radiance of one scene or tile with everything needed to read it.

    Attributes:
        radiance: Radiance in `unit`; what stands under an invalid pixel has no meaning.
        bands: Centres and widths of the radiance's bands.
        valid: True where a pixel may be used. The only place where validity is kept.
        rgb: Radiance near 640, 550 and 460 nm in the same unit, if the sensor sees them.
        geo: Where the pixels are, if known.
        acquisition: When and how it was taken.
        unit: Radiance unit; always `RADIANCE_UNIT`, readers convert.
    """

    # Axes that must agree are marked `_`: the class checks them itself, with better words than a type checker has.
    radiance: Float32[np.ndarray, "_band _row _col"]
    bands: BandSet
    valid: Bool[np.ndarray, "_row _col"]
    rgb: Float32[np.ndarray, "_three _row _col"] | None = None
    geo: GeoGrid | None = None
    acquisition: Acquisition = field(default_factory=Acquisition)
    unit: str = RADIANCE_UNIT

    def __post_init__(self) -> None:
        where = self.acquisition.source or "scene"
        if self.radiance.ndim != 3:
            raise SceneError(f"{where}: radiance must be (band, row, col), got shape {self.radiance.shape}")
        if self.radiance.shape[0] != len(self.bands):
            raise SceneError(
                f"{where}: radiance has {self.radiance.shape[0]} bands but {len(self.bands)} band centres were given; "
                "axes are (band, row, col)"
            )
        if self.radiance.dtype != np.float32:
            raise SceneError(f"{where}: radiance must be float32, got {self.radiance.dtype}")
        size = self.radiance.shape[1:]
        if self.valid.shape != size or self.valid.dtype != np.bool_:
            raise SceneError(
                f"{where}: the valid mask must be bool of shape {size}, got {self.valid.dtype} {self.valid.shape}"
            )
        if self.rgb is not None and self.rgb.shape != (3, *size):
            raise SceneError(f"{where}: RGB must have shape {(3, *size)}, got {self.rgb.shape}")
        if self.geo is not None and self.geo.shape is not None and self.geo.shape != size:
            raise SceneError(f"{where}: latitude and longitude must have shape {size}, got {self.geo.shape}")
        if self.unit != RADIANCE_UNIT:
            raise SceneError(
                f"{where}: radiance must be in {RADIANCE_UNIT}, got {self.unit}; multiply by "
                "flame.physics.radiance_scale(unit) and say so"
            )
        if not self.valid.any():
            raise SceneError(f"{where}: no valid pixel among {self.valid.size}; nothing can be detected in it")
        if not np.isfinite(self.radiance[:, self.valid]).all():
            raise SceneError(
                f"{where}: NaN or infinite radiance under pixels marked valid; mark them invalid in the reader"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.radiance.shape[1]), int(self.radiance.shape[2])

    def select_bands(self, which: Bool[np.ndarray, " band"]) -> Scene:
        """The same scene with only the marked bands."""
        return Scene(
            np.ascontiguousarray(self.radiance[which]),
            self.bands.select(which),
            self.valid,
            self.rgb,
            self.geo,
            self.acquisition,
            self.unit,
        )

    def methane(self) -> Scene:
        """The same scene with only the bands of the methane window."""
        which = self.bands.within(*METHANE_WINDOW_NM)
        if which.sum() < 3:
            where = self.acquisition.source or "scene"
            raise SceneError(
                f"{where}: only {int(which.sum())} bands between {METHANE_WINDOW_NM[0]:.0f} and "
                f"{METHANE_WINDOW_NM[1]:.0f} nm, methane needs at least 3; "
                f"it has {self.bands.describe()}"
            )
        return self.select_bands(which)
