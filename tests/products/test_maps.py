"""GeoTIFF and GeoJSON say the same places and values that the arrays do."""

import json

import numpy as np
import pytest
import rasterio
from rasterio.warp import transform

from flame.detection import find_plumes
from flame.physics import kg_per_m2_from_ppm_m
from flame.products.geojson import write_geojson
from flame.products.geolocate import longitude_latitude, map_grid, pixel_area_m2
from flame.products.geotiff import write_cog
from flame.scene import GeoGrid

UTM = GeoGrid(crs="EPSG:32613", affine=(5.0, 0.0, 600_000.0, 0.0, -5.0, 3_560_000.0))


def swath(rows=60, cols=80):
    """A tilted swath of about 60 m pixels near the Permian Basin."""
    r, c = np.mgrid[0:rows, 0:cols] + 0.5
    lat = 32.0 - 5.0e-4 * r - 1.2e-4 * c
    lon = -104.0 + 6.0e-4 * c - 1.5e-4 * r
    return GeoGrid(latitude_deg=lat, longitude_deg=lon)


def _maps(shape=(60, 80)):
    rng = np.random.default_rng(0)
    mask = np.zeros(shape, dtype=bool)
    mask[10:20, 30:50] = mask[40:45, 5:9] = True
    mask[14:16, 38:41] = False
    return mask, rng.random(shape).astype(np.float32), rng.gamma(2, 500, shape).astype(np.float32)


def test_a_cog_gives_back_values_position_and_holes(tmp_path):
    _, probability, _ = _maps()
    usable = np.ones(probability.shape, dtype=bool)
    usable[:5] = False
    write_cog(tmp_path / "p.tif", probability, usable, map_grid(UTM), "plume probability", {"model": "tiny"})
    with rasterio.open(tmp_path / "p.tif") as file:
        assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert file.crs.to_epsg() == 32613
        assert tuple(file.transform)[:6] == UTM.affine
        assert file.descriptions == ("plume probability",)
        assert file.tags()["model"] == "tiny"
        stored = file.read(1)
    np.testing.assert_array_equal(stored[5:], probability[5:])
    assert np.isnan(stored[:5]).all()
    assert [p.name for p in tmp_path.iterdir()] == ["p.tif"]


def test_masks_are_bytes_with_255_for_unknown(tmp_path):
    mask, _, _ = _maps()
    usable = np.ones(mask.shape, dtype=bool)
    usable[-1] = False
    write_cog(tmp_path / "m.tif", mask, usable, map_grid(None), "plume")
    with rasterio.open(tmp_path / "m.tif") as file:
        stored = file.read(1)
        assert file.crs is None
        assert file.nodata == 255
    np.testing.assert_array_equal(stored[:-1], mask[:-1])
    assert (stored[-1] == 255).all()


def test_a_swath_lands_on_the_map_where_its_pixels_are(tmp_path):
    geo = swath()
    _, _, score = _maps()
    write_cog(tmp_path / "s.tif", score, np.ones(score.shape, dtype=bool), map_grid(geo), "score")
    with rasterio.open(tmp_path / "s.tif") as file:
        stored, inverse = file.read(1), ~file.transform
        assert file.crs.to_epsg() == 4326
    hit = 0
    for row in range(0, 60, 7):
        for col in range(0, 80, 7):
            x, y = inverse @ (geo.longitude_deg[row, col], geo.latitude_deg[row, col])
            hit += stored[int(y), int(x)] == score[row, col]
    assert hit >= 0.8 * 9 * 12  # the cell's centre may lie nearer to a neighbour
    assert set(stored[np.isfinite(stored)]) <= set(score.ravel())


def test_pixel_coordinates_agree_with_the_projection_library():
    lon, lat = longitude_latitude(UTM, np.array([0.0, 10.0]), np.array([0.0, 4.0]))
    expected = transform("EPSG:32613", "EPSG:4326", [600_000, 600_020], [3_560_000, 3_559_950])
    np.testing.assert_allclose([lon, lat], expected)
    assert pixel_area_m2(UTM, 5.0, 5.0) == pytest.approx(25.0, rel=0.01)


def test_swath_positions_are_exact_on_and_beyond_the_pixel_centres():
    geo = swath()
    row, col = np.array([0.0, 0.5, 30.25, 60.0]), np.array([0.0, 0.5, 79.5, 80.0])
    lon, lat = longitude_latitude(geo, row, col)
    np.testing.assert_allclose(lat, 32.0 - 5.0e-4 * row - 1.2e-4 * col, atol=1e-9)
    np.testing.assert_allclose(lon, -104.0 + 6.0e-4 * col - 1.5e-4 * row, atol=1e-9)


def _turns_left(ring):
    x, y = np.array(ring).T
    return np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) > 0


@pytest.mark.parametrize("geo", [UTM, swath()], ids=["map grid", "swath"])
def test_features_follow_the_standard_and_carry_the_plumes(geo, tmp_path):
    mask, probability, score = _maps()
    plumes = find_plumes(mask, probability, score)
    write_geojson(tmp_path / "plumes.geojson", plumes, geo, {"source": "here"})
    features = json.loads((tmp_path / "plumes.geojson").read_text())["features"]
    assert [f["properties"]["area_px"] for f in features] == [194, 20]
    first = features[0]
    assert first["geometry"]["type"] == "Polygon"
    exterior, hole = first["geometry"]["coordinates"]
    assert exterior[0] == exterior[-1]
    assert _turns_left(exterior)
    assert not _turns_left(hole)
    lon, lat = longitude_latitude(geo, np.array([10.0]), np.array([30.0]))
    assert [round(lon[0], 7), round(lat[0], 7)] in exterior
    known = first["properties"]
    area_m2 = pixel_area_m2(geo, plumes[0].centroid_row, plumes[0].centroid_col)
    assert known["area_m2"] == pytest.approx(194 * area_m2, rel=1e-3)
    assert known["mass_kg"] == pytest.approx(kg_per_m2_from_ppm_m(float(score[mask][:194].sum())) * area_m2, rel=0.2)
    assert known["source"] == "here"


def test_plumes_without_a_position_keep_their_pixels(tmp_path):
    mask, probability, score = _maps()
    write_geojson(tmp_path / "p.geojson", find_plumes(mask, probability, score), None)
    feature = json.loads((tmp_path / "p.geojson").read_text())["features"][1]
    assert feature["geometry"] is None
    assert [40, 5] in feature["properties"]["outline_px"][0][0]
    assert "mass_kg" not in feature["properties"]
