"""The registry picks the reader by looking at the path; NumPy chips."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from envi_samples import CENTRES_NM, cube_of, list_of, write_envi

from flame.io import READERS, ReaderError, read_scene
from flame.physics import sensor


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    """As the real-surface chips are: methane bands, then red, green and blue."""
    wavelength = np.array([2300, 2305, 2310, 640, 550, 460], dtype=np.float32)
    np.savez(tmp_path / "chip.npz", radiance=cube_of(bands=6), wavelength_nm=wavelength)
    return tmp_path / "chip.npz"


def test_each_format_is_recognised(tmp_path: Path, starcop_folder: Path, chip: Path) -> None:
    cube = write_envi(tmp_path / "cube", cube_of(), wavelength=list_of(CENTRES_NM))
    assert read_scene(starcop_folder).acquisition.extra["radiance_scaling"]
    assert read_scene(str(chip)).radiance.shape == (3, 4, 5)
    assert read_scene(cube).radiance.shape == (4, 4, 5)


@pytest.mark.parametrize("name", ["nothing", "picture.jpg", "folder"])
def test_what_no_reader_knows(tmp_path: Path, name: str) -> None:
    (tmp_path / "picture.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ReaderError) as caught:
        read_scene(tmp_path / name)
    assert name in str(caught.value)
    assert all(reader.looks_like in str(caught.value) for reader in READERS)


def test_a_header_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.hdr").write_text("BYTEORDER I\n")
    with pytest.raises(ReaderError, match="not in a format"):
        read_scene(tmp_path / "a.hdr")


def test_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(ReaderError("a.tif", "is truncated", "copy it again")))
    assert str(error) == "a.tif: is truncated; copy it again"
    assert error.path == Path("a.tif")


def test_a_chip(chip: Path) -> None:
    scene = read_scene(chip)
    stored = np.load(chip)["radiance"]
    np.testing.assert_array_equal(scene.radiance, stored[:3])
    np.testing.assert_array_equal(scene.rgb, stored[3:])
    np.testing.assert_array_equal(scene.bands.fwhm_nm, sensor("aviris-ng").bands.fwhm_nm[:3])
    assert "aviris-ng" in scene.acquisition.extra["fwhm"]


def test_what_a_chip_may_add(tmp_path: Path) -> None:
    valid = np.ones((4, 5), dtype=np.bool_)
    valid[0, 0] = False
    cube = cube_of(bands=3)
    np.savez(
        tmp_path / "chip.npz",
        radiance=cube.astype(np.float64),
        wavelength_nm=np.array([2300.0, 2305.0, 2310.0]),
        fwhm_nm=np.array([6.0, 6.1, 6.2]),
        valid=valid,
        unit="W m-2 um-1 sr-1",
    )
    scene = read_scene(tmp_path / "chip.npz")
    np.testing.assert_allclose(scene.radiance[:, valid], cube[:, valid] * 0.1, rtol=1e-6)
    np.testing.assert_array_equal(scene.valid, valid)
    np.testing.assert_array_equal(scene.bands.fwhm_nm, [6.0, 6.1, 6.2])
    assert scene.rgb is None


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"radiance": np.ones((3, 2, 2))}, "lacks wavelength_nm"),
        ({"radiance": np.ones((3, 2, 2)), "wavelength_nm": np.array([2300.0, 2310.0])}, r"shape \(3, 2, 2\)"),
        ({"radiance": np.zeros((1, 2, 2)), "wavelength_nm": np.array([2300.0])}, "no usable pixel"),
        ({"radiance": np.ones((1, 2, 2)), "wavelength_nm": np.array([800.0])}, "no usable band"),
        ({"radiance": np.ones((1, 2, 2)), "wavelength_nm": np.array([2300.0]), "unit": "K"}, "'K' is not known"),
        ({"radiance": np.array([None, {}]), "wavelength_nm": np.array([2300.0])}, "cannot be read"),
    ],
)
def test_chips_that_cannot_be_right(tmp_path: Path, arrays: dict[str, np.ndarray], problem: str) -> None:
    np.savez(tmp_path / "chip.npz", **arrays)
    with pytest.raises(ReaderError, match=problem) as caught:
        read_scene(tmp_path / "chip.npz")
    assert "chip.npz" in str(caught.value)


def test_a_truncated_chip(chip: Path) -> None:
    chip.write_bytes(chip.read_bytes()[:100])
    with pytest.raises(ReaderError, match="cannot be read"):
        read_scene(chip)
