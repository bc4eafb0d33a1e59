"""Damaged tiles and lists: each a clear error that names the file, and the other tiles go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
from io_samples import FEW_BANDS, make_tile, write_dataset, write_tif

from flame.io import ReaderError, TileFailure, starcop
from flame.physics import BandSet
from flame.tile import LabelledTile


def rewrite(folder: Path, name: str, change: Callable[[np.ndarray], None], **profile: object) -> None:
    with rasterio.open(folder / name) as source:
        values = source.read(1)
    change(values)
    write_tif(folder / name, values, **profile)


def test_a_truncated_tif_is_named(starcop_folder: Path) -> None:
    band = starcop_folder / "TOA_AVIRIS_2300nm.tif"
    os.truncate(band, band.stat().st_size - 60)
    with pytest.raises(ReaderError, match=r"TOA_AVIRIS_2300nm\.tif.*download it again"):
        starcop.read_tile(starcop_folder)


def test_a_tif_cut_to_nothing_is_named(starcop_folder: Path) -> None:
    os.truncate(starcop_folder / "labelbinary.tif", 0)
    with pytest.raises(ReaderError, match=r"labelbinary\.tif"):
        starcop.read_tile(starcop_folder)


@pytest.mark.parametrize("gone", [2124, 2300, 2480])
def test_a_missing_band_is_named_wherever_it_is(starcop_folder: Path, gone: int) -> None:
    (starcop_folder / f"TOA_AVIRIS_{gone}nm.tif").unlink()
    with pytest.raises(ReaderError, match=f"missing near {gone}"):
        starcop.read_tile(starcop_folder)


def test_a_missing_band_of_a_simulated_tile_is_named(tmp_path: Path) -> None:
    tile = make_tile(bands=FEW_BANDS)
    folder = starcop.write_tile(tile, tmp_path / tile.name)
    (folder / "TOA_AVIRIS_2299nm.tif").unlink()
    with pytest.raises(ReaderError, match=r"TOA_AVIRIS_2299nm\.tif.*not there"):
        starcop.read_tile(folder)


def test_the_version_without_all_bands_is_refused(starcop_folder: Path) -> None:
    for path in starcop_folder.glob("TOA_AVIRIS_2*nm.tif"):
        if path.name[11:15] not in ("2004", "2109", "2310", "2350", "2360"):
            path.unlink()
    with pytest.raises(ReaderError, match="all-bands"):
        starcop.read_tile(starcop_folder)


def test_one_missing_colour_is_an_error_but_none_at_all_is_not(starcop_folder: Path) -> None:
    (starcop_folder / "TOA_AVIRIS_550nm.tif").unlink()
    with pytest.raises(ReaderError, match=r"TOA_AVIRIS_550nm\.tif"):
        starcop.read_tile(starcop_folder)
    (starcop_folder / "TOA_AVIRIS_640nm.tif").unlink()
    (starcop_folder / "TOA_AVIRIS_460nm.tif").unlink()
    assert starcop.read_tile(starcop_folder).scene.rgb is None


def test_a_label_of_another_size(starcop_folder: Path) -> None:
    write_tif(starcop_folder / "labelbinary.tif", np.zeros((4, 8), dtype=np.uint8))
    with pytest.raises(ReaderError, match=r"labelbinary\.tif: has 4 x 8 pixels, .* 5 x 8"):
        starcop.read_tile(starcop_folder)


def test_a_label_that_is_no_mask(starcop_folder: Path) -> None:
    write_tif(starcop_folder / "labelbinary.tif", np.full((5, 8), 255, dtype=np.uint8))
    with pytest.raises(ReaderError, match=r"labelbinary\.tif.*0 and 1"):
        starcop.read_tile(starcop_folder)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -9999.0])
def test_fill_values_become_invalid_pixels(starcop_folder: Path, fill: float) -> None:
    def spoil(values: np.ndarray) -> None:
        values[2, 3] = fill

    rewrite(starcop_folder, "TOA_AVIRIS_2300nm.tif", spoil)
    scene = starcop.read_tile(starcop_folder).scene
    assert not scene.valid[2, 3]
    assert scene.acquisition.extra["invalid_pixels"] == "11"
    assert np.isfinite(scene.radiance).all()
    assert (scene.radiance[:, 2, 3] == 0).all()


def test_the_files_own_nodata_value(starcop_folder: Path) -> None:
    def spoil(values: np.ndarray) -> None:
        values[0, 0] = 777.0

    rewrite(starcop_folder, "TOA_AVIRIS_2300nm.tif", spoil, nodata=777.0)
    assert not starcop.read_tile(starcop_folder).scene.valid[0, 0]


def test_a_dark_band_is_not_padding(starcop_folder: Path) -> None:
    def darken(values: np.ndarray) -> None:
        values[1, 1] = 0.0
        values[1, 2] = -0.01

    rewrite(starcop_folder, "TOA_AVIRIS_2300nm.tif", darken)
    scene = starcop.read_tile(starcop_folder).scene
    assert scene.valid[1, 1]
    assert scene.valid[1, 2]


def test_a_tile_without_a_usable_pixel(starcop_folder: Path) -> None:
    rewrite(starcop_folder, "TOA_AVIRIS_2300nm.tif", lambda values: values.fill(-9999.0))
    with pytest.raises(ReaderError, match="no usable pixel"):
        starcop.read_tile(starcop_folder)


def test_a_valid_mask_beside_the_tile_is_kept_to(starcop_folder: Path) -> None:
    mask = np.ones((5, 8), dtype=np.uint8)
    mask[4] = 0
    write_tif(starcop_folder / "valid_mask.tif", mask)
    assert not starcop.read_tile(starcop_folder).scene.valid[4].any()


def test_a_damaged_truth(tmp_path: Path) -> None:
    tile = make_tile(bands=FEW_BANDS)
    folder = starcop.write_tile(tile, tmp_path / tile.name)
    (folder / "truth.json").write_text('{"version": 1}')
    with pytest.raises(ReaderError, match=r"truth\.json.*simulate the tile again"):
        starcop.read_tile(folder)


@pytest.mark.parametrize("name", ["../escape", "a/b", "", ".hidden", "space here", "trailing."])
def test_names_that_are_no_safe_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReaderError, match="safe"):
        starcop.write_tile(make_tile(name, bands=FEW_BANDS), tmp_path / "x")
    with pytest.raises(ReaderError, match="safe"):
        starcop.write_index(tmp_path, "train", [starcop.TileRecord(name, "train", has_plume=False)])


def test_a_tile_goes_into_the_folder_of_its_name(tmp_path: Path, tile: LabelledTile) -> None:
    with pytest.raises(ReaderError, match="not named as its tile"):
        starcop.write_tile(tile, tmp_path)


def test_two_bands_within_one_nm_do_not_overwrite_each_other(tmp_path: Path) -> None:
    tile = make_tile(bands=BandSet(np.array([2300.1, 2300.9]), np.array([5.0, 5.0])))
    with pytest.raises(ReaderError, match="same file name"):
        starcop.write_tile(tile, tmp_path / tile.name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("id,has_plume,qplume\n", "lists no tile"),
        ("name,has_plume\na,True\n", "lacks the column id"),
        ("id,qplume\na,1\n", "lacks the column has_plume"),
        ("id,has_plume\na,maybe\n", "line 2: has_plume is 'maybe'"),
        ("id,has_plume,qplume\na,True,much\n", "line 2: qplume is 'much'"),
        ("id,has_plume\n,True\n", "line 2: id"),
        ("id,has_plume\n../up,True\n", "line 2: id is '../up'"),
        ("id,has_plume\na,\n", "line 2: has_plume is ''"),
        ("id,has_plume\na,True\na,False\n", "a more than once"),
    ],
)
def test_lists_that_cannot_be_right(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(ReaderError, match=problem) as caught:
        starcop.read_dataset(tmp_path)
    assert "train.csv" in str(caught.value)


@pytest.mark.parametrize("rate", ["", "nan", "-9999"])
def test_an_unknown_rate_is_not_a_number(tmp_path: Path, rate: str) -> None:
    (tmp_path / "train.csv").write_text(f"id,has_plume,qplume\na,True,{rate}\n")
    assert starcop.read_index(tmp_path / "train.csv")[0].emission_kg_h is None


def test_no_list_at_all(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match=r"test\.csv: no list of the test tiles"):
        starcop.read_dataset(tmp_path, "test")


def test_of_several_lists_one_is_named(tmp_path: Path) -> None:
    for kind in ("easy", "mini10"):
        (tmp_path / f"train_{kind}.csv").write_text("id,has_plume\na,True\n")
    with pytest.raises(ReaderError, match=r"train_easy\.csv, train_mini10\.csv are; name one of them"):
        starcop.read_dataset(tmp_path, "train")
    assert len(starcop.read_dataset(tmp_path, "train_easy")) == 1


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Five tiles, two of them damaged and one absent."""
    names = [f"sim_{number}" for number in range(5)]
    write_dataset(tmp_path, names)
    os.truncate(tmp_path / "sim_1" / "TOA_AVIRIS_2124nm.tif", 200)
    (tmp_path / "sim_2" / "labelbinary.tif").unlink()
    (tmp_path / "sim_4").rename(tmp_path / "moved_away")
    return tmp_path


def test_other_tiles_go_on_and_the_failures_are_told(damaged: Path) -> None:
    failures: list[TileFailure] = []
    names = [tile.name for tile in starcop.read_dataset(damaged).tiles(failures)]
    assert names == ["sim_0", "sim_3"]
    assert [failure.name for failure in failures] == ["sim_1", "sim_2", "sim_4"]
    assert "TOA_AVIRIS_2124nm.tif" in failures[0].message
    assert "labelbinary.tif" in failures[1].message
    assert "folder is not there" in failures[2].message


def test_failures_that_nobody_takes_are_raised_after_the_last_tile(damaged: Path) -> None:
    tiles = starcop.read_dataset(damaged).tiles()
    assert [next(tiles).name, next(tiles).name] == ["sim_0", "sim_3"]
    with pytest.raises(ReaderError, match="3 of 5 tiles could not be read") as caught:
        next(tiles)
    assert all(name in str(caught.value) for name in ("sim_1", "sim_2", "sim_4"))


def test_when_no_tile_can_be_read_it_is_an_error_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("id,has_plume\na,True\n")
    with pytest.raises(ReaderError, match="1 of 1"):
        list(starcop.read_dataset(tmp_path).tiles([]))
