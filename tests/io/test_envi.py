"""ENVI cubes of every interleave and byte order, and headers of several spellings."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from envi_samples import AXES, CENTRES_NM, cube_of, list_of, write_envi

from flame.io import OpenOptions, ReaderError, read_envi, read_scene
from flame.io.radiance_unit import find_radiance_unit
from flame.physics import RADIANCE_UNIT

MAP_INFO = "{ UTM, 1, 1, 724522.0, 4074620.0, 2.0, 2.0, 12, North, WGS-84, units=Meters }"


@pytest.mark.parametrize("interleave", list(AXES))
@pytest.mark.parametrize("byte_order", [0, 1])
@pytest.mark.parametrize("offset", [0, 32])
def test_every_layout_gives_the_same_scene(tmp_path: Path, interleave: str, byte_order: int, offset: int) -> None:
    cube = cube_of()
    path = write_envi(tmp_path / "line_rdn", cube, interleave, byte_order, offset, wavelength=list_of(CENTRES_NM))
    scene = read_scene(path)
    np.testing.assert_array_equal(scene.radiance, cube[4:])
    np.testing.assert_array_equal(scene.rgb, cube[[2, 1, 0]])
    np.testing.assert_array_equal(scene.bands.centres_nm, CENTRES_NM[4:])
    assert scene.valid.all()


def test_the_header_or_the_binary_may_be_named(tmp_path: Path) -> None:
    write_envi(tmp_path / "line", cube_of(), wavelength=list_of(CENTRES_NM))
    (tmp_path / "line").rename(tmp_path / "line.img")
    from_header, from_binary = read_scene(tmp_path / "line.hdr"), read_scene(tmp_path / "line.img")
    np.testing.assert_array_equal(from_header.radiance, from_binary.radiance)


def test_a_window_is_that_part_of_the_scene(tmp_path: Path) -> None:
    path = write_envi(tmp_path / "line", cube_of(9, 11), wavelength=list_of(CENTRES_NM), map_info=MAP_INFO)
    whole, part = read_envi(path), read_envi(path, slice(2, 6), slice(3, 11))
    np.testing.assert_array_equal(part.radiance, whole.radiance[:, 2:6, 3:11])
    assert whole.geo.crs == part.geo.crs == "EPSG:32612"
    assert whole.geo.affine == (2.0, 0.0, 724522.0, 0.0, -2.0, 4074620.0)
    assert part.geo.affine == (2.0, 0.0, 724522.0 + 3 * 2, 0.0, -2.0, 4074620.0 - 2 * 2)


def test_a_rotated_grid_stays_rotated(tmp_path: Path) -> None:
    rotated = MAP_INFO.replace(" }", ", rotation=30.0 }")
    path = write_envi(tmp_path / "line", cube_of(), wavelength=list_of(CENTRES_NM), map_info=rotated)
    a, b, _, d, e, _ = read_envi(path).geo.affine
    assert abs(a) == pytest.approx(2 * np.cos(np.pi / 6))
    assert abs(b) == abs(d) == pytest.approx(2 * np.sin(np.pi / 6))
    assert a * e - b * d == pytest.approx(-4.0)


@pytest.mark.parametrize(("unit", "factor"), [("Nanometers", 1.0), ("Micrometers", 1e-3), (None, 1e-3)])
def test_wavelengths_in_either_unit(tmp_path: Path, unit: str | None, factor: float) -> None:
    fields = {"wavelength": list_of(CENTRES_NM * factor), "fwhm": list_of(np.full(8, 5.5) * factor)}
    if unit:
        fields["wavelength_units"] = unit
    scene = read_envi(write_envi(tmp_path / "line", cube_of(), **fields))
    np.testing.assert_allclose(scene.bands.centres_nm, CENTRES_NM[4:], rtol=1e-8)
    np.testing.assert_allclose(scene.bands.fwhm_nm, 5.5)
    assert "fwhm" not in scene.acquisition.extra


def test_bands_in_disorder_are_put_in_order_with_their_radiance(tmp_path: Path) -> None:
    order = np.array([7, 0, 5, 3, 6, 1, 4, 2])
    cube = cube_of()
    path = write_envi(tmp_path / "line", cube[order], wavelength=list_of(CENTRES_NM[order]))
    np.testing.assert_array_equal(read_envi(path).radiance, cube[4:])


def test_bad_bands_are_left_out(tmp_path: Path) -> None:
    bbl = list_of(np.array([1, 1, 1, 1, 1, 0, 1, 1]))
    scene = read_envi(write_envi(tmp_path / "line", cube_of(), wavelength=list_of(CENTRES_NM), bbl=bbl))
    np.testing.assert_array_equal(scene.bands.centres_nm, CENTRES_NM[[4, 6, 7]])


def test_missing_widths_come_from_the_sensor_that_has_these_bands(tmp_path: Path) -> None:
    emit_like = np.array([2300.7378, 2308.136, 2315.5342])
    path = write_envi(tmp_path / "line", cube_of(bands=3), wavelength=list_of(emit_like))
    scene = read_envi(path)
    assert "nominal of emit" in scene.acquisition.extra["fwhm"]
    assert (scene.bands.fwhm_nm > 8).all()


def test_fill_values_are_invalid_pixels(tmp_path: Path) -> None:
    cube = cube_of()
    cube[5, 0, 0] = -9999.0
    cube[6, 1, 1] = np.nan
    cube[7, 2, 2] = 555.0
    cube[:, 3, 3] = 0.0
    path = write_envi(tmp_path / "line", cube, wavelength=list_of(CENTRES_NM), data_ignore_value="555")
    scene = read_envi(path)
    assert sorted(zip(*np.nonzero(~scene.valid), strict=True)) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert scene.acquisition.extra["invalid_pixels"] == "4"


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        ("uW nm-1 cm-2 sr-1", RADIANCE_UNIT),
        ("AVIRIS-NG calibrated radiance (µW/nm/cm2/sr)", RADIANCE_UNIT),
        ("microwatts per square centimeter per nanometer per steradian", RADIANCE_UNIT),
        ("mW/(cm^2*um*sr)", RADIANCE_UNIT),
        ("W/m2/um/sr", "W m-2 um-1 sr-1"),
        ("W m^-2 sr^-1 nm^-1", "W m-2 nm-1 sr-1"),
        ("mW/m^2/nm/sr", "mW m-2 nm-1 sr-1"),
        ("surface reflectance", None),
        ("units of m and nm", None),
    ],
)
def test_units_are_recognised_in_words(words: str, unit: str | None) -> None:
    assert find_radiance_unit(words) == unit


def test_radiance_is_converted(tmp_path: Path) -> None:
    cube = cube_of()
    path = write_envi(tmp_path / "a", cube, wavelength=list_of(CENTRES_NM), radiance_units="W/m2/um/sr")
    np.testing.assert_allclose(read_envi(path).radiance, cube[4:] * 0.1, rtol=1e-6)
    np.testing.assert_allclose(read_envi(path, unit="W m-2 nm-1 sr-1").radiance, cube[4:] * 100, rtol=1e-6)


def test_a_unit_told_against_the_file_is_noted(tmp_path: Path) -> None:
    path = write_envi(tmp_path / "a", cube_of(), wavelength=list_of(CENTRES_NM), radiance_units="W/m2/um/sr")
    told = read_scene(path, OpenOptions(unit="W m-2 nm-1 sr-1")).acquisition.extra
    assert told["radiance_unit"].endswith("the file or its product says W m-2 um-1 sr-1")
    assert "with --unit, against W m-2 um-1 sr-1" in told["radiance_unit_conflict"]
    for same in (OpenOptions(unit="W m-2 um-1 sr-1"), OpenOptions(scale=0.1), OpenOptions()):
        assert "radiance_unit_conflict" not in read_scene(path, same).acquisition.extra


@pytest.mark.parametrize("unit", ["Wavenumber", "GHz", "Index"])
def test_wavelengths_in_another_unit_are_never_taken_for_nanometers(unit: str, tmp_path: Path) -> None:
    path = write_envi(tmp_path / "a", cube_of(), wavelength=list_of(CENTRES_NM), wavelength_units=unit)
    with pytest.raises(ReaderError, match=f"wavelength units are '{unit.lower()}'; give the wavelengths in nano"):
        read_scene(path)


def test_an_unstated_unit_is_never_guessed(tmp_path: Path) -> None:
    path = write_envi(tmp_path / "a", cube_of(), state_unit=False, wavelength=list_of(CENTRES_NM))
    with pytest.raises(ReaderError, match="does not say its radiance unit; pass --unit"):
        read_scene(path)
    told = read_scene(path, OpenOptions(scale=0.5))
    np.testing.assert_allclose(told.radiance, cube_of()[4:] * 0.5, rtol=1e-6)
    assert "scale 0.5, as told" in told.acquisition.extra["radiance_unit"]


def test_the_products_of_aviris_ng_have_a_known_unit(tmp_path: Path) -> None:
    name = "ang20191018t144405_rdn_v2x1_img"
    path = write_envi(tmp_path / name, cube_of(), state_unit=False, wavelength=list_of(CENTRES_NM))
    assert "as the product is specified" in read_scene(path).acquisition.extra["radiance_unit"]


def test_gains_and_offsets_of_the_header_are_applied(tmp_path: Path) -> None:
    counts = (cube_of() * 100).astype(np.int16)
    gain, offset = np.linspace(0.01, 0.08, 8), np.linspace(-0.1, 0.1, 8)
    path = write_envi(
        tmp_path / "line",
        counts,
        wavelength=list_of(CENTRES_NM),
        data_gain_values=list_of(gain),
        data_offset_values=list_of(offset),
    )
    expected = counts * gain[:, None, None] + offset[:, None, None]
    np.testing.assert_allclose(read_envi(path).radiance, expected[4:], rtol=1e-5)


def test_sensor_and_time(tmp_path: Path) -> None:
    path = write_envi(
        tmp_path / "ang20191018t144405_rdn_img",
        cube_of(),
        wavelength=list_of(CENTRES_NM),
        acquisition_time="2019-10-18T14:44:05Z",
    )
    acquisition = read_envi(path).acquisition
    assert acquisition.sensor == "aviris-ng"
    assert acquisition.time == datetime(2019, 10, 18, 14, 44, 5, tzinfo=UTC)


def test_a_truncated_cube_is_refused(tmp_path: Path) -> None:
    path = write_envi(tmp_path / "line", cube_of(), wavelength=list_of(CENTRES_NM))
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ReaderError, match="truncated: 639 bytes, its header says 640"):
        read_envi(path)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "lists no wavelength"),
        ({"wavelength": "{2300, 2310}"}, "2 wavelength for 8 bands"),
        ({"wavelength": "{" + "a, " * 7 + "b}"}, "not a list of numbers"),
        ({"wavelength": list_of(np.linspace(400, 900, 8))}, "reach from 400 to 900 nm"),
        ({"wavelength": list_of(np.array([2300.0] * 8))}, "must increase"),
        ({"wavelength": list_of(CENTRES_NM), "units": "uW/m2/nm/sr"}, "is not known"),
        ({"wavelength": list_of(CENTRES_NM), "reflectance_scale_factor": "10000"}, "reflectance"),
    ],
)
def test_headers_that_cannot_be_right(tmp_path: Path, fields: dict[str, str], problem: str) -> None:
    path = write_envi(tmp_path / "line", cube_of(), **fields)
    with pytest.raises(ReaderError, match=problem) as caught:
        read_scene(path)
    assert "line" in str(caught.value)


def test_counts_need_a_unit(tmp_path: Path) -> None:
    counts = (cube_of() * 100).astype(np.int16)
    path = write_envi(tmp_path / "line", counts, state_unit=False, wavelength=list_of(CENTRES_NM))
    with pytest.raises(ReaderError, match="int16 values of no stated radiance unit"):
        read_scene(path)
    np.testing.assert_array_equal(read_envi(path, unit=RADIANCE_UNIT).radiance, counts[4:].astype(np.float32))


def test_a_cube_of_fill_values_only(tmp_path: Path) -> None:
    path = write_envi(tmp_path / "line", np.full((8, 2, 2), -9999.0, np.float32), wavelength=list_of(CENTRES_NM))
    with pytest.raises(ReaderError, match="no usable pixel"):
        read_envi(path)


def test_a_header_without_its_binary(tmp_path: Path) -> None:
    write_envi(tmp_path / "line", cube_of(), wavelength=list_of(CENTRES_NM)).unlink()
    with pytest.raises(ReaderError, match="binary file is not there"):
        read_scene(tmp_path / "line.hdr")
