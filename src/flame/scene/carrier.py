"""The scene in memory, and lines of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from jaxtyping import Bool, Float32, UInt16

from flame.physics import METHANE_WINDOW_NM, RADIANCE_UNIT, BandSet, ColumnBands
from flame.scene.geo import GeoGrid, SceneError

__all__ = ["RGB_WAVELENGTHS_NM", "Acquisition", "Scene", "SceneError", "SceneRows"]

RGB_WAVELENGTHS_NM = (640.0, 550.0, 460.0)
"""Where the red, green and blue of `Scene.rgb` are taken."""


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
class SceneRows:
    """Some lines of a scene, full width. Unlike a scene it may hold no valid pixel at all.

    Attributes:
        radiance: Radiance in `RADIANCE_UNIT`; what stands under an invalid pixel has no meaning.
        valid: Pixels that may be used.
        rgb: Radiance near 640, 550 and 460 nm, if the scene has it.
        flags: `SceneFlag` bits of each pixel, if the scene has them.
    """

    radiance: Float32[np.ndarray, "band row col"]
    valid: Bool[np.ndarray, "row col"]
    rgb: Float32[np.ndarray, "3 row col"] | None = None
    flags: UInt16[np.ndarray, "row col"] | None = None


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
        flags: Why pixels are doubtful, as `SceneFlag` bits, if known.
        smile: The bands of each column, where they differ.
    """

    # Axes that must agree are marked `_`: the class checks them itself, with better words than a type checker has.
    radiance: Float32[np.ndarray, "_band _row _col"]
    bands: BandSet
    valid: Bool[np.ndarray, "_row _col"]
    rgb: Float32[np.ndarray, "_three _row _col"] | None = None
    geo: GeoGrid | None = None
    acquisition: Acquisition = field(default_factory=Acquisition)
    unit: str = RADIANCE_UNIT
    flags: UInt16[np.ndarray, "_row _col"] | None = None
    smile: ColumnBands | None = None

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
        if self.flags is not None and self.flags.shape != size:
            raise SceneError(f"{where}: flags must have shape {size}, got {self.flags.shape}")
        if self.smile is not None and self.smile.centres_nm.shape != (len(self.bands), size[1]):
            raise SceneError(
                f"{where}: smile must tell of {len(self.bands)} bands in {size[1]} columns, got "
                f"{self.smile.centres_nm.shape}"
            )
        # Band by band: the scene itself is not copied.
        if not all(bool((np.isfinite(layer) | ~self.valid).all()) for layer in self.radiance):
            raise SceneError(
                f"{where}: NaN or infinite radiance under pixels marked valid; mark them invalid in the reader"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.radiance.shape[1]), int(self.radiance.shape[2])

    @property
    def has_rgb(self) -> bool:
        """Whether the scene has red, green and blue."""
        return self.rgb is not None

    def rows(self, first: int, stop: int) -> SceneRows:
        """The lines from `first` up to and without `stop`; nothing is copied."""
        down = slice(first, stop)
        return SceneRows(
            self.radiance[:, down],
            self.valid[down],
            None if self.rgb is None else self.rgb[:, down],
            None if self.flags is None else self.flags[down],
        )

    def blocks(self, lines: int) -> Iterator[SceneRows]:
        """All lines from top to bottom, so many at a time."""
        for first in range(0, self.shape[0], lines):
            yield self.rows(first, min(first + lines, self.shape[0]))

    def colour(self) -> Float32[np.ndarray, "3 row col"]:
        """Red, green and blue for pictures; the first band three times if the scene has none."""
        return np.repeat(self.radiance[:1], 3, axis=0) if self.rgb is None else self.rgb

    def load(self) -> Scene:
        """The scene itself: it is in memory already."""
        return self

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
            self.flags,
            None if self.smile is None else ColumnBands(self.smile.centres_nm[which], self.smile.fwhm_nm[which]),
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
