"""Maps as files: every format tells the same numbers at the same place, and other programs accept them."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import rasterio
import xarray
from page_samples import TIME, UTM, glt_grid, sample_maps, sample_scene
from rio_cogeo.cogeo import cog_validate

import flame.products.geotiff as geotiff_module
import flame.products.netcdf as netcdf_module
from flame.prepare import Quality
from flame.products.geolocate import map_grid
from flame.products.geotiff import write_cog
from flame.products.layers import LAYERS, QUALITY_CLASSES, quality_classes, scale_top
from flame.products.netcdf import write_netcdf
from flame.products.qgis import write_plume_style, write_raster_style
from flame.scene import GeoGrid, SceneFlag

SHAPE = (60, 80)
ATTRIBUTES = {"title": "t", "source": "s", "history": "h", "summary": "s", "keywords": "k"}


def _write(tmp_path, name, maps, geo):
    path = tmp_path / f"{name}.tif"
    write_cog(path, maps.bands(name), maps.shown(name), map_grid(geo), ["a"] * len(maps.bands(name)), {"time": "now"})
    return path


@pytest.mark.parametrize("geo", [UTM, glt_grid(SHAPE), None], ids=["map grid", "look-up table", "nowhere"])
def test_every_map_is_a_valid_cog(geo, tmp_path, monkeypatch):
    monkeypatch.setattr(geotiff_module, "_ROWS_AT_ONCE", 7)  # so that blocks end inside the map
    maps = sample_maps(sample_scene(SHAPE, geo))
    for name in maps.names:
        path = _write(tmp_path, name, maps, geo)
        valid, mistakes, _ = cog_validate(path, quiet=True)
        assert valid, mistakes


def test_a_large_map_has_overviews_and_is_valid(tmp_path):
    layer = np.random.default_rng(0).random((700, 900)).astype(np.float32)
    write_cog(tmp_path / "a.tif", layer, layer > 0.1, map_grid(UTM), "a (ppm m)", unit="ppm m")
    assert cog_validate(tmp_path / "a.tif", quiet=True, strict=True)[0]
    with rasterio.open(tmp_path / "a.tif") as file:
        assert file.overviews(1) == [2, 4]
        assert file.units == ("ppm m",)
        assert file.block_shapes == [(256, 256)]
        np.testing.assert_array_equal(file.read(1), np.where(layer > 0.1, layer, np.nan))


def test_cells_show_pixels_as_they_are_through_the_look_up_table(tmp_path):
    """Each cell of the orthorectified map is exactly the pixel that the table names: nothing is interpolated."""
    geo = glt_grid(SHAPE)
    maps = sample_maps(sample_scene(SHAPE, geo))
    table = geo.table
    for name in maps.names:
        with rasterio.open(_write(tmp_path, name, maps, geo)) as file:
            stored, missing = file.read(), file.nodata
            assert tuple(file.transform)[:6] == pytest.approx(table.affine)
        shown = (table.row >= 0) & maps.shown(name)[table.row, table.col]
        for band, layer in zip(stored, maps.bands(name), strict=True):
            np.testing.assert_array_equal(band[shown], layer[table.row, table.col][shown])
            empty = np.isnan(band) if np.isnan(missing) else band == missing
            np.testing.assert_array_equal(empty, ~shown)


def test_quality_keeps_both_kinds_of_bits(tmp_path):
    maps = sample_maps(sample_scene(SHAPE))
    with rasterio.open(_write(tmp_path, "quality", maps, UTM)) as file:
        quality, flags = file.read()
    np.testing.assert_array_equal(quality, maps.quality)
    np.testing.assert_array_equal(flags, maps.flags)


def test_quality_classes_cover_in_their_order():
    quality = np.array([[0, int(Quality.INVALID), int(Quality.SATURATED), int(Quality.INVALID)]], np.uint16)
    flags = np.array([[0, 0, 0, int(SceneFlag.CLOUD | SceneFlag.WATER)]], np.uint16)
    named = [QUALITY_CLASSES[place][0] for place in quality_classes(quality, flags)[0]]
    assert named == ["usable", "no data", "saturated or flare", "cloud or snow"]


def test_the_scale_reaches_the_strongest_plumes_and_is_round():
    maps = sample_maps(sample_scene(SHAPE))
    top = scale_top(maps)
    assert top >= np.percentile(maps.enhancement_ppm_m[maps.mask & maps.usable], 99)
    assert top % 500 == 0
    maps.mask[:] = False
    assert scale_top(maps) == 1500


GRIDS = {"map grid": UTM, "swath": glt_grid(SHAPE), "nowhere": None}


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_netcdf_reads_back_by_every_library(kind, engine, tmp_path, monkeypatch):
    monkeypatch.setattr(netcdf_module, "_ROWS_AT_ONCE", 7)
    scene = sample_scene(SHAPE, GRIDS[kind])
    maps = sample_maps(scene)
    write_netcdf(tmp_path / "a.nc", maps, scene.geo, TIME, ATTRIBUTES)
    with xarray.open_dataset(tmp_path / "a.nc", engine=engine) as file:
        np.testing.assert_array_equal(file["enhancement"], np.where(maps.usable, maps.enhancement_ppm_m, np.nan))
        np.testing.assert_array_equal(file["sigma"], np.where(maps.usable, maps.sigma_ppm_m, np.nan))
        np.testing.assert_array_equal(file["mask"], np.where(maps.usable, maps.mask, np.nan))
        np.testing.assert_array_equal(file["scene_flags"], maps.flags)
        assert file["enhancement"].attrs["units"] == "1e-6 m"
        assert file["time"].values == np.datetime64(TIME.replace(tzinfo=None))
        assert file.attrs["history"] == "h"
        if kind == "swath":
            np.testing.assert_array_equal(file["lat"], scene.geo.latitude_deg)
            assert {"lat", "lon"} <= set(file["enhancement"].coords)
        if kind == "map grid":
            a, _, c, _, e, f = UTM.affine
            np.testing.assert_allclose(file["x"], c + a * (np.arange(80) + 0.5))
            np.testing.assert_allclose(file["y"], f + e * (np.arange(60) + 0.5))
            assert rasterio.crs.CRS.from_wkt(file["crs"].attrs["crs_wkt"]).to_epsg() == 32613


@pytest.mark.parametrize(
    ("crs", "ellipsoid", "unit"),
    [("EPSG:32613", True, "m"), ("EPSG:26713", False, "m"), ("EPSG:2225", False, "US_survey_foot")],
)
def test_netcdf_says_of_a_reference_system_only_what_it_is(crs, ellipsoid, unit, tmp_path):
    """Not every map is of WGS 84 and in metres: North America has maps of another ellipsoid, and in feet."""
    geo = GeoGrid(crs=crs, affine=UTM.affine)
    write_netcdf(tmp_path / "a.nc", sample_maps(sample_scene(SHAPE, geo)), geo, TIME, ATTRIBUTES)
    with xarray.open_dataset(tmp_path / "a.nc") as file:
        assert ("semi_major_axis" in file["crs"].attrs) is ellipsoid
        assert f"EPSG:{rasterio.crs.CRS.from_wkt(file['crs'].attrs['crs_wkt']).to_epsg()}" == crs
        assert file["x"].attrs["units"] == unit


def test_gdal_places_the_netcdf_where_it_is(tmp_path):
    maps = sample_maps(sample_scene(SHAPE))
    write_netcdf(tmp_path / "a.nc", maps, UTM, TIME, ATTRIBUTES)
    with rasterio.open(f"netcdf:{tmp_path / 'a.nc'}:enhancement") as file:
        assert file.crs.to_epsg() == 32613
        assert tuple(file.transform)[:6] == pytest.approx(UTM.affine)


@pytest.mark.parametrize("kind", GRIDS)
def test_netcdf_keeps_the_cf_conventions(kind, tmp_path):
    from compliance_checker.runner import CheckSuite, ComplianceChecker

    scene = sample_scene(SHAPE, GRIDS[kind])
    write_netcdf(tmp_path / "a.nc", sample_maps(scene), scene.geo, TIME, ATTRIBUTES)
    CheckSuite.load_all_available_checkers()
    passed, mistakes = ComplianceChecker.run_checker(
        str(tmp_path / "a.nc"), ["cf:1.8"], 0, "normal", output_filename=str(tmp_path / "r.txt"), output_format="text"
    )
    assert not mistakes
    assert passed, (tmp_path / "r.txt").read_text()


@pytest.mark.parametrize("name", LAYERS)
def test_styles_are_what_qgis_reads(name, tmp_path):
    write_raster_style(tmp_path / "a.qml", name, 2000.0)
    root = ElementTree.fromstring((tmp_path / "a.qml").read_text())
    renderer = root.find("pipe/rasterrenderer")
    if LAYERS[name].colours is None:
        values = [int(entry.get("value")) for entry in renderer.findall("colorPalette/paletteEntry")]
        assert {0, 1} <= set(values) if name == "mask" else int(SceneFlag.CLOUD) in values
    else:
        stops = [float(item.get("value")) for item in renderer.findall("rastershader/colorrampshader/item")]
        assert stops == sorted(stops)
        assert (stops[0], stops[-1]) == (0.0, 2000.0)


def test_the_plumes_have_a_style_with_their_ids(tmp_path):
    write_plume_style(tmp_path / "a.qml", "plume_id")
    root = ElementTree.fromstring((tmp_path / "a.qml").read_text())
    assert root.find("labeling/settings/text-style").get("fieldName") == "plume_id"


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from flame.files import WriteError
from flame.products.layers import SceneMaps
from flame.products.netcdf import write_netcdf

resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
noise = np.random.default_rng(0).random((600, 600)).astype(np.float32)
maps = SceneMaps(noise, noise, noise > 0.5, noise > 0, np.zeros((600, 600), np.uint8))
try:
    write_netcdf(Path(sys.argv[1]), maps, None, None, {"title": "t"})
except WriteError as failure:
    print(failure)
"""


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path):
    """HDF5 hides why a write failed; here no file may grow beyond 200 kB."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a.nc")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "a.nc: cannot be written (File too large)" in done.stdout
    assert list(tmp_path.iterdir()) == []
