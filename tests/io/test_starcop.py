"""The STARCOP layout: what is written is read back, and what STARCOP itself publishes is read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from io_samples import FEW_BANDS, STARCOP_CSV, STARCOP_NAME, STARCOP_NM, make_tile, write_dataset

from flame.io import OpenOptions, open_scene, starcop
from flame.io.starcop.layout import bands_from_names
from flame.physics import BandSet, sensor
from flame.tile import LabelledTile


def assert_same(read: LabelledTile, written: LabelledTile) -> None:
    valid = written.scene.valid
    assert read.name == written.name
    assert read.scene.bands == written.scene.bands
    np.testing.assert_array_equal(read.scene.valid, valid)
    np.testing.assert_array_equal(read.scene.radiance[:, valid], written.scene.radiance[:, valid])
    np.testing.assert_array_equal(read.scene.rgb[:, valid], written.scene.rgb[:, valid])
    np.testing.assert_array_equal(read.label, written.label)
    np.testing.assert_array_equal(read.enhancement_ppm_m, written.enhancement_ppm_m)
    assert read.emission_kg_h == written.emission_kg_h
    assert read.sources == written.sources


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(2, 9),
    cols=st.integers(1, 9),
    seed=st.integers(0, 99),
    on_map=st.booleans(),
    centres=st.lists(st.floats(2123.0, 2483.0), min_size=1, max_size=4, unique_by=int),
)
def test_round_trip_is_exact(
    tmp_path: Path, rows: int, cols: int, seed: int, on_map: bool, centres: list[float]
) -> None:
    bands = BandSet(np.sort(centres), np.linspace(5.1, 6.2, len(centres)))
    geo = make_tile().scene.geo if on_map else None
    written = make_tile("sim_0001", rows, cols, bands, seed, geo)
    read = starcop.read_tile(starcop.write_tile(written, tmp_path / "sim_0001"))
    assert_same(read, written)
    assert (read.scene.geo is not None) == on_map
    if on_map:
        assert (read.scene.geo.crs, read.scene.geo.affine) == (geo.crs, geo.affine)
    assert read.scene.acquisition.solar_zenith_deg == 31.5


def test_same_tile_gives_the_same_bytes(tmp_path: Path) -> None:
    tile = make_tile(bands=FEW_BANDS)
    first = starcop.write_tile(tile, tmp_path / "a" / tile.name)
    second = starcop.write_tile(tile, tmp_path / "b" / tile.name)
    files = sorted(path.name for path in first.iterdir())
    assert files == sorted(path.name for path in second.iterdir())
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in files)


def test_layout_is_starcops_own(tmp_path: Path, tile: LabelledTile) -> None:
    folder = starcop.write_tile(tile, tmp_path / tile.name)
    names = {path.name for path in folder.iterdir()}
    assert {"TOA_AVIRIS_2124nm.tif", "TOA_AVIRIS_640nm.tif", "labelbinary.tif", "enhancement_ppm_m.tif"} <= names
    assert len([name for name in names if name.startswith("TOA_AVIRIS_")]) == 75
    with rasterio.open(folder / "TOA_AVIRIS_2124nm.tif") as band:
        assert (band.count, band.dtypes[0], band.crs.to_epsg()) == (1, "float32", 32613)
        assert (band.read(1)[0] == 0).all(), "invalid pixels are zero padding, as in STARCOP"
    with rasterio.open(folder / "labelbinary.tif") as label:
        assert label.dtypes[0] == "uint8"


def test_writing_replaces_a_tile_whole(tmp_path: Path) -> None:
    tile, other = (make_tile(bands=FEW_BANDS, seed=seed) for seed in (1, 2))
    folder = starcop.write_tile(tile, tmp_path / tile.name)
    (folder / "stray.txt").write_text("left over")
    starcop.write_tile(other, folder)
    assert_same(starcop.read_tile(folder), other)
    assert [path.name for path in tmp_path.iterdir()] == [tile.name], "no temporary folder stays"
    assert not (folder / "stray.txt").exists()


def test_a_downloaded_tile(starcop_folder: Path) -> None:
    tile = starcop.read_tile(starcop_folder)
    scene = tile.scene
    assert tile.name == STARCOP_NAME
    assert scene.radiance.shape == (72, 5, 8), "the bands at 2004, 2109 and 2485 nm lie outside the methane window"
    np.testing.assert_array_equal(scene.valid, np.arange(8)[None, :].repeat(5, 0) < 6)
    assert 0.64 <= scene.rgb[0, 0, 0] <= 0.75
    assert 0.46 <= scene.rgb[2, 0, 0] <= 0.57
    np.testing.assert_array_equal(np.floor(scene.bands.centres_nm), STARCOP_NM)
    assert tile.label.sum() == 6
    assert tile.mag1c_ppm_m.max() == 1500
    assert tile.enhancement_ppm_m is None
    assert scene.acquisition.time == datetime(2019, 10, 18, 14, 44, 5, tzinfo=UTC)
    assert scene.acquisition.sensor == "aviris-ng"
    assert "sun zenith" in scene.acquisition.extra["radiance_scaling"]
    assert scene.acquisition.extra["invalid_pixels"] == "10"


def test_a_tile_needs_no_label_to_be_a_scene(starcop_folder: Path) -> None:
    (starcop_folder / "labelbinary.tif").unlink()
    assert starcop.read_tile_scene(starcop_folder).shape == (5, 8)


def test_a_unit_told_of_a_tile_is_noted_as_not_used(starcop_folder: Path) -> None:
    plain, told = open_scene(starcop_folder), open_scene(starcop_folder, OpenOptions(unit="W m-2 nm-1 sr-1"))
    np.testing.assert_array_equal(np.asarray(told.load().radiance), np.asarray(plain.load().radiance))
    assert "--unit was not used" in told.acquisition.extra["radiance_unit"]
    assert "radiance_unit" not in plain.acquisition.extra


def test_padding_adds_invalid_pixels_only(starcop_folder: Path) -> None:
    plain, padded = starcop.read_tile(starcop_folder), starcop.read_tile(starcop_folder, pad_to=12)
    assert padded.scene.radiance.shape == (72, 12, 12)
    assert padded.label.shape == padded.mag1c_ppm_m.shape == padded.scene.valid.shape == (12, 12)
    assert padded.scene.valid.sum() == plain.scene.valid.sum()
    np.testing.assert_array_equal(padded.scene.radiance[:, :5, :8], plain.scene.radiance)
    assert padded.scene.geo.affine == plain.scene.geo.affine, "padding below and on the right moves no corner"
    assert starcop.read_tile(starcop_folder, pad_to=3).scene.shape == (5, 8)


def test_the_published_csv(starcop_folder: Path) -> None:
    root = starcop_folder.parent
    (root / "test.csv").write_text(STARCOP_CSV.format(name=STARCOP_NAME))
    dataset = starcop.read_dataset(root, "test", pad_to=16)
    (record,) = dataset.records
    assert (record.split, record.difficulty, record.has_plume) == ("test", "easy", True)
    assert record.flight_line == "ang20191018t144405"
    (tile,) = dataset.tiles()
    assert tile.emission_kg_h == 6957.15116
    assert tile.scene.shape == (16, 16)


def test_smaller_downloads_name_their_csv_differently(starcop_folder: Path) -> None:
    root = starcop_folder.parent
    (root / "test_mini10.csv").write_text(STARCOP_CSV.format(name=STARCOP_NAME))
    (root / "test_mini10_tiled_128_64.csv").write_text("ours not to read")
    deeper = root / "STARCOP_allbands_Eval"
    deeper.mkdir()
    starcop_folder.rename(deeper / STARCOP_NAME)
    assert len(list(starcop.read_dataset(root, "test").tiles())) == 1


def test_index_round_trip(tmp_path: Path) -> None:
    write_dataset(tmp_path, ["sim_0001", "sim_0002"])
    records = starcop.read_index(tmp_path / "train.csv")
    assert [record.name for record in records] == ["sim_0001", "sim_0002"]
    assert all(record.has_plume and record.emission_kg_h == 812.25 and record.split == "train" for record in records)
    assert [tile.name for tile in starcop.read_dataset(tmp_path).tiles()] == ["sim_0001", "sim_0002"]


@given(first_nm=st.floats(2122, 2127))
def test_names_cut_to_whole_nm_give_the_centres_back(first_nm: float) -> None:
    step_nm = np.diff(sensor("aviris-ng").bands.centres_nm).mean()
    truth = first_nm + step_nm * np.arange(72)
    names = np.floor(truth).astype(int)
    wrong_nm = np.abs(bands_from_names(names).centres_nm - truth).max()
    # The centres drift by 0.62 nm against whole nm. Where a name skips one, the grid is known as well as the drift is
    # fine; where none does, what is left of 1 nm is halved.
    assert wrong_nm < (0.01 if np.ptp(np.diff(names)) else 0.2)
    assert wrong_nm < np.abs(names - truth).max()


def test_starcops_names_point_to_a_grid_of_its_flights() -> None:
    # 2269 is followed by 2275: only centres near 2124.74 nm + 5.0087 k cut to whole nm do that.
    centres = bands_from_names(np.array(STARCOP_NM)).centres_nm
    assert centres[0] == pytest.approx(2124.744, abs=0.01)
    assert centres[-1] == pytest.approx(2480.36, abs=0.01)


def test_names_of_no_even_grid_fall_back_to_half_a_nm() -> None:
    found = bands_from_names(np.array([2100, 2103, 2111]))
    np.testing.assert_array_equal(found.centres_nm, [2100.5, 2103.5, 2111.5])
