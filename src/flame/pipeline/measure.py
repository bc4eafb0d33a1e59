"""A detection to records: fragments joined, each plume placed, weighed, given its rates and its spectrum checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int32
from scipy import ndimage

from flame.detection import Plume, find_plumes, plume_labels
from flame.detection.spectral_check import SpectralCheck, check_spectrum
from flame.errors import FlameError
from flame.io.wind import read_wind
from flame.onboard import Detection
from flame.physics import METHANE_WINDOW_NM, Wind, WindError
from flame.pipeline.retrieval import Retrieval, retrieve
from flame.plumes import LightPath, PlumePoint, PlumeRecord, SceneRecord, UnitRate, plume_letters
from flame.products.geolocate import longitude_latitude, pixel_area_m2
from flame.rates import (
    OWN,
    Air,
    PlumeMass,
    PlumePixels,
    PlumeShape,
    Rate,
    RateError,
    find_shape,
    plume_mass,
    plume_rates,
)
from flame.scene import AnyScene

__all__ = ["REACH_M", "REACH_PX", "MeasureSettings", "measure_scene"]

REACH_PX = 5.0
REACH_M = 200.0
"""Fragments whose nearest pixels are at most this far apart are one plume: the smaller of the two, so that the coarse
pixels of a satellite join what EMIT's product joins, and fine ones do not join neighbouring wells."""

_MARGIN_PX = 128
"""Ground around a plume that its background, its error and its spectrum are learned from."""

Window: TypeAlias = tuple[slice, slice]

_EIGHT_NEIGHBOURS = np.ones((3, 3), np.bool_)
_EDGE_SHARE = 0.1
_EARTH_M = 6_371_008.8


@dataclass(frozen=True)
class MeasureSettings:
    """How plumes are measured.

    Attributes:
        winds: Winds for every scene.
        wind_files: Files in which a wind is looked up for each plume's place and time.
        coefficients: Effective-wind coefficients by name; see `flame.rates.coefficient_sets`.
        temperature_k: Of the air in which ppm are counted.
        pressure_pa: Of that air.
        check: Whether spectra are checked.
        most_checked: Only so many plumes of a scene, the heaviest, have their spectra checked.
        seed: Of the draws that errors and p-values rest on.
    """

    winds: tuple[Wind, ...] = ()
    wind_files: tuple[Path, ...] = ()
    coefficients: str = OWN
    temperature_k: float = 273.15
    pressure_pa: float = 101_325.0
    check: bool = True
    most_checked: int = 100
    seed: int = 0

    def key(self) -> str:
        """Tells these settings, with what stands in the wind files, from all others."""
        digests = []
        for path in self.wind_files:
            if not path.is_file():
                raise WindError(f"{path}: no such file; give CSV, GeoJSON, netCDF or GRIB, or --wind SPEED,DIRECTION")
            with path.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        return repr((replace(self, wind_files=()), digests))


def measure_scene(
    scene: AnyScene, detection: Detection, name: str, settings: MeasureSettings | None = None
) -> SceneRecord:
    """Measures the plumes of a detection.

    Args:
        scene: What was looked at.
        detection: What was found.
        name: Of the scene, for the plumes' ids.
        settings: Winds and all else.
    """
    settings = settings or MeasureSettings()
    maps = retrieve(scene, detection)
    site = _Site(scene, detection, maps, settings)
    records = tuple(
        site.record(label, plume, name, number) for number, (label, plume) in enumerate(site.heaviest_first(), start=1)
    )
    notes = [maps.note] if maps.note else []
    if records and not (settings.winds or settings.wind_files):
        notes.append("no wind was given: rates are for each m/s of wind; give --wind or --wind-file")
    return SceneRecord(
        records,
        maps.enhancement_ppm_m,
        maps.sigma_ppm_m,
        maps.source,
        settings.winds,
        settings.coefficients,
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Weighed:
    """What only a plume with a place on the ground has."""

    mass: PlumeMass
    shape: PlumeShape
    rates: tuple[Rate, ...]


class _Site:
    """One scene while its plumes are measured."""

    def __init__(self, scene: AnyScene, detection: Detection, maps: Retrieval, settings: MeasureSettings) -> None:
        self._scene, self._detection, self._maps, self._settings = scene, detection, maps, settings
        self._light = LightPath.of(scene.acquisition)
        self._free = detection.usable & ~detection.mask & np.isfinite(maps.sigma_ppm_m)
        area_m2 = None if scene.geo is None else pixel_area_m2(scene.geo, scene.shape[0] / 2, scene.shape[1] / 2)
        self._reach_px = REACH_PX if not area_m2 or np.isnan(area_m2) else min(REACH_PX, REACH_M / np.sqrt(area_m2))
        self._labels: Int32[np.ndarray, "row col"] = plume_labels(detection.mask, self._reach_px)

    def heaviest_first(self) -> list[tuple[int, Plume]]:
        """Each plume with its number in the labels."""
        maps = self._detection.mask, self._detection.probability, self._maps.enhancement_ppm_m
        found = enumerate(find_plumes(*maps, self._reach_px), start=1)
        return sorted(found, key=lambda numbered: -numbered[1].integrated_ppm_m_px)

    def record(self, label: int, plume: Plume, name: str, number: int) -> PlumeRecord:
        """All that can be said of one plume."""
        notes: list[str] = []
        rng = np.random.default_rng([self._settings.seed, plume.first_row, plume.first_col])
        window = _window(plume, self._scene.shape)
        mask = self._labels[window] == label
        at_edge = _at_edge(mask, self._detection.usable[window], plume, self._scene.shape)
        if at_edge:
            notes.append("the plume reaches the edge of what could be seen: mass and length are of a part of it")
        try:
            weighed = self._weigh(window, mask, rng, notes)
        except RateError as reason:
            weighed = None
            notes.append(f"no area, mass or rate: {reason}")
        at = weighed.shape.source if weighed else self._brightest(window, mask)
        source = self._point(window, mask, at)
        check = self._check(window, mask, rng, notes) if number <= self._settings.most_checked else None
        shape, mass = (weighed.shape, weighed.mass) if weighed else (None, None)
        return PlumeRecord(
            id=f"{name}-{plume_letters(number)}",
            number=number,
            plume=plume,
            source=source,
            image_deg=_image_deg(source, plume),
            shape=shape,
            at_edge=at_edge,
            mass=mass,
            light=self._light,
            rates=weighed.rates if weighed else (),
            unit_rate=UnitRate.of(mass, shape.fetch_m) if mass and shape else None,
            check=check,
            notes=tuple(notes),
        )

    def _weigh(
        self, window: Window, mask: Bool[np.ndarray, "row col"], rng: np.random.Generator, notes: list[str]
    ) -> _Weighed:
        """Mass, course and rates.

        Raises:
            RateError: If the plume has no place on the ground.
        """
        settings = self._settings
        east_m, north_m, area_m2 = self._ground(window, mask)
        maps = self._maps.enhancement_ppm_m[window], self._maps.sigma_ppm_m[window]
        air = Air(settings.temperature_k, settings.pressure_pa, self._light.factor)

        def weighed(inside: Bool[np.ndarray, "row col"], drawn: np.random.Generator | None = None) -> PlumeMass:
            return plume_mass(*maps, inside, self._free[window] & ~inside, area_m2, air, rng=drawn)

        mass = weighed(mask, rng)
        pixels = PlumePixels(east_m, north_m, maps[0][mask].astype(np.float64) - mass.background_ppm_m, area_m2)
        source = self._point(window, mask, find_shape(pixels, _direction(settings.winds)).source)
        winds = self._winds(source, notes)
        shape = find_shape(pixels, _direction(winds))
        if shape.wind_disagrees:
            notes.append("the plume runs across the wind: one of the two is not what it seems")
        larger = ndimage.binary_dilation(mask, _EIGHT_NEIGHBOURS) & np.isfinite(maps[1])
        smaller = ndimage.binary_erosion(mask, border_value=1)
        others = [weighed(variant) for variant in (smaller, larger) if variant.any()]
        sensor = self._scene.acquisition.sensor
        rates = plume_rates(mass, others, pixels, shape, winds, settings.coefficients, sensor, rng, notes)
        return _Weighed(mass, shape, rates)

    def _ground(
        self, window: Window, mask: Bool[np.ndarray, "row col"]
    ) -> tuple[Float[np.ndarray, " pixel"], Float[np.ndarray, " pixel"], float]:
        """Place of each pixel of a plume in metres about their middle, and the area of one."""
        if self._scene.geo is None:
            raise RateError("the scene does not say where it is")
        geo = self._scene.geo.window(*window)
        rows, cols = np.nonzero(mask)
        longitude, latitude = longitude_latitude(geo, rows + 0.5, cols + 0.5)
        middle = float(np.median(rows)) + 0.5, float(np.median(cols)) + 0.5
        # About the first pixel, so that a plume on the date line is not torn apart.
        east_deg = (longitude - longitude[0] + 180.0) % 360.0 - 180.0
        north = np.deg2rad(latitude - latitude[0]) * _EARTH_M
        east = np.deg2rad(east_deg) * _EARTH_M * np.cos(np.deg2rad(latitude[0]))
        return east, north, pixel_area_m2(geo, *middle)

    def _winds(self, source: PlumePoint, notes: list[str]) -> list[Wind]:
        """The winds given, and those that the files have for the plume; what a file lacks is told."""
        winds = list(self._settings.winds)
        for path in self._settings.wind_files:
            try:
                place = source.longitude_deg or 0.0, source.latitude_deg or 0.0
                winds.append(read_wind(path, self._scene.acquisition.time, *place))
            except WindError as reason:
                notes.append(f"no wind from {path.name}: {reason}")
        return winds

    def _point(self, window: Window, mask: Bool[np.ndarray, "row col"], index: int) -> PlumePoint:
        """The centre of one of a plume's pixels."""
        rows, cols = np.nonzero(mask)
        row, col = float(rows[index]) + 0.5, float(cols[index]) + 0.5
        placed: list[float | None] = [None, None]
        if self._scene.geo is not None:
            found = longitude_latitude(self._scene.geo.window(*window), np.array([row]), np.array([col]))
            placed = [float(angle[0]) if np.isfinite(angle[0]) else None for angle in found]
        return PlumePoint(window[0].start + row, window[1].start + col, *placed)

    def _brightest(self, window: Window, mask: Bool[np.ndarray, "row col"]) -> int:
        return int(np.argmax(self._maps.enhancement_ppm_m[window][mask]))

    def _check(
        self, window: Window, mask: Bool[np.ndarray, "row col"], rng: np.random.Generator, notes: list[str]
    ) -> SpectralCheck | None:
        if not self._settings.check:
            return None
        rows, cols = window
        part = self._scene.rows(rows.start, rows.stop)
        inside = self._scene.bands.within(*METHANE_WINDOW_NM)
        maps = self._maps.enhancement_ppm_m[window], self._maps.sigma_ppm_m[window]
        try:
            return check_spectrum(
                np.ascontiguousarray(part.radiance[inside][:, :, cols]),
                self._scene.bands.select(inside),
                mask,
                *maps,
                self._free[window],
                rng,
            )
        except FlameError as reason:
            notes.append(f"its spectrum was not checked: {reason}")
            return None


def _window(plume: Plume, shape: tuple[int, int]) -> Window:
    return (
        slice(max(plume.first_row - _MARGIN_PX, 0), min(plume.end_row + _MARGIN_PX, shape[0])),
        slice(max(plume.first_col - _MARGIN_PX, 0), min(plume.end_col + _MARGIN_PX, shape[1])),
    )


def _direction(winds: Sequence[Wind]) -> float | None:
    return next((wind.from_deg for wind in winds if wind.from_deg is not None), None)


def _at_edge(
    mask: Bool[np.ndarray, "row col"], usable: Bool[np.ndarray, "row col"], plume: Plume, shape: tuple[int, int]
) -> bool:
    """Whether a plume reaches the scene's edge, or much of its rim lies beside pixels that cannot be judged."""
    if plume.first_row == 0 or plume.first_col == 0 or plume.end_row == shape[0] or plume.end_col == shape[1]:
        return True
    rim = ndimage.binary_dilation(mask, _EIGHT_NEIGHBOURS) & ~mask
    return bool((~usable[rim]).mean() > _EDGE_SHARE)


def _image_deg(source: PlumePoint, plume: Plume) -> float:
    """From the source to the middle of the plume, clockwise from up."""
    across, down = plume.centroid_col - source.col, plume.centroid_row - source.row
    return float(np.rad2deg(np.arctan2(across, -down)) % 360.0)
