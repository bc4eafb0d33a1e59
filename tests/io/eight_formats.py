"""One small file of each of the eight formats, where its pixels truly are, and how far products are from that."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import product_files as files
import rasterio
import rasterio.warp
from matplotlib.path import Path as Outline
from product_ground import Ground, make_ground
from scipy import ndimage

from flame.io import starcop
from flame.scene import Acquisition, GeoGrid, Scene
from flame.tile import LabelledTile

__all__ = ["FORMATS", "SQUARES", "Found", "Sample", "found_plume", "make_sample", "places_of_squares"]

METRES_A_DEGREE = 111_320.0
SQUARES = ((20, 10), (24, 66), (60, 40), (86, 12))
"""Middles of small sources: no mirror image, turn or shift of the grid takes them into themselves."""


def _write_starcop(folder: Path, ground: Ground) -> Path:
    """A STARCOP tile, on the map of the gridded samples."""
    inside = ground.bands.within(2122.0, 2484.0)
    rgb = ground.radiance[[ground.bands.nearest(nm) for nm in (640.0, 550.0, 460.0)]]
    side, (left, top) = files.UTM_PIXEL, files.UTM_CORNER
    geo = GeoGrid(crs=files.UTM, affine=(side, 0.0, left, 0.0, -side, top))
    bands, seen = ground.bands.select(inside), Acquisition("aviris-ng")
    scene = Scene(ground.radiance[inside], bands, ~ground.cloud, rgb, geo, seen)
    tile = LabelledTile(f"{files.NG_LINE}_r0_c0_w80_h96", scene, ground.column_ppm_m > 500)
    return starcop.write_tile(tile, folder / tile.name)


@dataclass(frozen=True)
class Kind:
    """A format: its sensor, how its file is made, and what the file is known to hold.

    Attributes:
        sensor: Whose bands.
        write: Makes the file.
        has_model: Whether a packaged model was made for these bands.
        on_map: Whether the file lies on the map of the gridded samples, else on the turned swath.
        flags: Causes beside cloud and water, and how many pixels of a ground of 96 lines have them. None: no causes.
    """

    sensor: str
    write: Callable[[Path, Ground], Path]
    has_model: bool
    on_map: bool
    flags: dict[str, int] | None


_LINES = 96
FORMATS: dict[str, Kind] = {
    "EMIT": Kind(
        "emit",
        files.write_emit,
        True,
        False,
        {"fill": 1, "saturated": 1, "cirrus": 1, "interpolated": _LINES, "detector": _LINES},
    ),
    "AVIRIS-NG": Kind("aviris-ng", files.write_aviris_ng, True, False, {"fill": 1}),
    "AVIRIS-3": Kind("aviris-3", files.write_aviris3, False, False, {"fill": 1}),
    "EnMAP": Kind("enmap", files.write_enmap, False, False, {"fill": 1, "interpolated": _LINES, "detector": _LINES}),
    "PRISMA": Kind("prisma", files.write_prisma, False, False, {"saturated": 1, "interpolated": _LINES}),
    "Tanager": Kind("tanager-1", files.write_tanager, True, False, {"fill": 1}),
    "GeoTIFF": Kind("generic-10nm", files.write_geotiff, False, True, {"fill": 1}),
    "STARCOP": Kind("aviris-ng", _write_starcop, True, True, None),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """A file and the truth about it.

    Attributes:
        kind: Its format.
        path: The file.
        ground: What it was made of.
        latitude: True latitude of each pixel's centre.
        longitude: True longitude of each pixel's centre.
        pixel_m: Side of a pixel.
    """

    kind: Kind
    path: Path
    ground: Ground
    latitude: np.ndarray
    longitude: np.ndarray
    pixel_m: float

    @property
    def flags(self) -> dict[str, int]:
        """How many pixels have each cause."""
        if self.kind.flags is None:
            return {}
        seen = {"cloud": self.ground.cloud, "water": self.ground.water}
        return self.kind.flags | {name: int(layer.sum()) for name, layer in seen.items()}

    def pixels_off(self, latitude: Any, longitude: Any, true_latitude: Any, true_longitude: Any) -> Any:
        """Distance on the ground, in pixels."""
        north = np.asarray(latitude) - true_latitude
        east = (np.asarray(longitude) - true_longitude) * np.cos(np.deg2rad(latitude))
        return np.hypot(north, east) * METRES_A_DEGREE / self.pixel_m


def make_sample(name: str, folder: Path, squares: Sequence[tuple[int, int]] = ()) -> Sample:
    """Writes a file of a format; with small squares of methane, or else with one plume."""
    kind = FORMATS[name]
    ground = make_ground(kind.sensor, squares=squares)
    path = kind.write(folder, ground)
    if not kind.on_map:
        return Sample(kind, path, ground, ground.latitude, ground.longitude, ground.pixel_m)
    down, across = np.indices(ground.shape)
    latitude, longitude = files.utm_places(down + 0.5, across + 0.5)
    return Sample(kind, path, ground, latitude, longitude, files.UTM_PIXEL)


@dataclass(frozen=True)
class Found:
    """How far the strongest plume of a run's products is from the one in the file; distances in pixels on the ground.

    Attributes:
        place: The strongest pixel's position against where that pixel truly is: the geometry alone.
        centre: Weighted centre of the score map inside the mask, against that of the true plume inside the outline.
        peak: The strongest pixel against the true plume's strongest pixel; a whole number of pixels away, or none.
        peak_share: The true plume at the strongest pixel, against its maximum.
        holds_source: Whether the outline on the globe holds the true plume's strongest pixel.
        flags: Pixels of each cause as the report counts them.
    """

    place: float
    centre: float
    peak: float
    peak_share: float
    holds_source: bool
    flags: dict[str, int]


def found_plume(sample: Sample, folder: Path) -> Found:
    """Compares the products in a folder with the truth."""
    plumes = json.loads((folder / "plumes.geojson").read_text())["features"]
    strongest = plumes[0]
    told, column = strongest["properties"], sample.ground.column_ppm_m
    peak, source = (told["peak_row"], told["peak_col"]), sample.ground.source
    place = told["peak_latitude"], told["peak_longitude"]
    inside = _inside(strongest["geometry"], sample.longitude, sample.latitude)
    truth = _centre(column[inside], sample.latitude[inside], sample.longitude[inside])
    score, latitude, longitude = _map_inside_mask(folder)
    return Found(
        place=float(sample.pixels_off(*place, sample.latitude[peak], sample.longitude[peak])),
        centre=float(sample.pixels_off(*_centre(score, latitude, longitude), *truth)),
        peak=float(sample.pixels_off(*place, sample.latitude[source], sample.longitude[source])),
        peak_share=float(column[peak] / column[source]),
        holds_source=bool(inside[source]),
        flags=json.loads((folder / "detection.json").read_text())["pixels_flagged"],
    )


def _inside(geometry: dict[str, Any], longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
    """Pixels whose centre lies in a polygon's outer ring, or in that of one of its parts."""
    parts = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    points = np.stack([longitude.ravel(), latitude.ravel()], axis=1)
    found = np.zeros(longitude.size, dtype=bool)
    for rings in parts:
        found |= Outline(rings[0]).contains_points(points)
    return found.reshape(longitude.shape)


def _centre(weight: np.ndarray, latitude: np.ndarray, longitude: np.ndarray) -> tuple[float, float]:
    weight = np.maximum(weight, 0)
    return float((weight * latitude).sum() / weight.sum()), float((weight * longitude).sum() / weight.sum())


def _map_inside_mask(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score, latitude and longitude of the map's cells that the mask has."""
    with rasterio.open(folder / "mask.tif") as source:
        cells = np.nonzero(source.read(1) == 1)
    with rasterio.open(folder / "enhancement.tif") as source:
        score = np.nan_to_num(source.read(1))[cells]
        latitude, longitude = _cells_on_globe(source, *cells)
    return score, latitude, longitude


def _cells_on_globe(source: Any, rows: Any, cols: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b, c, d, e, f = tuple(source.transform)[:6]
    across, down = np.asarray(cols) + 0.5, np.asarray(rows) + 0.5
    x, y = a * across + b * down + c, d * across + e * down + f
    lon, lat = rasterio.warp.transform(source.crs, "EPSG:4326", x.tolist(), y.tolist())
    return np.array(lat), np.array(lon)


def places_of_squares(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes of the middles of what a map of scores shows above half its maximum, piece by piece."""
    with rasterio.open(path) as source:
        score = np.nan_to_num(source.read(1))
        pieces, count = ndimage.label(score > score.max() / 2, np.ones((3, 3)))
        middles = ndimage.center_of_mass(pieces > 0, pieces, range(1, count + 1))
        return _cells_on_globe(source, *np.transpose(middles))
