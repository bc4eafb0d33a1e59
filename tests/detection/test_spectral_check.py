"""The spectral check tells methane from what only looks bright in a methane map."""

import numpy as np
import pytest
from scipy import ndimage

from flame.detection.spectral_check import CheckSettings, check_spectrum
from flame.errors import FlameError
from flame.physics import sensor, transmittance, unit_absorption
from flame.simulate import preset, simulate_tile, tile_generator


@pytest.fixture(scope="module", params=["aviris-ng", "emit"])
def ground(request):
    made = simulate_tile(tile_generator(11, 3), preset("narrow", size=96, sensor_name=request.param), "ground")
    rng = np.random.default_rng(0)
    clean = made.background_radiance
    return clean, made.noise_sigma[:, :1, :1] * rng.standard_normal(clean.shape).astype(np.float32), made.tile.scene


def _blob(shape):
    row, col = np.mgrid[0 : shape[0], 0 : shape[1]]
    return np.exp(-0.5 * (((row - 40) / 4.0) ** 2 + ((col - 50) / 8.0) ** 2)).astype(np.float32)


def _check(clean, noise, scene, factor, column):
    radiance = (clean * factor + noise).astype(np.float32)
    mask = column > 300.0
    free = scene.valid & ~ndimage.binary_dilation(mask, iterations=6)
    seen = np.where(mask, column, 0.0)
    sigma = np.full(mask.shape, 200.0)
    return check_spectrum(radiance, scene.bands, mask, seen, sigma, free, np.random.default_rng(1))


def test_methane_is_confirmed_with_its_amount(ground):
    clean, noise, scene = ground
    column = 2500.0 * _blob(scene.shape)
    found = _check(clean, noise, scene, transmittance(column, scene.bands).astype(np.float32), column)
    brightest = np.sort(column.ravel())[-40:].mean()
    assert found.p_value < 0.02
    assert found.alpha_ppm_m == pytest.approx(brightest, rel=0.3)
    assert found.explained > 0.5
    assert found.moves >= 100
    methane = found.alpha_ppm_m * unit_absorption(scene.bands) / 1e5
    assert np.allclose(found.fitted - found.without_methane, methane, atol=1e-9)


def test_a_mineral_in_the_same_place_is_not(ground):
    clean, noise, scene = ground
    column = 2500.0 * _blob(scene.shape)
    nm = scene.bands.centres_nm
    carbonate = np.exp(-4 * np.log(2) * ((nm - 2335.0) / 32.0) ** 2)
    found = _check(clean, noise, scene, np.exp(-0.05 * carbonate[:, None, None] * _blob(scene.shape)), column)
    assert found.p_value > 0.05


def test_nothing_at_all_is_nothing(ground):
    clean, noise, scene = ground
    found = _check(clean, noise, scene, np.float32(1.0), 2500.0 * _blob(scene.shape))
    assert found.p_value > 0.05


def test_p_values_over_plume_free_ground_are_spread_evenly():
    scene = simulate_tile(tile_generator(5, 1), preset("narrow", size=64), "quiet").tile.scene
    rng = np.random.default_rng(3)
    p_values = []
    for _ in range(40):
        mask = np.zeros(scene.shape, bool)
        row, col = rng.integers(8, 50, 2)
        mask[row : row + 6, col : col + 8] = True
        free = scene.valid & ~mask
        zeros, ones = np.zeros(scene.shape), np.ones(scene.shape)
        p_values.append(
            check_spectrum(scene.radiance, scene.bands, mask, zeros, ones, free, rng, CheckSettings(moves=60)).p_value
        )
    assert 0.3 < np.mean(p_values) < 0.7
    assert np.mean(np.array(p_values) < 0.1) < 0.3


@pytest.mark.parametrize("stored", [0.0, np.nan, -9999.0])
def test_what_stands_under_invalid_pixels_has_no_influence(ground, stored):
    """Most of the window may lie beyond the swath: its fill must not pass for the bands' noise."""
    clean, noise, scene = ground
    column = 2500.0 * _blob(scene.shape)
    mask = column > 300.0
    seen = np.zeros(scene.shape, bool)
    seen[:, 20:64] = True
    free = scene.valid & seen & ~ndimage.binary_dilation(mask, iterations=6)
    radiance = (clean * transmittance(column, scene.bands).astype(np.float32) + noise).astype(np.float32)

    def checked(content):
        sigma = np.full(mask.shape, 200.0)
        return check_spectrum(
            content, scene.bands, mask & seen, np.where(mask, column, 0.0), sigma, free, np.random.default_rng(1)
        )

    usual, odd = checked(radiance), checked(np.where(seen, radiance, np.float32(stored)))
    assert odd.p_value == usual.p_value
    assert odd.alpha_ppm_m == usual.alpha_ppm_m


def test_without_ground_to_compare_with_it_says_so():
    bands = sensor("emit").bands.methane()
    mask = np.ones((8, 8), bool)
    zeros = np.zeros((8, 8))
    with pytest.raises(FlameError, match="quiet pixels"):
        check_spectrum(
            np.ones((len(bands), 8, 8), np.float32), bands, mask, zeros, zeros, ~mask, np.random.default_rng(0)
        )
