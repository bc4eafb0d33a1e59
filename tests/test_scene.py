"""Scenes and tiles refuse what contradicts itself, and say what was expected and what came."""

from dataclasses import replace

import numpy as np
import pytest

from flame.scene import Acquisition, BandSet, GeoGrid, Scene, SceneError
from flame.tile import LabelledTile, TileError

BANDS = BandSet(np.array([2200.0, 2300.0, 2350.0, 2400.0]), np.full(4, 6.0))


def make_scene(**changes):
    fields = {
        "radiance": np.ones((4, 5, 6), dtype=np.float32),
        "bands": BANDS,
        "valid": np.ones((5, 6), dtype=bool),
        "acquisition": Acquisition(source="tile_7"),
    }
    return Scene(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radiance": np.ones((3, 5, 6), np.float32)}, "3 bands but 4 band centres"),
        ({"valid": np.ones((6, 5), bool)}, r"shape \(5, 6\), got bool \(6, 5\)"),
        ({"valid": np.zeros((5, 6), bool)}, "no valid pixel among 30"),
        ({"rgb": np.ones((3, 5, 5), np.float32)}, "RGB must have shape"),
        ({"unit": "W m-2 um-1 sr-1"}, "must be in uW cm-2 nm-1 sr-1, got W m-2 um-1 sr-1"),
        ({"geo": GeoGrid(latitude_deg=np.zeros((4, 4)), longitude_deg=np.zeros((4, 4)))}, "latitude and longitude"),
        ({"radiance": np.full((4, 5, 6), np.nan, np.float32)}, "NaN or infinite radiance under pixels marked valid"),
    ],
)
def test_refuses_and_names_the_source(changes, message):
    with pytest.raises(SceneError, match=message) as caught:
        make_scene(**changes)
    assert "tile_7" in str(caught.value)


def test_nan_under_an_invalid_pixel_is_allowed():
    radiance = np.ones((4, 5, 6), np.float32)
    radiance[:, 2, 3] = np.nan
    valid = np.ones((5, 6), bool)
    valid[2, 3] = False
    assert make_scene(radiance=radiance, valid=valid).shape == (5, 6)


def test_methane_selects_the_window_and_keeps_the_rest():
    scene = make_scene(
        radiance=np.arange(120, dtype=np.float32).reshape(4, 5, 6),
        bands=BandSet(np.array([1650.0, 2200.0, 2300.0, 2350.0]), np.full(4, 6.0)),
    )
    methane = scene.methane()
    np.testing.assert_array_equal(methane.bands.centres_nm, [2200.0, 2300.0, 2350.0])
    np.testing.assert_array_equal(methane.radiance, scene.radiance[1:])
    assert methane.acquisition is scene.acquisition


def test_methane_needs_three_bands():
    scene = make_scene(bands=BandSet(np.array([1600.0, 1650.0, 2300.0, 2350.0]), np.full(4, 6.0)))
    with pytest.raises(SceneError, match="only 2 bands between 2122 and 2484 nm"):
        scene.methane()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"crs": "EPSG:32613"}, "both a CRS and an affine"),
        ({"latitude_deg": np.zeros((2, 2))}, "both latitude and longitude"),
        ({}, "either CRS and affine"),
        (
            {"latitude_deg": np.zeros((2, 2)), "longitude_deg": np.zeros((2, 3))},
            r"shape \(2, 2\) and longitude \(2, 3\)",
        ),
    ],
)
def test_half_a_geolocation_is_refused(fields, message):
    with pytest.raises(SceneError, match=message):
        GeoGrid(**fields)


def test_tile_layers_have_one_size():
    tile = LabelledTile("a", make_scene(), np.zeros((5, 6), bool))
    assert not tile.has_plume
    with pytest.raises(TileError, match=r"enhancement_ppm_m has shape \(6, 5\)"):
        replace(tile, enhancement_ppm_m=np.zeros((6, 5), np.float32))


def test_a_plume_under_invalid_pixels_does_not_count():
    label = np.zeros((5, 6), bool)
    label[1, 1] = True
    valid = np.ones((5, 6), bool)
    assert LabelledTile("a", make_scene(valid=valid), label).has_plume
    assert not LabelledTile("a", make_scene(valid=valid & ~label), label).has_plume
