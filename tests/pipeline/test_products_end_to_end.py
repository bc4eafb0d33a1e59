"""One file of each format through the commands: the plume is found where it was put, in the right place on Earth."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
import rasterio.warp
import xarray
from pystac.validation import validate_dict
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "io"))

import product_files as files
from product_ground import Ground, make_ground

from flame.cli.app import app
from flame.io import starcop
from flame.scene import Acquisition, GeoGrid, Scene
from flame.tile import LabelledTile

FORMATS = {
    "emit": ("emit", files.write_emit, True),
    "aviris-ng": ("aviris-ng", files.write_aviris_ng, True),
    "aviris-3": ("aviris-3", files.write_aviris3, False),
    "enmap": ("enmap", files.write_enmap, False),
    "prisma": ("prisma", files.write_prisma, False),
    "tanager": ("tanager-1", files.write_tanager, True),
    "geotiff": ("generic-10nm", files.write_geotiff, False),
}
"""Sensor, how its file is made, and whether a packaged model was made for these bands."""


def write_starcop(folder: Path, ground: Ground) -> Path:
    """A STARCOP tile of the same ground, on the map of the gridded samples."""
    inside = ground.bands.within(2122.0, 2484.0)
    rgb = ground.radiance[[ground.bands.nearest(nm) for nm in (640.0, 550.0, 460.0)]]
    side, (left, top) = files.UTM_PIXEL, files.UTM_CORNER
    geo = GeoGrid(crs=files.UTM, affine=(side, 0.0, left, 0.0, -side, top))
    bands, seen = ground.bands.select(inside), Acquisition("aviris-ng")
    scene = Scene(ground.radiance[inside], bands, ~ground.cloud, rgb, geo, seen)
    tile = LabelledTile(f"{files.NG_LINE}_r0_c0_w80_h96", scene, ground.column_ppm_m > 500)
    return starcop.write_tile(tile, folder / tile.name)


def told(*words: object) -> str:
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def place_of_maximum(path: Path) -> tuple[float, float]:
    """Latitude and longitude of a map's strongest cell."""
    with rasterio.open(path) as source:
        values = np.nan_to_num(source.read(1), nan=-1.0)
        row, col = np.unravel_index(np.argmax(values), values.shape)
        x, y = source.xy(row, col)
        lon, lat = rasterio.warp.transform(source.crs, "EPSG:4326", [x], [y])
    return lat[0], lon[0]


@pytest.mark.parametrize("name", [*FORMATS, "starcop"])
def test_info_filter_and_detect(tmp_path: Path, name: str) -> None:
    sensor, write, has_model = FORMATS.get(name, ("aviris-ng", write_starcop, True))
    ground = make_ground(sensor)
    path = write(tmp_path, ground)
    row, col = ground.source
    truth = (ground.latitude[row, col], ground.longitude[row, col])
    if name in ("geotiff", "starcop"):
        truth = files.utm_place(row + 0.5, col + 0.5)
    pixel_m = files.UTM_PIXEL if name in ("geotiff", "starcop") else ground.pixel_m

    def pixels_off(lat: float, lon: float) -> float:
        return float(np.hypot(lat - truth[0], (lon - truth[1]) * np.cos(np.deg2rad(lat))) * 111_320.0 / pixel_m)

    facts = json.loads(told("info", path, "--json"))
    assert (facts["rows"], facts["columns"]) == ground.shape
    assert ("flame-plus" in facts["would_run"]["model"]) == has_model
    if name != "starcop":
        assert facts["flagged_share"]["cloud"] == pytest.approx(ground.cloud.mean())
        assert facts["flagged_share"]["water"] == pytest.approx(ground.water.mean())

    told("filter", "mag1c", path, "--out", tmp_path / "score.tif")
    assert pixels_off(*place_of_maximum(tmp_path / "score.tif")) < 1.0

    answer = told("detect", path, "--out", tmp_path / "out")
    assert ("noise-aware matched filter" in answer) == (not has_model)
    folder = next(child for child in (tmp_path / "out").iterdir() if child.is_dir())
    plumes = json.loads((folder / "plumes.geojson").read_text())["features"]
    assert plumes
    strongest = plumes[0]["properties"]
    assert pixels_off(strongest["peak_latitude"], strongest["peak_longitude"]) < 1.5
    report = json.loads((folder / "detection.json").read_text())
    assert pixels_off(*place_of_maximum(folder / "enhancement.tif")) < 1.5
    with xarray.open_dataset(folder / "maps.nc") as maps:
        at = np.unravel_index(int(np.nanargmax(maps["enhancement"])), maps["enhancement"].shape)
        assert np.hypot(at[0] - row, at[1] - col) < 2.0
    if report["time"] is not None:
        item = json.loads((folder / "item.json").read_text())
        assert validate_dict(item, extensions=[])
        west, south, east, north = item["bbox"]
        assert west < truth[1] < east
        assert south < truth[0] < north
        assert (tmp_path / "out" / "collection.json").is_file()
    assert (folder / "report.html").stat().st_size < 1_000_000
    if name != "starcop":
        assert report["pixels_flagged"]["cloud"] == int(ground.cloud.sum())
        assert report["pixels_flagged"]["water"] == int(ground.water.sum())
