"""GeoTIFF and GeoJSON say the same places and values that the arrays do."""

import json

import numpy as np
import pytest
import rasterio
from rasterio.warp import transform

from flame.detection import find_plumes
from flame.physics import kg_per_m2_from_ppm_m
from flame.plumes import LightPath
from flame.products.geojson import write_geojson
from flame.products.geolocate import longitude_latitude, map_grid, pixel_area_m2
from flame.products.geotiff import write_cog
from flame.scene import Acquisition, GeoGrid

LIGHT = LightPath(1.2, "for the test")
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
    write_geojson(tmp_path / "plumes.geojson", plumes, geo, LIGHT, {"source": "here"})
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
    assert known["area_m2"] == pytest.approx(194 * area_m2, rel=1e-5)
    inside = np.zeros_like(mask)
    inside[10:20, 30:50] = mask[10:20, 30:50]
    column_ppm_m_px = float(score[inside].sum()) / LIGHT.factor
    assert known["mass_kg"] == pytest.approx(kg_per_m2_from_ppm_m(column_ppm_m_px) * area_m2, rel=1e-5)
    assert known["light_path_factor"] == pytest.approx(LIGHT.factor, abs=1e-4)
    assert known["source"] == "here"


def test_plumes_without_a_position_keep_their_pixels(tmp_path):
    mask, probability, score = _maps()
    write_geojson(tmp_path / "p.geojson", find_plumes(mask, probability, score), None)
    feature = json.loads((tmp_path / "p.geojson").read_text())["features"][1]
    assert feature["geometry"] is None
    assert [40, 5] in feature["properties"]["outline_px"][0][0]
    assert "mass_kg" not in feature["properties"]


@pytest.mark.parametrize(
    ("sun", "view", "factor", "basis"),
    [
        (55.0, 18.0, 1.331, "angles of sun and sensor"),
        (60.0, None, 3 / 2.1, "angle of the sun; the sensor taken as straight above"),
        (None, 18.0, 1.0, "not known"),
        (float("nan"), 18.0, 1.0, "not known"),
        (89.9, 18.0, 1.0, "not known"),
        (-5.0, 18.0, 1.0, "not known"),
    ],
)
def test_mass_takes_out_the_lights_path(sun, view, factor, basis, tmp_path):
    light = LightPath.of(Acquisition(solar_zenith_deg=sun, view_zenith_deg=view))
    assert light.factor == pytest.approx(factor, abs=5e-4)
    assert basis in light.basis
    mask, probability, score = _maps()
    plumes = find_plumes(mask, probability, score)
    masses = []
    for name, path in (("with", light), ("without", LightPath())):
        write_geojson(tmp_path / name, plumes, UTM, path)
        masses.append(json.loads((tmp_path / name).read_text())["features"][0]["properties"]["mass_kg"])
    assert masses[1] / masses[0] == pytest.approx(light.factor, rel=1e-3)


def test_a_simulated_plume_weighs_what_was_put_in(tmp_path):
    """The enhancement a retrieval would report, summed and weighed, gives back the simulator's own column."""
    from flame.physics import airmass_of, path_factor

    column_ppm_m = np.zeros((40, 40))
    column_ppm_m[10:20, 10:20] = 1000.0
    seen = column_ppm_m * path_factor(airmass_of(55.0, 18.0))
    plumes = find_plumes(column_ppm_m > 0, (column_ppm_m > 0).astype(float), seen)
    light = LightPath.of(Acquisition(solar_zenith_deg=55.0, view_zenith_deg=18.0))
    write_geojson(tmp_path / "p", plumes, UTM, light)
    mass_kg = json.loads((tmp_path / "p").read_text())["features"][0]["properties"]["mass_kg"]
    true_kg = 100 * 1000.0 * kg_per_m2_from_ppm_m() * pixel_area_m2(UTM, 15.0, 15.0)
    assert mass_kg == pytest.approx(true_kg, rel=1e-3)


def test_pixel_areas_are_those_of_the_ellipsoid():
    """A grid of degrees has the area that the ellipsoid's radii of curvature give, at any latitude."""
    e2, a = 0.00669437999, 6_378_137.0
    for north in (0.0, 32.0, 60.0, -75.0, 89.0):
        geo = GeoGrid(crs="EPSG:4326", affine=(1e-3, 0.0, 10.0, 0.0, -1e-3, north))
        lat = np.deg2rad(north - 5e-4)
        w2 = 1 - e2 * np.sin(lat) ** 2
        expected = np.deg2rad(1e-3) ** 2 * a**2 * (1 - e2) / w2**2 * np.cos(lat)
        assert pixel_area_m2(geo, 0.5, 0.5) == pytest.approx(expected, rel=1e-6)


def _features(tmp_path, geo, mask):
    score = np.where(mask, 500.0, 0.0)
    write_geojson(tmp_path / "p", find_plumes(mask, mask.astype(float), score), geo)
    text = (tmp_path / "p").read_text()
    return json.loads(text)["features"]


def _globe_area(geometry):
    """Area of a feature in square degrees, and its longitudes."""
    parts = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
    total, lon = 0.0, []
    for rings in parts:
        for number, ring in enumerate(rings):
            x, y = np.array(ring).T
            assert ring[0] == ring[-1]
            assert _turns_left(ring) == (number == 0)
            total += np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2
            lon.extend(x)
    return total, np.array(lon), len(parts)


def _dateline_grid(kind, shape=(30, 40)):
    if kind == "map grid":
        return GeoGrid(crs="EPSG:32601", affine=(500.0, 0.0, 155_000.0, 0.0, -500.0, 100_000.0))
    r, c = np.mgrid[0 : shape[0], 0 : shape[1]] + 0.5
    lon = 179.9 + 5e-3 * c + 1e-3 * r
    return GeoGrid(latitude_deg=-17.0 - 5e-3 * r, longitude_deg=(lon + 180) % 360 - 180)


@pytest.mark.parametrize("kind", ["map grid", "swath"])
def test_a_plume_over_the_date_line_is_cut_there(kind, tmp_path):
    geo = _dateline_grid(kind)
    mask = np.zeros((30, 40), dtype=bool)
    mask[5:25, 2:38] = True
    mask[10:12, 15:20] = False  # a hole
    mask[14:16, 2:34] = False  # a bay: the line crosses the outline several times
    (feature,) = _features(tmp_path, geo, mask)
    area, lon, parts = _globe_area(feature["geometry"])
    assert feature["geometry"]["type"] == "MultiPolygon"
    assert parts >= 2
    assert np.abs(lon).max() == 180.0
    assert np.abs(lon).min() > 179
    # The same plume moved by 10 degrees is one polygon of the same area.
    away = _dateline_grid("swath")
    if kind == "swath":
        moved = GeoGrid(latitude_deg=away.latitude_deg, longitude_deg=(away.longitude_deg - 10 + 180) % 360 - 180)
        (plain,) = _features(tmp_path, moved, mask)
        assert plain["geometry"]["type"] == "Polygon"
        assert area == pytest.approx(_globe_area(plain["geometry"])[0], rel=1e-5)
    assert feature["properties"]["mass_kg"] > 0


def test_a_plume_around_a_pole_holds_the_pole(tmp_path):
    geo = GeoGrid(crs="EPSG:32661", affine=(1000.0, 0.0, 1_980_000.0, 0.0, -1000.0, 2_020_000.0))
    mask = np.zeros((40, 40), dtype=bool)
    mask[10:30, 10:30] = True
    (feature,) = _features(tmp_path, geo, mask)
    area, lon, _ = _globe_area(feature["geometry"])
    lat = [y for part in feature["geometry"]["coordinates"] for ring in part for _, y in ring]
    assert max(lat) == 90.0
    assert (lon.min(), lon.max()) == (-180.0, 180.0)
    mean_m = (
        10_000 / 0.994 * np.log(1 + np.sqrt(2)) / (np.pi / 4)
    )  # mean distance from the middle of a square to its sides
    assert area == pytest.approx(360 * mean_m / 111_694, rel=0.01)
    assert feature["properties"]["area_m2"] == pytest.approx(
        400e6, rel=0.02
    )  # the map stretches by half a percent there


def test_positions_that_are_not_known_give_no_null_coordinates(tmp_path):
    geo = swath()
    geo.latitude_deg[14, 38] = np.nan  # inside the first plume's hole, next to its pixels
    geo.longitude_deg[44:60, 0:12] = np.nan  # under and around the second
    mask, _, _ = _maps()
    first, second = _features(tmp_path, geo, mask)
    assert "null" not in json.dumps(first)
    known = {tuple(corner) for ring in first["geometry"]["coordinates"] for corner in ring}
    (whole,) = _features(tmp_path, swath(), np.where(np.arange(60)[:, None] < 30, mask, False))
    np.testing.assert_allclose(
        sorted(known), sorted({tuple(c) for ring in whole["geometry"]["coordinates"] for c in ring}), atol=1e-6
    )
    geo.latitude_deg[40:44] = np.nan
    _, second = _features(tmp_path, geo, mask)
    assert second["geometry"] is None
    assert second["properties"]["position"] == "not known for every corner of the outline"
    assert second["properties"]["outline_px"]
    assert second["properties"]["mass_kg"] is None


def test_plumes_at_the_edge_of_what_is_known_keep_their_place(tmp_path):
    """Fill beside a swath has no latitude; a plume that ends there still has exact corners."""
    geo, whole = swath(), swath()
    for field in (geo.latitude_deg, geo.longitude_deg):
        field[:, 50:] = np.nan
        field[:10] = np.nan
    mask = np.zeros((60, 80), dtype=bool)
    mask[10:20, 30:50] = True
    (got,), (expected,) = _features(tmp_path, geo, mask), _features(tmp_path, whole, mask)
    np.testing.assert_allclose(got["geometry"]["coordinates"], expected["geometry"]["coordinates"], atol=2e-7)


def _strewn(shape=(30, 30)):
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(-90, 90, shape), rng.uniform(-180, 180, shape)
    lat[0, :2], lon[0, :2] = 0.0, (0.0, 1e-9)
    lat[1::2], lon[1::2] = lat[::2] + 1e-7, lon[::2]
    return GeoGrid(latitude_deg=lat, longitude_deg=lon)


@pytest.mark.parametrize(
    "geo",
    [
        _strewn(),
        GeoGrid(latitude_deg=np.full((30, 30), np.nan), longitude_deg=np.zeros((30, 30))),
        GeoGrid(latitude_deg=np.full((30, 30), 12.0), longitude_deg=np.full((30, 30), 5.0)),
        GeoGrid(latitude_deg=np.full((30, 30), 1e30), longitude_deg=np.full((30, 30), -1e30)),
    ],
    ids=["strewn", "nowhere", "one point", "beyond the Earth"],
)
def test_positions_that_make_no_map_give_maps_without_one(geo, tmp_path):
    layer = np.ones((30, 30), dtype=np.float32)
    write_cog(tmp_path / "a.tif", layer, layer > 0, map_grid(geo), "ones")
    with rasterio.open(tmp_path / "a.tif") as file:
        assert file.crs is None
        np.testing.assert_array_equal(file.read(1), layer)


def test_a_swath_over_the_pole_lands_on_a_polar_map(tmp_path):
    y, x = np.mgrid[-15:15, -20:20] * 1000.0 + 500.0
    lon, lat = transform("EPSG:3995", "EPSG:4326", x.ravel().tolist(), y.ravel().tolist())
    geo = GeoGrid(latitude_deg=np.reshape(lat, x.shape), longitude_deg=np.reshape(lon, x.shape))
    score = np.random.default_rng(0).random(x.shape).astype(np.float32)
    write_cog(tmp_path / "s.tif", score, np.ones(x.shape, dtype=bool), map_grid(geo), "score")
    with rasterio.open(tmp_path / "s.tif") as file:
        stored, inverse = file.read(1), ~file.transform
        assert file.crs.to_epsg() == 3995
        assert stored.size < 4 * score.size
    places = [inverse @ (x[at], y[at]) for at in np.ndindex(x.shape)]
    hit = [stored[int(row), int(col)] == score[at] for (col, row), at in zip(places, np.ndindex(x.shape), strict=True)]
    assert np.mean(hit) > 0.95


def test_tags_and_names_of_any_letters_are_written(tmp_path):
    layer = np.ones((4, 4), dtype=np.float32)
    write_cog(tmp_path / "a.tif", layer, layer > 0, map_grid(UTM), "ones", {"source": "\udcff$\n=<x>"})
    with rasterio.open(tmp_path / "a.tif") as file:
        assert file.tags()["source"] == "\\udcff$\\n=<x>"
