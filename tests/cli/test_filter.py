"""`flame filter` as a user runs it."""

import numpy as np
import pytest
import rasterio
from typer.testing import CliRunner

from filters.simulated_tile import simulated_tile
from flame.cli.app import app
from flame.errors import FlameError
from flame.filters import FILTERS, Mag1cSettings, noise_aware_fields
from flame.io import starcop
from flame.scene import GeoGrid, Scene
from flame.tile import LabelledTile

TILE = simulated_tile(seed=11, size=64)
AFFINE = (5.0, 0.0, 500_000.0, 0.0, -5.0, 4_000_000.0)


@pytest.fixture(scope="module")
def tile_folder(tmp_path_factory):
    """A STARCOP tile with an invalid corner."""
    valid = TILE.valid.copy()
    valid[:8, :8] = False
    radiance = np.where(valid, TILE.radiance, np.float32(0))
    rgb = np.where(valid, radiance[:3], np.float32(0))
    scene = Scene(radiance, TILE.bands, valid, rgb, GeoGrid(crs="EPSG:32613", affine=AFFINE))
    folder = tmp_path_factory.mktemp("starcop") / "tile"
    return starcop.write_tile(LabelledTile("tile", scene, TILE.enhancement_ppm_m > 500), folder)


@pytest.fixture(scope="module")
def envi_cube(tmp_path_factory):
    """The same image as an ENVI cube, without a position."""
    path = tmp_path_factory.mktemp("envi") / "cube"
    path.write_bytes(TILE.radiance.astype("<f4").tobytes())
    lists = {
        name: ", ".join(f"{value:.4f}" for value in values)
        for name, values in (("wavelength", TILE.bands.centres_nm), ("fwhm", TILE.bands.fwhm_nm))
    }
    path.with_name("cube.hdr").write_text(
        "ENVI\nsamples = 64\nlines = 64\nbands = 72\nheader offset = 0\nfile type = ENVI Standard\ndata type = 4\n"
        "interleave = bsq\nbyte order = 0\nwavelength units = Nanometers\ndata units = uW cm-2 nm-1 sr-1\n"
        + "".join(f"{name} = {{{values}}}\n" for name, values in lists.items())
    )
    return path


def invoke(*arguments):
    result = CliRunner().invoke(app, ["filter", *(str(a) for a in arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", FILTERS)
def test_starcop_tile_to_a_map_on_the_same_grid(tile_folder, tmp_path, name):
    out = tmp_path / "score.tif"
    output = invoke(name, tile_folder, "--out", out)
    with rasterio.open(out) as source:
        score = source.read(1)
        assert source.crs.to_epsg() == 32613
        assert tuple(source.transform)[:6] == AFFINE
        assert source.dtypes == ("float32",)
        assert np.isnan(source.nodata)
        assert FILTERS[name].unit in source.descriptions[0]
    assert np.isnan(score[:8, :8]).all()
    assert np.isfinite(score[8:]).all()
    assert np.isfinite(score[:, 8:]).all()
    if (threshold := FILTERS[name].threshold) is not None:
        assert f"threshold of {threshold:g}: {np.count_nonzero(score > threshold)} pixels" in output
    assert f"max {np.nanmax(score):.5g}" in output
    more = ["", "_posterior", "_posterior_sigma", "_sigma"] if name == "noise-aware-mf" else [""]
    assert sorted(tmp_path.iterdir()) == sorted(tmp_path / f"score{suffix}.tif" for suffix in more)


def test_noise_aware_filter_writes_what_the_library_says(envi_cube, tmp_path):
    out = tmp_path / "found.tif"
    invoke("noise-aware-mf", envi_cube, "--out", out)
    found = noise_aware_fields(*TILE.inputs)
    posterior = found.posterior()
    expected = {"": found.enhancement_ppm_m, "_sigma": found.sigma_ppm_m, "_posterior": posterior.mean_ppm_m}
    for suffix, layer in (expected | {"_posterior_sigma": posterior.sigma_ppm_m}).items():
        with rasterio.open(tmp_path / f"found{suffix}.tif") as source:
            np.testing.assert_allclose(source.read(1), layer, rtol=1e-2, atol=5.0)
            assert "ppm m" in source.descriptions[0]


def test_envi_cube_gives_the_library_s_numbers(envi_cube, tmp_path):
    out = tmp_path / "score.tif"
    invoke("MAG1C", envi_cube, "--out", out, "--columns", 32, "--plot", tmp_path / "deep" / "look.png")
    with rasterio.open(out) as source:
        np.testing.assert_allclose(
            source.read(1), FILTERS["mag1c"].score(*TILE.inputs, Mag1cSettings(column_group=32)), rtol=1e-3, atol=2.0
        )
    assert (tmp_path / "deep" / "look.png").stat().st_size > 10_000


def test_target_rule_is_passed_on(envi_cube, tmp_path):
    out = tmp_path / "score.tif"
    invoke("cem", envi_cube, "--out", out, "--target", "additive")
    with rasterio.open(out) as source:
        expected = FILTERS["cem-additive"].score(*TILE.inputs)
        np.testing.assert_allclose(source.read(1), expected, atol=1e-3 * expected.max())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ctmf"], "no filter 'ctmf'"),
        (["mf", "--columns", "5"], "--columns belongs to mag1c"),
        (["mag1c", "--target", "additive"], "--target belongs to cem, mf, ace"),
        (["cem", "--target", "best"], "no target 'best'; known are multiplicative, additive"),
        (["mf-additive", "--target", "multiplicative"], "--target belongs to cem, mf, ace, not to mf-additive"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(envi_cube, tmp_path, arguments, message):
    with pytest.raises(FlameError, match=message):
        invoke(arguments[0], envi_cube, "--out", tmp_path / "score.tif", *arguments[1:])
    assert not list(tmp_path.iterdir())
