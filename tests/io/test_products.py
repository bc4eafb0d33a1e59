"""Each product's file, written in its true structure, comes back as the ground it was made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import product_files as files
import pytest
from product_ground import SUN_DEG, TIME, VIEW_DEG, Ground, make_ground

from flame.io import OpenOptions, ReaderError, find_reader, open_scene, read_scene, to_xarray
from flame.products.geolocate import longitude_latitude, map_grid
from flame.scene import MaskRule, SceneFile, SceneFlag

ROWS, COLS = 48, 40


@dataclass(frozen=True)
class Product:
    """A format: its sensor, how a file of it is made, and how exactly its numbers come back."""

    reader: str
    sensor: str
    write: Callable[[Path, Ground], Path]
    tolerance: float = 1e-6
    gridded: bool = False
    angles: bool = True
    filled: bool = True


PRODUCTS = {
    "emit": Product("emit", "emit", files.write_emit),
    "aviris-ng": Product("envi", "aviris-ng", files.write_aviris_ng),
    "aviris-3": Product("aviris3", "aviris-3", files.write_aviris3),
    "enmap-l1b": Product("enmap", "enmap", files.write_enmap, tolerance=4e-3),
    "enmap-l1c": Product("enmap", "enmap", lambda f, g: files.write_enmap(f, g, "L1C"), tolerance=4e-3, gridded=True),
    "prisma": Product("prisma", "prisma", files.write_prisma, tolerance=2e-2, filled=False),
    "tanager-basic": Product("tanager", "tanager-1", files.write_tanager),
    "tanager-ortho": Product("tanager", "tanager-1", lambda f, g: files.write_tanager(f, g, True), gridded=True),
    "geotiff": Product("geotiff", "generic-10nm", files.write_geotiff, gridded=True, angles=False),
}


@pytest.fixture(params=list(PRODUCTS), scope="module")
def product(request: pytest.FixtureRequest) -> Product:
    return PRODUCTS[request.param]


@pytest.fixture(scope="module")
def ground(product: Product) -> Ground:
    return make_ground(product.sensor, ROWS, COLS)


@pytest.fixture(scope="module")
def scene(product: Product, ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> SceneFile:
    path = product.write(tmp_path_factory.mktemp("product"), ground)
    assert find_reader(path).name == product.reader
    opened = open_scene(path)
    assert isinstance(opened, SceneFile)
    return opened


def test_radiance_and_wavelengths_come_back(product: Product, ground: Ground, scene: SceneFile) -> None:
    inside = ground.bands.within(2122.0, 2484.0)
    np.testing.assert_allclose(scene.bands.centres_nm, ground.bands.centres_nm[inside], atol=1e-3)
    np.testing.assert_allclose(scene.bands.fwhm_nm, ground.bands.fwhm_nm[inside], atol=1e-3)
    loaded = scene.load()
    clear = ~(ground.cloud | ground.water)
    clear[-1, -1] = False
    stored = ground.radiance[inside]
    np.testing.assert_allclose(loaded.radiance[:, clear], stored[:, clear], rtol=product.tolerance, atol=2e-4)
    rgb = [ground.bands.nearest(nm) for nm in (640.0, 550.0, 460.0)]
    np.testing.assert_allclose(loaded.rgb[:, clear], ground.radiance[rgb][:, clear], rtol=product.tolerance)


def test_every_cause_has_its_bit(product: Product, ground: Ground, scene: SceneFile) -> None:
    flags = scene.flags
    np.testing.assert_array_equal((flags & SceneFlag.CLOUD) != 0, ground.cloud)
    np.testing.assert_array_equal((flags & SceneFlag.WATER) != 0, ground.water)
    assert bool(flags[-1, -1] & SceneFlag.FILL) == product.filled
    assert not scene.valid[ground.cloud].any()
    assert not scene.valid[ground.water].any()
    untouched = flags == 0
    assert scene.valid[untouched].all()
    assert untouched[ground.source]


def test_any_block_of_lines_is_that_part_of_the_whole(scene: SceneFile) -> None:
    whole = scene.load()
    for first, stop in ((0, ROWS), (0, 1), (7, 23), (ROWS - 3, ROWS)):
        part = scene.rows(first, stop)
        np.testing.assert_array_equal(part.radiance, whole.radiance[:, first:stop])
        np.testing.assert_array_equal(part.flags, whole.flags[first:stop])
        np.testing.assert_array_equal(part.valid, whole.valid[first:stop])
        np.testing.assert_array_equal(part.rgb, whole.rgb[:, first:stop])


def test_pixel_centres_are_where_they_were_put(product: Product, ground: Ground, scene: SceneFile) -> None:
    assert scene.geo is not None
    rows, cols = np.array([0, 5, ROWS - 1, 20]), np.array([0, 31, COLS - 1, 2])
    lon, lat = longitude_latitude(scene.geo, rows + 0.5, cols + 0.5)
    for at, (row, col) in enumerate(zip(rows, cols, strict=True)):
        place = (
            files.utm_place(row + 0.5, col + 0.5)
            if product.gridded
            else (ground.latitude[row, col], ground.longitude[row, col])
        )
        north, east = (lat[at] - place[0]) * 111_320, (lon[at] - place[1]) * 111_320 * np.cos(np.deg2rad(place[0]))
        assert np.hypot(north, east) < 0.05 * ground.pixel_m, f"pixel {row}, {col}"


def test_corners_are_half_a_pixel_from_centres(product: Product, ground: Ground, scene: SceneFile) -> None:
    lon, lat = longitude_latitude(scene.geo, np.array([10.0, 10.5, 11.0]), np.array([12.0, 12.5, 13.0]))
    np.testing.assert_allclose([lat[1], lon[1]], [(lat[0] + lat[2]) / 2, (lon[0] + lon[2]) / 2], atol=1e-7)
    size = np.hypot((lat[2] - lat[0]) * 111_320, (lon[2] - lon[0]) * 111_320 * np.cos(np.deg2rad(lat[0])))
    side = files.UTM_PIXEL if product.gridded else ground.pixel_m
    assert size == pytest.approx(np.sqrt(2) * side, rel=0.03)


def test_a_map_shows_each_pixel_at_its_place(ground: Ground, scene: SceneFile) -> None:
    """The cell over the plume's pixel shows that very pixel, whatever way the map is made."""
    grid = map_grid(scene.geo)
    layer = np.zeros(ground.shape, np.float32)
    layer[ground.source] = 1.0
    shown = np.argwhere(grid.onto(layer, 0.0) == 1.0)
    assert len(shown) >= 1
    a, b, c, d, e, f = grid.affine
    row, col = shown.mean(axis=0) + 0.5
    at = np.array(ground.source) + 0.5
    lon, lat = longitude_latitude(scene.geo, at[:1], at[1:])
    from rasterio.warp import transform

    x, y = transform("EPSG:4326", grid.crs, lon.tolist(), lat.tolist())
    off = np.linalg.solve(np.array([[a, b], [d, e]]), [x[0] - (a * col + b * row + c), y[0] - (d * col + e * row + f)])
    assert np.hypot(*off) < 0.75


def test_time_and_angles(product: Product, scene: SceneFile) -> None:
    if product.angles:
        assert scene.acquisition.time is not None
        assert abs((scene.acquisition.time - TIME).total_seconds()) < 1
        assert scene.acquisition.solar_zenith_deg == pytest.approx(SUN_DEG)
        view = scene.acquisition.view_zenith_deg
        assert view is None or view == pytest.approx(VIEW_DEG, abs=0.1)
    assert "radiance_unit" in scene.acquisition.extra


def test_a_unit_that_the_user_states_is_told_as_such(product: Product, ground: Ground, tmp_path: Path) -> None:
    path = product.write(tmp_path, ground)
    scene = open_scene(path, OpenOptions(scale=0.25))
    assert scene.acquisition.extra["radiance_unit"].startswith("scale 0.25, as told when it was opened")


def test_water_can_be_kept(product: Product, ground: Ground, tmp_path: Path) -> None:
    path = product.write(tmp_path, ground)
    kept = open_scene(path, OpenOptions(mask=MaskRule.keeping(["water"])))
    clear = ground.water.copy()
    clear[-1, -1] = False
    assert kept.valid[clear].mean() > 0.9
    assert not kept.valid[ground.cloud].any()


def test_all_cloud_is_an_error_that_tells_how_to_go_on(product: Product, ground: Ground, tmp_path: Path) -> None:
    white = np.repeat(np.repeat(ground.radiance[:, 8:9, 10:11], ROWS, axis=1), COLS, axis=2)
    overcast = replace(ground, cloud=np.ones_like(ground.cloud), radiance=white)
    with pytest.raises(ReaderError, match=r"no usable pixel \(.*cloud .*--keep-"):
        read_scene(product.write(tmp_path, overcast))


@pytest.mark.parametrize("how", ["tags", "micrometres", "imagery", "descriptions"])
def test_geotiff_wavelengths_in_every_way_they_are_written(tmp_path: Path, how: str) -> None:
    ground = make_ground("generic-10nm", 12, 10)
    scene = open_scene(files.write_geotiff(tmp_path, ground, how, interleave="pixel"))
    np.testing.assert_allclose(scene.bands.centres_nm, ground.bands.methane().centres_nm, atol=1e-5)
    assert ("fwhm" in scene.acquisition.extra) == (how == "descriptions")


@pytest.mark.parametrize("geometry", ["igm", "utm", "loc", "glt"])
def test_aviris_ng_positions_from_any_of_its_files(tmp_path: Path, geometry: str) -> None:
    ground = make_ground("aviris-ng", 30, 24)
    scene = open_scene(files.write_aviris_ng(tmp_path, ground, geometry))
    off = np.hypot(scene.geo.latitude_deg - ground.latitude, (scene.geo.longitude_deg - ground.longitude) * 0.78)
    # A table tells a place to half a cell; the arrays exactly.
    assert np.nanmax(off) < (1.2 if geometry == "glt" else 1e-3) * ground.pixel_deg
    assert np.isfinite(scene.geo.latitude_deg).all()
    assert (scene.geo.table is not None) == (geometry in ("igm", "glt"))


def test_older_aviris_3_in_envi(tmp_path: Path) -> None:
    ground = make_ground("aviris-3", 20, 16)
    name = f"{files.AV3_LINE}_002_L1B_RDN_3f4aef90_RDN"
    scene = open_scene(files.write_aviris_ng(tmp_path, ground, "loc", name))
    assert scene.acquisition.sensor == "aviris-3"
    assert scene.acquisition.time == TIME
    np.testing.assert_allclose(scene.geo.latitude_deg, ground.latitude)


def test_aviris_3_without_location_arrays_takes_its_table(tmp_path: Path) -> None:
    ground = make_ground("aviris-3", 20, 16)
    scene = open_scene(files.write_aviris3(tmp_path, ground, arrays=False))
    assert np.abs(scene.geo.latitude_deg - ground.latitude).max() < 1.2 * ground.pixel_deg


def test_an_enmap_product_may_be_xml_folder_or_zip(tmp_path: Path) -> None:
    folder = tmp_path / "product"
    folder.mkdir()
    xml = files.write_enmap(folder, make_ground("enmap", 20, 16))
    archive = files.zipped(folder, tmp_path / "ENMAP01.zip")
    whole = open_scene(xml).load()
    for path in (folder, archive, tmp_path / "product"):
        with open_scene(path) as other:
            np.testing.assert_array_equal(other.load().radiance, whole.radiance)


def test_the_mask_file_of_emit_tells_faulty_elements_from_saturation(tmp_path: Path) -> None:
    ground = make_ground("emit")
    flags = open_scene(files.write_emit(tmp_path, ground)).flags
    np.testing.assert_array_equal(np.unique(np.argwhere(flags & SceneFlag.INTERPOLATED)[:, 1]), [files.FAULTY_COLUMN])
    np.testing.assert_array_equal(np.unique(np.argwhere(flags & SceneFlag.DETECTOR)[:, 1]), [files.BAD_COLUMN])
    np.testing.assert_array_equal(np.argwhere(flags & SceneFlag.SATURATED), [files.SATURATED_PIXEL])


def test_emit_without_its_mask_file_is_tested_by_its_radiance(tmp_path: Path) -> None:
    ground = make_ground("emit", ROWS, COLS)
    scene = open_scene(files.write_emit(tmp_path, ground, masks=False))
    assert "tests on the radiance" in scene.acquisition.extra["masks"]
    np.testing.assert_array_equal((scene.flags & SceneFlag.CLOUD) != 0, ground.cloud)


def test_a_mirrored_table_of_emit_is_turned(tmp_path: Path) -> None:
    ground = make_ground("emit", ROWS, COLS)
    right = open_scene(files.write_emit(tmp_path, ground)).geo.table
    scene = open_scene(files.write_emit(tmp_path, ground, mirrored_table=True))
    np.testing.assert_array_equal(scene.geo.table.col, right.col)
    assert "turned" in scene.acquisition.extra["look_up_table"]


def test_prisma_columns_have_their_own_wavelengths(tmp_path: Path) -> None:
    ground = make_ground("prisma", 20, 16)
    shift = np.linspace(-1.5, 2.0, 16)
    scene = open_scene(files.write_prisma(tmp_path, ground, shift))
    expected = ground.bands.methane().centres_nm[:, None] + shift
    np.testing.assert_allclose(scene.smile.centres_nm, expected, atol=1e-3)


def test_enmap_smile_is_a_polynomial_over_columns_from_one(tmp_path: Path) -> None:
    ground = make_ground("enmap", 20, 16)
    curve = np.array([-0.6, 0.09, -2e-3, 0.0, 0.0])
    scene = open_scene(files.write_enmap(tmp_path, ground, smile=curve))
    column = np.arange(1, 17)
    shift = curve[0] + curve[1] * column + curve[2] * column**2
    np.testing.assert_allclose(
        scene.smile.centres_nm - ground.bands.methane().centres_nm[:, None],
        np.tile(shift, (len(scene.bands), 1)),
        atol=1e-5,
    )


@pytest.mark.parametrize("name", ["notes.txt", "scene.nc", "scene.tif", "scene"])
def test_a_product_is_known_by_content_not_by_name(tmp_path: Path, name: str) -> None:
    path = files.write_tanager(tmp_path, make_ground("tanager-1", 12, 10))
    assert find_reader(path.rename(tmp_path / name)).name == "tanager"


@pytest.mark.parametrize("gridded", [True, False])
def test_scenes_for_xarray(tmp_path: Path, gridded: bool) -> None:
    ground = make_ground("tanager-1", 12, 10)
    scene = open_scene(files.write_tanager(tmp_path, ground, gridded))
    data = to_xarray(scene)
    np.testing.assert_array_equal(data["radiance"].values, scene.load().radiance)
    np.testing.assert_array_equal(data["wavelength"].values, scene.bands.centres_nm)
    if gridded:
        assert data["x"].values[0] == files.UTM_CORNER[0] + files.UTM_PIXEL / 2
    else:
        np.testing.assert_array_equal(data["latitude"].values, ground.latitude)
