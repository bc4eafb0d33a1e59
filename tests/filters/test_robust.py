"""Broken images: every filter gives finite scores near those of the healthy image, or says why it cannot."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters import FILTERS, BackgroundSettings, FilterError, Mag1cSettings
from flame.filters.mag1c import score as mag1c_score

TILE = simulated_tile(seed=7, size=64)
HEALTHY = {name: entry.score(*TILE.inputs) for name, entry in FILTERS.items()}

every_filter = pytest.mark.parametrize("name", FILTERS)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


@every_filter
@pytest.mark.parametrize("spectrum", [np.ones(72, np.float32), TILE.radiance[:, 0, 0]])
def test_constant_image_is_refused(name, spectrum):
    flat = np.broadcast_to(spectrum[:, None, None], TILE.radiance.shape).copy()
    with pytest.raises(FilterError, match="no band varies"):
        FILTERS[name].score(flat, TILE.bands, TILE.valid)


@every_filter
@pytest.mark.parametrize("value", [0.0, 1.5])
def test_dead_band_gets_no_weight(name, value):
    image = TILE.radiance.copy()
    image[30] = value
    score = FILTERS[name].score(image, TILE.bands, TILE.valid)
    assert correlation(score, HEALTHY[name]) > 0.98


@every_filter
def test_band_repaired_from_its_neighbours(name):
    image = TILE.radiance.copy()
    image[40] = (image[39] + image[41]) / 2
    score = FILTERS[name].score(image, TILE.bands, TILE.valid)
    assert correlation(score, HEALTHY[name]) > 0.98


@every_filter
@pytest.mark.parametrize("value", [1e3, 1e6, 1e30])
def test_one_saturated_pixel_changes_nothing_else(name, value):
    image = TILE.radiance.copy()
    image[:, 5, 5] = value
    score = FILTERS[name].score(image, TILE.bands, TILE.valid)
    assert score[5, 5] == 0
    assert correlation(score, HEALTHY[name]) > 0.999


@every_filter
@pytest.mark.parametrize("value", [0.0, 1e-12, -0.01])
def test_dark_pixels_never_explode(name, value):
    image = TILE.radiance.copy()
    image[:, 5, 5:9] = value
    score = FILTERS[name].score(image, TILE.bands, TILE.valid)
    assert np.isfinite(score).all()
    assert np.abs(score[5, 5:9]).max() <= HEALTHY[name].max()
    assert correlation(score, HEALTHY[name]) > 0.99


@every_filter
@pytest.mark.parametrize("size", [2, 8, 16])
def test_few_pixels_give_finite_scores_without_false_plumes(name, size):
    """64 pixels are fewer than the 72 bands: the plain sample covariance has no inverse."""
    corner = TILE.radiance[:, :size, :size].copy()
    score = FILTERS[name].score(corner, TILE.bands, np.ones((size, size), dtype=bool))
    assert np.isfinite(score).all()
    if FILTERS[name].unit == "ppm m":
        assert np.abs(score).max() < 1500


@every_filter
def test_one_pixel_is_refused(name):
    with pytest.raises(FilterError, match="no band varies"):
        FILTERS[name].score(TILE.radiance[:, :1, :1], TILE.bands, np.ones((1, 1), dtype=bool))


@pytest.mark.parametrize("name", [name for name in FILTERS if not name.endswith("-mf")])  # logarithms bend the mixture
def test_noiseless_mixture_of_few_materials_is_refused(name):
    rng = np.random.default_rng(0)
    image = np.tensordot(TILE.radiance[:, :2, 0], rng.uniform(0.2, 1.0, (2, 64, 64)), axes=(1, 0)).astype(np.float32)
    with pytest.raises(FilterError, match="72 bands vary in only 2 independent ways"):
        FILTERS[name].score(image, TILE.bands, TILE.valid)


@every_filter
@pytest.mark.parametrize("mean", [-0.01, 0.0001])
def test_noise_about_zero_is_not_radiance(name, mean):
    image = (mean + np.random.default_rng(1).standard_normal(TILE.radiance.shape)).astype(np.float32)
    with pytest.raises(FilterError, match="this is not radiance"):
        FILTERS[name].score(image, TILE.bands, TILE.valid)


@every_filter
def test_valid_pixel_without_a_radiance_is_refused(name):
    image = TILE.radiance.copy()
    image[3, 1, 1] = np.nan
    with pytest.raises(FilterError, match="invalid"):
        FILTERS[name].score(image, TILE.bands, TILE.valid)


@every_filter
def test_nothing_valid_is_refused(name):
    with pytest.raises(FilterError, match="no valid pixel"):
        FILTERS[name].score(TILE.radiance, TILE.bands, ~TILE.valid)


@every_filter
def test_image_need_not_be_contiguous(name):
    strided = np.asfortranarray(TILE.radiance)
    np.testing.assert_array_equal(FILTERS[name].score(strided, TILE.bands, TILE.valid), HEALTHY[name])


def test_robustness_changes_nothing_on_a_healthy_image():
    """The automatic shrinkage is exactly none."""
    explicit = mag1c_score(*TILE.inputs, Mag1cSettings(background=BackgroundSettings(shrinkage=0.0)))
    np.testing.assert_array_equal(explicit, HEALTHY["mag1c"])
