"""The quick look: readable at any shape of scene, plumes marked, and colours that mislead nobody."""

import numpy as np
import pytest
from page_samples import UTM, glt_grid, sample_maps, sample_record, sample_scene
from PIL import Image

from flame.plumes import plume_letters
from flame.products.map_view import MapView, degrees_text, round_length_m, round_step
from flame.products.quicklook import MarkedPlume, close_window, plot_quicklook, stretched_rgb
from flame.scene import GeoGrid

SHAPES = [(60, 80), (100, 500), (500, 100), (3000, 60), (60, 3000)]


def _draw(path, shape=(60, 80), geo=UTM, plumes=True, title="title"):
    scene = sample_scene(shape, geo)
    maps = sample_maps(scene)
    if not plumes:
        maps.mask[:] = False
    found = [MarkedPlume(r.plume, plume_letters(r.number), "1 kg") for r in sample_record(scene, maps).plumes]
    plot_quicklook(path, scene, maps, found, title, dpi=50)
    return np.asarray(Image.open(path).convert("RGB"))


def test_colours_are_stretched_by_valid_pixels_and_clouds_are_seen():
    scene = sample_scene()
    scene.rgb[:, ~scene.valid] = 1e6  # a cloud, not valid
    scene.rgb[:, 0, 0] = np.nan
    colours = stretched_rgb(scene)
    assert colours.min() >= 0
    assert colours.max() <= 1
    assert (colours[0, 1:9] == 1).all()
    assert (colours[0, 0] == np.float32(0.9)).all()  # no data
    assert colours[scene.valid].std() > 0.1


def test_one_stretch_keeps_the_hue():
    scene = sample_scene()
    scene.rgb[:] = np.array([6.0, 3.0, 1.5])[:, None, None] * scene.rgb[:1]
    red, green, blue = stretched_rgb(scene)[scene.valid].mean(axis=0)
    assert red > green > blue


def test_the_picture_shows_plumes_and_does_not_without(tmp_path):
    some, none = _draw(tmp_path / "some.png"), _draw(tmp_path / "none.png", plumes=False)
    cyan = [((p[..., 2] > 200) & (p[..., 0] < 120) & (p[..., 1] > 180)).sum() for p in (some, none)]
    assert cyan[0] > 50
    assert cyan[1] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["none.png", "some.png"]


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_fills_its_picture(shape, tmp_path):
    """A picture of a sensible form, of which the scene itself covers a good part, however long the strip."""
    picture = _draw(tmp_path / "a.png", shape, plumes=False)
    rows, cols = picture.shape[:2]
    assert 0.25 < rows / cols < 4
    white = (picture > 250).all(axis=2)
    assert 1 - white.mean() > 0.35


@pytest.mark.parametrize("geo", [None, UTM, glt_grid((60, 80))], ids=["nowhere", "map grid", "swath"])
def test_any_place_is_drawn(geo, tmp_path):
    assert _draw(tmp_path / "a.png", geo=geo, title="$\\frac{$ <x>").std() > 10


def test_a_close_view_holds_its_plume():
    scene = sample_scene()
    maps = sample_maps(scene)
    view = MapView.of(scene.geo, scene.shape)
    for record in sample_record(scene, maps).plumes:
        rows, cols = close_window(view, record.plume)
        assert 0 <= rows.start <= record.plume.first_row < record.plume.end_row <= rows.stop <= 60
        assert 0 <= cols.start <= record.plume.first_col < record.plume.end_col <= cols.stop <= 80


def test_maps_know_their_size_and_north():
    view = MapView.of(UTM, (60, 80))
    assert view.cell_m == pytest.approx((5.0, 5.0), rel=0.01)
    assert abs((view.north_deg + 180) % 360 - 180) < 2  # the grid's north is not quite the pole's
    turned = GeoGrid(crs="EPSG:32613", affine=(0.0, 5.0, 600_000.0, 5.0, 0.0, 3_560_000.0))
    assert MapView.of(turned, (60, 80)).north_deg == pytest.approx(90.0, abs=2)
    with np.errstate(all="raise"):  # a scene without a place is no mistake: nobody is warned
        assert np.isnan(MapView.of(None, (60, 80)).north_deg)
    assert np.isnan(MapView.of(None, (60, 80)).cell_m).all()


def test_a_grid_without_area_has_neither_north_nor_stretch():
    flat = MapView.of(GeoGrid(crs="EPSG:32613", affine=(5.0, 0.0, 6e5, 0.0, 0.0, 3.5e6)), (60, 80))
    assert np.isnan(flat.north_deg)
    assert flat.aspect == 1.0


def test_a_grid_of_degrees_is_not_stretched():
    """At 60 degrees north a degree of longitude is half as long as one of latitude, and so are the cells."""
    view = MapView.of(GeoGrid(crs="EPSG:4326", affine=(1e-3, 0.0, 10.0, 0.0, -1e-3, 60.0)), (60, 80))
    assert view.aspect == pytest.approx(0.5, rel=2e-3)
    assert view.north_deg == pytest.approx(0.0, abs=1e-6)
    turn = np.deg2rad(30.0)
    affine = (2e-3 * np.cos(turn), -2e-3 * np.sin(turn), 10.0, -1e-3 * np.sin(turn), -1e-3 * np.cos(turn), 60.0)
    assert MapView.of(GeoGrid(crs="EPSG:4326", affine=affine), (60, 80)).north_deg == pytest.approx(330.0, abs=0.5)


@pytest.mark.parametrize("geo", [UTM, glt_grid((60, 80))], ids=["map grid", "swath"])
def test_ticks_stand_where_they_say(geo):
    view = MapView.of(geo, (60, 80))
    rows, cols = view.shape
    for axis, stop, at in ((0, rows, 0.0), (1, cols, float(rows))):
        ticks = view.ticks(axis, 0, stop, at)
        assert 2 <= len(ticks) <= 12
        for tick in ticks:
            place = np.array([tick.at]), np.array([at])
            lon, lat = view.degrees(*(place if axis == 0 else place[::-1]))
            value = float((lat if axis == 0 else lon)[0])
            assert degrees_text(value, axis, 6).startswith(tick.label[:-1].rstrip("°")[:6])


def test_cells_and_pixels_agree():
    geo = glt_grid((60, 80))
    view = MapView.of(geo, (60, 80))
    table = geo.table
    row, col = view.cells(np.array([30.5]), np.array([40.5]))
    assert (table.row[int(row[0]), int(col[0])], table.col[int(row[0]), int(col[0])]) == (30, 40)


@pytest.mark.parametrize(("least", "step"), [(0.0021, 0.005), (0.1, 0.1), (3.0, 5.0), (6.0, 10.0)])
def test_steps_are_round(least, step):
    assert round_step(least) == pytest.approx(step)


def test_lengths_are_round():
    assert round_length_m(1234.0) == (1000.0, "1 km")
    assert round_length_m(87.0) == (50.0, "50 m")
