"""One file of each format through the commands: the plume is found where it was put, in the right place on Earth."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray
from pystac.validation import validate_dict
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "io"))

from eight_formats import FORMATS, SQUARES, found_plume, make_sample, places_of_squares

from flame.cli.app import app
from flame.io import open_scene
from flame.products.geolocate import longitude_latitude


def told(*words: object) -> str:
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.mark.parametrize("name", FORMATS)
def test_every_pixel_is_where_it_was_put(tmp_path: Path, name: str) -> None:
    """Half a pixel, a flipped axis or a shifted count would be seen at once; PRISMA's positions are float32."""
    sample = make_sample(name, tmp_path)
    down, across = np.indices(sample.ground.shape)
    geo = open_scene(sample.path).geo
    lon, lat = longitude_latitude(geo, down.ravel() + 0.5, across.ravel() + 0.5)
    off = sample.pixels_off(lat, lon, sample.latitude.ravel(), sample.longitude.ravel())
    assert off.max() < (0.02 if name == "PRISMA" else 0.001)


@pytest.mark.parametrize("name", FORMATS)
def test_small_sources_on_the_map(tmp_path: Path, name: str) -> None:
    """Four squares of 3 x 3 pixels, through the file, the filter and the map, which shows the nearest pixel in a cell:
    a middle of nine such cells is right to a fraction of a cell, so that half a pixel of error would be seen."""
    sample = make_sample(name, tmp_path, SQUARES)
    told("filter", "mag1c", sample.path, "--out", tmp_path / "score.tif")
    latitude, longitude = places_of_squares(tmp_path / "score.tif")
    assert len(latitude) == len(SQUARES)
    for middle in SQUARES:
        off = sample.pixels_off(latitude, longitude, sample.latitude[middle], sample.longitude[middle])
        assert off.min() < 0.25, middle


@pytest.mark.parametrize("name", FORMATS)
def test_info_and_detect(tmp_path: Path, name: str) -> None:
    sample = make_sample(name, tmp_path)
    facts = json.loads(told("info", sample.path, "--json"))
    assert (facts["rows"], facts["columns"]) == sample.ground.shape
    assert "flame-plus" in facts["would_run"]["model"]
    pixels = sample.ground.cloud.size
    assert facts["flagged_share"] == pytest.approx({name: count / pixels for name, count in sample.flags.items()})

    answer = told("detect", sample.path, "--out", tmp_path / "out")
    assert "noise-aware matched filter" not in answer
    folder = next(child for child in (tmp_path / "out").iterdir() if child.is_dir())
    found = found_plume(sample, folder)
    assert found.flags == sample.flags
    assert found.place < 0.05
    assert found.centre < 1.0
    assert found.holds_source
    assert found.peak_share > 0.75
    report = json.loads((folder / "detection.json").read_text())
    with xarray.open_dataset(folder / "maps.nc") as maps:
        assert maps["enhancement"].shape == sample.ground.shape
    if report["time"] is not None:
        item = json.loads((folder / "item.json").read_text())
        assert validate_dict(item, extensions=[])
        west, south, east, north = item["bbox"]
        assert west < sample.longitude.mean() < east
        assert south < sample.latitude.mean() < north
        assert (tmp_path / "out" / "collection.json").is_file()
    assert (folder / "report.html").stat().st_size < 1_000_000
