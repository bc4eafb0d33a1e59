"""OxHyperSyntheticCH4 event folders, whose headers may have lost their wavelengths, and the 64/32 windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from envi_samples import cube_of, write_envi
from io_samples import make_tile, write_tif

from flame.io import ReaderError, oxhyper, read_scene
from flame.physics import sensor

SWIR_NM = np.array([2004.355, 2123.0063, 2130.4175, 2478.153])
"""Some of the centres that published headers list."""


def write_event(folder: Path, names: list[str], rows: int = 4, cols: int = 5, bands: int = 86) -> np.ndarray:
    folder.mkdir()
    cube = cube_of(rows, cols, bands)
    cube[:, 0, 0] = np.nan
    write_envi(folder / "B", cube, "bsq", band_names="{" + ", ".join(names) + "}")
    label = np.zeros((rows, cols), dtype=np.uint8)
    label[1, 2] = 1
    write_tif(folder / "labelbinary.tif", label)
    write_tif(folder / "B_magic30_tile.tif", label * np.float32(-1234.0))
    return cube


def test_an_event_whose_header_lost_its_wavelengths(tmp_path: Path) -> None:
    cube = write_event(tmp_path / "event", [f"Band {number}" for number in range(1, 87)])
    tile = oxhyper.read_tile(tmp_path / "event")
    scene = tile.scene
    assert len(scene.bands) == 49, "2123.0 to 2478.2 nm"
    np.testing.assert_allclose(scene.bands.centres_nm[[0, 1, -1]], SWIR_NM[1:], atol=0.15)
    np.testing.assert_array_equal(scene.radiance[:, scene.valid], cube[-49:][:, scene.valid])
    np.testing.assert_array_equal(scene.rgb[:, scene.valid], cube[[2, 1, 0]][:, scene.valid])
    assert scene.acquisition.extra["invalid_pixels"] == "1"
    assert not scene.valid[0, 0]
    assert scene.acquisition.sensor == "emit"
    assert tile.label.sum() == 1
    assert tile.mag1c_ppm_m.min() == -1234, "a matched filter may be negative"


def test_an_event_whose_bands_are_named_by_wavelength(tmp_path: Path) -> None:
    cube = write_event(tmp_path / "event", [f"{centre} ({centre})" for centre in SWIR_NM], bands=4)
    scene = read_scene(tmp_path / "event")
    np.testing.assert_array_equal(scene.bands.centres_nm, SWIR_NM[1:])
    np.testing.assert_array_equal(scene.radiance[:, scene.valid], cube[1:, scene.valid])
    assert scene.rgb is None


def test_a_wider_window_reaches_the_published_64_bands(tmp_path: Path) -> None:
    write_event(tmp_path / "event", [f"Band {number}" for number in range(1, 87)])
    assert len(oxhyper.read_tile(tmp_path / "event", window_nm=(2004.0, 2478.0)).scene.bands) == 64


def test_a_cube_of_unknown_bands_is_refused(tmp_path: Path) -> None:
    write_event(tmp_path / "event", [f"Band {number}" for number in range(1, 11)], bands=10)
    with pytest.raises(ReaderError, match="10 bands are not EMIT's 86 or 285"):
        oxhyper.read_tile(tmp_path / "event")


def test_a_folder_without_a_cube(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match="no ENVI cube B"):
        oxhyper.read_tile(tmp_path)


def test_the_published_lists(tmp_path: Path) -> None:
    write_event(tmp_path / "event_7", [f"Band {number}" for number in range(1, 87)])
    rows = "id,event_id,has_plume,qplume\nrow_0,event_7,True,900.5\nrow_1,event_8,False,0\n"
    (tmp_path / "val_filtered_v2.csv").write_text(rows)
    (tmp_path / "val_other.csv").write_text("not this one")
    dataset = oxhyper.read_dataset(tmp_path, "val")
    assert [record.name for record in dataset.records] == ["event_7", "event_8"]
    failures: list = []
    (tile,) = dataset.tiles(failures)
    assert tile.emission_kg_h == 900.5
    assert [failure.name for failure in failures] == ["event_8"]


def test_windows_of_a_full_tile_are_15_by_15() -> None:
    bands = sensor("emit").bands
    tile = make_tile("event", 512, 512, bands.select(bands.within(2300.0, 2310.0)))
    tile.scene.valid[:] = True
    cut = list(oxhyper.windows(tile))
    assert len(cut) == 15 * 15
    one = cut[16]
    assert one.name == "event_r32_c32_w64_h64"
    np.testing.assert_array_equal(one.scene.radiance, tile.scene.radiance[:, 32:96, 32:96])
    np.testing.assert_array_equal(one.enhancement_ppm_m, tile.enhancement_ppm_m[32:96, 32:96])
    assert one.scene.geo.affine[2::3] == (600000.0 + 32 * 5, 3500000.0 - 32 * 5)


def test_windows_with_too_little_valid_ground_are_left_out() -> None:
    tile = make_tile("event", 64, 128)
    tile.scene.valid[:] = False
    tile.scene.valid[:, 70:] = True
    kept = [window.name for window in oxhyper.windows(tile)]
    assert kept == ["event_r0_c64_w64_h64"], "58 of 64 columns are valid there, 26 and 0 in the others"
    assert len(list(oxhyper.windows(tile, min_valid_share=0.0))) == 2
