"""A detection to records: fragments joined, each plume placed, weighed, given its rates and its spectrum checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int32
from scipy import ndimage

from flame.detection import Plume, measure_plume, plume_labels
from flame.detection.spectral_check import SpectralCheck, check_spectrum
from flame.errors import FlameError
from flame.io.wind import check_wind_file
from flame.onboard import Detection
from flame.physics import Wind
from flame.pipeline.retrieval import (
    Retrieval,
    Surroundings,
    Window,
    read_surroundings,
    retrieve,
    retrieve_again,
)
from flame.pipeline.wind_lookup import WindLookup
from flame.plumes import DetectionLimit, LightPath, PlumePoint, PlumeRecord, SceneRecord, UnitRate, plume_letters
from flame.products.geolocate import longitude_latitude, pixel_area_m2
from flame.rates import (
    OWN,
    Air,
    PlumeFigures,
    PlumeMass,
    PlumePixels,
    PlumeShape,
    Rate,
    RateError,
    coefficient_sets,
    coefficients_by_method,
    detection_curve,
    find_shape,
    line_density,
    plume_mass,
    plume_rates,
)
from flame.scene import AnyScene, GeoGrid

__all__ = ["REACH_M", "REACH_PX", "MeasureSettings", "measure_scene", "reach_px"]

REACH_PX = 5.0
REACH_M = 200.0
"""Fragments whose nearest pixels are at most this far apart are one plume: the smaller of the two, so that the coarse
pixels of a satellite join what EMIT's product joins, and fine ones do not join neighbouring wells."""

_MARGIN_PX = 128
"""Ground around a plume that its background, its error and its spectrum are learned from."""

_EIGHT_NEIGHBOURS = np.ones((3, 3), np.bool_)
_EDGE_SHARE = 0.1
_EARTH_M = 6_371_008.8
_LIGHT_WIND_M_S = 3.0


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
        most_studied: Only so many plumes of a scene, the strongest, are weighed against ground without plumes and have
            their spectra checked.
        seed: Of the draws that errors and p-values rest on.
    """

    winds: tuple[Wind, ...] = ()
    wind_files: tuple[Path, ...] = ()
    coefficients: str = OWN
    temperature_k: float = 273.15
    pressure_pa: float = 101_325.0
    check: bool = True
    most_studied: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.coefficients not in coefficient_sets():
            known = ", ".join(coefficient_sets())
            raise RateError(f"no effective-wind coefficients '{self.coefficients}'; known are {known}")
        _ = Air(self.temperature_k, self.pressure_pa).kg_per_m2  # which refuses what is no air
        for path in self.wind_files:
            check_wind_file(path)

    def absolute(self) -> MeasureSettings:
        """The same, with wind files that another process finds too; files that it finds already are not read again."""
        if all(path.is_absolute() for path in self.wind_files):
            return self
        return replace(self, wind_files=tuple(path.absolute() for path in self.wind_files))

    def key(self) -> str:
        """Tells these settings, with what stands in the wind files, from all others."""
        digests = []
        for path in self.wind_files:
            with path.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        return repr((replace(self, wind_files=()), digests))


def reach_px(scene: AnyScene) -> float:
    """How far apart fragments of one plume may lie in a scene, in pixels."""
    area_m2 = np.nan if scene.geo is None else pixel_area_m2(scene.geo, scene.shape[0] / 2, scene.shape[1] / 2)
    return REACH_PX if not area_m2 > 0 else min(REACH_PX, REACH_M / float(np.sqrt(area_m2)))


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
    site = _Site(scene, detection, retrieve(scene, detection), settings)
    found = sorted((site.record(*each) for each in site.plumes()), key=_heaviest_first)
    numbered = (
        replace(record, id=f"{name}-{plume_letters(number)}", number=number)
        for number, record in enumerate(found, start=1)
    )
    notes = [site.maps.note] if site.maps.note else []
    if found and not (settings.winds or settings.wind_files):
        notes.append("no wind was given: rates are for each m/s of wind; give --wind or --wind-file")
    if found and not detection.unasked and settings.coefficients == OWN:
        notes.append(
            f"coefficients '{OWN}' are fitted to outlines as flame-plus draws them unasked; rates may be off here"
        )
    winds = site.winds.of_scene(site.middle())
    return SceneRecord(
        tuple(numbered),
        site.maps.enhancement_ppm_m,
        site.maps.sigma_ppm_m,
        site.maps.source,
        winds,
        settings.coefficients,
        _limits(scene.acquisition.sensor, settings.winds) if detection.unasked else (),
        tuple(notes),
        site.winds.notes(found, winds),
    )


def _limits(sensor: str | None, winds: Sequence[Wind]) -> tuple[DetectionLimit, ...]:
    """What the scene could have shown in the winds that were given, or in a light one."""
    curve = detection_curve(sensor)
    if curve is None:
        return ()
    basis = f"{curve.cases} simulated plumes as {sensor} sees them ({curve.scenes}), found by {curve.model}"
    return tuple(
        DetectionLimit(speed, curve.rate_kg_h(0.5, speed), curve.rate_kg_h(0.9, speed), basis)
        for speed in ([wind.speed_m_s for wind in winds] or [_LIGHT_WIND_M_S])
    )


def _heaviest_first(record: PlumeRecord) -> float:
    return -record.plume.integrated_ppm_m_px


@dataclass(frozen=True, eq=False)
class _Weighed:
    """What only a plume with a place on the ground has."""

    figures: PlumeFigures
    shape: PlumeShape
    rates: tuple[Rate, ...]
    unit_rate: UnitRate | None


@dataclass(frozen=True, eq=False)
class _View:
    """A plume and the ground around it."""

    window: Window
    mask: Bool[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]
    free: Bool[np.ndarray, "row col"]
    enhancement_ppm_m: Float[np.ndarray, "row col"]
    sigma_ppm_m: Float[np.ndarray, "row col"]
    around: Surroundings | None


class _Site:
    """One scene while its plumes are measured; `maps` get the better retrieval of each plume that is studied."""

    def __init__(self, scene: AnyScene, detection: Detection, maps: Retrieval, settings: MeasureSettings) -> None:
        self._scene, self._detection, self._settings = scene, detection, settings
        self.maps = replace(maps, enhancement_ppm_m=maps.enhancement_ppm_m.copy(), sigma_ppm_m=maps.sigma_ppm_m.copy())
        self.winds = WindLookup(settings.winds, settings.wind_files, scene.acquisition.time)
        self._light = LightPath.of(scene.acquisition)
        self._labels: Int32[np.ndarray, "row col"] = plume_labels(detection.mask, reach_px(scene))

    def plumes(self) -> list[tuple[int, Window, bool]]:
        """Label and bounding box of each plume, and whether it is one of the strongest, which are studied."""
        boxes = ndimage.find_objects(self._labels)
        numbers = np.arange(1, len(boxes) + 1)
        sums = ndimage.sum_labels(self.maps.enhancement_ppm_m, self._labels, numbers) if boxes else np.empty(0)
        strongest = set(np.argsort(-np.asarray(sums))[: self._settings.most_studied].tolist())
        return [
            (number, (box[0], box[1]), number - 1 in strongest)
            for number, box in zip(numbers.tolist(), boxes, strict=True)
        ]

    def record(self, label: int, box: Window, studied: bool) -> PlumeRecord:
        """All that can be said of one plume; its id and number are given later."""
        notes: list[str] = []
        rng = np.random.default_rng([self._settings.seed, box[0].start, box[1].start])
        view = self._view(label, box, studied)
        inside = self._labels[box] == label
        plume = measure_plume(
            inside, self._detection.probability[box], self.maps.enhancement_ppm_m[box], box[0].start, box[1].start
        )
        at_edge = _at_edge(view, plume, self._scene.shape)
        if at_edge:
            notes.append("the plume reaches the edge of what could be seen: mass and length are of a part of it")
        try:
            weighed = self._weigh(view, rng, notes)
        except RateError as reason:
            weighed = None
            notes.append(f"no area, mass or rate: {reason}")
        shape, figures = (weighed.shape, weighed.figures) if weighed else (None, None)
        source = self._point(view, shape.source if shape else int(np.argmax(view.enhancement_ppm_m[view.mask])))
        return PlumeRecord(
            id="",
            number=0,
            plume=plume,
            source=source,
            image_deg=_image_deg(source, plume),
            shape=shape,
            at_edge=at_edge,
            figures=figures,
            light=self._light,
            rates=weighed.rates if weighed else (),
            unit_rate=weighed.unit_rate if weighed else None,
            check=_checked(view, rng, notes) if self._settings.check else None,
            notes=tuple(notes),
        )

    def _view(self, label: int, box: Window, studied: bool) -> _View:
        """A plume's surroundings; if it is studied, with its radiance and enhancement against plume-free ground."""
        rows, cols = (
            slice(max(span.start - _MARGIN_PX, 0), min(span.stop + _MARGIN_PX, size))
            for span, size in zip(box, self._scene.shape, strict=True)
        )
        window = rows, cols
        mask, usable = self._labels[window] == label, self._detection.usable[window]
        maps, around = self.maps.window(window), None
        if studied:
            around = read_surroundings(self._scene, window)
            maps = retrieve_again(around, usable, self._detection.mask[window], maps)
            self.maps.enhancement_ppm_m[window][mask] = maps.enhancement_ppm_m[mask]
            self.maps.sigma_ppm_m[window][mask] = maps.sigma_ppm_m[mask]
        free = usable & ~self._detection.mask[window] & np.isfinite(maps.sigma_ppm_m)
        return _View(window, mask, usable, free, maps.enhancement_ppm_m, maps.sigma_ppm_m, around)

    def _weigh(self, view: _View, rng: np.random.Generator, notes: list[str]) -> _Weighed:
        """Mass, course and rates.

        Raises:
            RateError: If the plume has no place on the ground.
        """
        settings, mask = self._settings, view.mask
        east_m, north_m, area_m2 = self._ground(view)
        maps = view.enhancement_ppm_m, view.sigma_ppm_m
        air = Air(settings.temperature_k, settings.pressure_pa, self._light.factor)

        def weighed(inside: Bool[np.ndarray, "row col"], drawn: np.random.Generator | None = None) -> PlumeMass:
            return plume_mass(*maps, inside, view.free & ~inside, area_m2, air, rng=drawn)

        mass = weighed(mask, rng)
        pixels = PlumePixels(east_m, north_m, maps[0][mask].astype(np.float64) - mass.background_ppm_m, area_m2)
        winds = self.winds.at(self._point(view, find_shape(pixels, _direction(settings.winds)).source), notes)
        shape = find_shape(pixels, _direction(winds))
        if shape.wind_disagrees:
            notes.append("the plume runs across the wind: one of the two is not what it seems")
        larger = ndimage.binary_dilation(mask, _EIGHT_NEIGHBOURS) & np.isfinite(maps[1])
        smaller = ndimage.binary_erosion(mask, border_value=1)
        others = tuple(weighed(variant) for variant in (smaller, larger) if variant.any())
        density = line_density(pixels, shape, mass.kg_per_m2)
        figures = PlumeFigures(mass, others, shape.fetch_m, shape.length_m, density)
        laws = coefficients_by_method(settings.coefficients, self._scene.acquisition.sensor)
        if not laws:
            notes.append(f"no rate: there are no coefficients '{settings.coefficients}' for this sensor")
        rates = plume_rates(figures, winds, laws, rng, settings.coefficients)
        return _Weighed(figures, shape, rates, UnitRate.of(figures, laws, settings.coefficients))

    def _ground(self, view: _View) -> tuple[Float[np.ndarray, " pixel"], Float[np.ndarray, " pixel"], float]:
        """Place of each pixel of a plume in metres about one of them, and the area of one."""
        if self._scene.geo is None:
            raise RateError("the scene does not say where it is")
        geo = self._scene.geo.window(*view.window)
        rows, cols = np.nonzero(view.mask)
        if not rows.size:
            raise RateError("none of its pixels can be weighed")
        longitude, latitude = longitude_latitude(geo, rows + 0.5, cols + 0.5)
        # About the first pixel, so that a plume on the date line is not torn apart.
        east_deg = (longitude - longitude[0] + 180.0) % 360.0 - 180.0
        north_m = np.deg2rad(latitude - latitude[0]) * _EARTH_M
        east_m = np.deg2rad(east_deg) * _EARTH_M * np.cos(np.deg2rad(latitude[0]))
        return east_m, north_m, pixel_area_m2(geo, float(np.median(rows)) + 0.5, float(np.median(cols)) + 0.5)

    def _point(self, view: _View, index: int) -> PlumePoint:
        """The centre of one of a plume's pixels."""
        row, col = (float(places[index]) + 0.5 for places in np.nonzero(view.mask))
        geo = None if self._scene.geo is None else self._scene.geo.window(*view.window)
        return PlumePoint(view.window[0].start + row, view.window[1].start + col, *_placed(geo, row, col))

    def middle(self) -> PlumePoint:
        """The middle of the scene."""
        row, col = (size / 2 for size in self._scene.shape)
        return PlumePoint(row, col, *_placed(self._scene.geo, row, col))


def _placed(geo: GeoGrid | None, row: float, col: float) -> tuple[float | None, float | None]:
    """Longitude and latitude of a point, None where not known."""
    if geo is None:
        return None, None
    lon, lat = (float(angle[0]) for angle in longitude_latitude(geo, np.array([row]), np.array([col])))
    return lon if np.isfinite(lon) else None, lat if np.isfinite(lat) else None


def _checked(view: _View, rng: np.random.Generator, notes: list[str]) -> SpectralCheck | None:
    """The check of a plume's spectrum, if its radiance was read and there is ground to compare with."""
    if view.around is None:
        return None
    maps = view.enhancement_ppm_m, view.sigma_ppm_m
    try:
        return check_spectrum(view.around.radiance, view.around.bands, view.mask, *maps, view.free, rng)
    except FlameError as reason:
        notes.append(f"its spectrum was not checked: {reason}")
        return None


def _direction(winds: Sequence[Wind]) -> float | None:
    """Where the first wind with a direction is from; a calm's says little, so it is asked last."""
    steady_first = sorted(winds, key=lambda wind: wind.is_calm)
    return next((wind.from_deg for wind in steady_first if wind.from_deg is not None), None)


def _at_edge(view: _View, plume: Plume, shape: tuple[int, int]) -> bool:
    """Whether a plume reaches the scene's edge, or much of its rim lies beside pixels that cannot be judged."""
    if plume.first_row == 0 or plume.first_col == 0 or plume.end_row == shape[0] or plume.end_col == shape[1]:
        return True
    rim = ndimage.binary_dilation(view.mask, _EIGHT_NEIGHBOURS) & ~view.mask
    return bool((~view.usable[rim]).mean() > _EDGE_SHARE)


def _image_deg(source: PlumePoint, plume: Plume) -> float:
    """From the source to the middle of the plume, clockwise from up."""
    across, down = plume.centroid_col - source.col, plume.centroid_row - source.row
    return float(np.rad2deg(np.arctan2(across, -down)) % 360.0)
