"""Real ground with other spectra: other materials, the same scene."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.simulate.respectral import RespectralSettings, respectral


@pytest.fixture(scope="module")
def ground():
    return simulated_tile(seed=3, size=48)


def own_features(radiance, valid):
    logs = np.log(radiance[:, valid].astype(np.float64))
    about = logs - logs.mean(axis=1, keepdims=True)
    return about - about.mean(axis=0)


def test_mean_and_brightness_stay_and_features_change(ground):
    valid = np.ones(ground.radiance.shape[1:], bool)
    given = np.maximum(ground.radiance, 1e-4)
    changed = respectral(np.random.default_rng(0), given, ground.bands, valid, RespectralSettings())
    before, after = own_features(given, valid), own_features(changed, valid)
    assert np.abs(after - before).max() > 0.1 * np.abs(before).max()
    logs = [np.log(cube[:, valid].astype(np.float64)) for cube in (given, changed)]
    np.testing.assert_allclose(logs[1].mean(axis=1), logs[0].mean(axis=1), atol=1e-4)


def test_nothing_changes_without_stretch_and_shift(ground):
    settings = RespectralSettings(most_stretch=0.0, most_shift_nm=0.0)
    valid = np.ones(ground.radiance.shape[1:], bool)
    given = np.maximum(ground.radiance, 1e-4)
    same = respectral(np.random.default_rng(0), given, ground.bands, valid, settings)
    np.testing.assert_allclose(same, given, rtol=1e-4)


def test_ground_without_valid_pixels_is_left_as_it_is(ground):
    nothing = np.zeros(ground.radiance.shape[1:], bool)
    given = ground.radiance
    assert respectral(np.random.default_rng(0), given, ground.bands, nothing, RespectralSettings()) is given
