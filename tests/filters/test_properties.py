"""Laws that hold for any image: invalid pixels never matter, nor the order of pixels, nor (in logarithms) the gain."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters.simulated_tile import simulated_tile
from flame.filters import FILTERS, LogMfSettings

few = settings(max_examples=6, deadline=None)
TILE = simulated_tile(seed=5, size=48)


@few
@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.floats(0.02, 0.6),
    rubbish=st.sampled_from([0.0, -9999.0, 1e30, np.nan, np.inf, -np.inf]),
)
@pytest.mark.parametrize("name", FILTERS)
def test_invalid_pixels_never_leak(name, seed, share, rubbish):
    valid = np.random.default_rng(seed).random(TILE.valid.shape) > share
    spoiled = TILE.radiance.copy()
    spoiled[:, ~valid] = rubbish
    clean = FILTERS[name].score(TILE.radiance, TILE.bands, valid)
    got = FILTERS[name].score(spoiled, TILE.bands, valid)
    assert got.tobytes() == clean.tobytes()
    assert np.isfinite(got).all()
    assert (got[~valid] == 0).all()
    assert (got[valid] != 0).any()


def assert_same_but_for_rounding(name: str, got: np.ndarray, expected: np.ndarray) -> None:
    """MAG1C's sparsity decides pixels at its edge by their last digits, so of its scores only nearly all must agree."""
    if name.startswith("mag1c"):
        assert np.corrcoef(got.ravel(), expected.ravel())[0, 1] > 0.9999
        assert np.median(np.abs(got - expected)[expected > 100] / expected[expected > 100]) < 1e-2
    else:
        # Rounding moves pixels between the noise-aware filter's bins of brightness.
        share = 3e-3 if name == "noise-aware-mf" else 5e-4
        np.testing.assert_allclose(got, expected, atol=share * np.abs(expected).max())


@few
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("name", [name for name in FILTERS if name not in ("mag1c-sas", "noise-aware-mf")])
def test_order_of_pixels_does_not_matter(name, seed):
    """MAG1C-SAS samples by position, and the noise-aware filter looks at a pixel's neighbours."""
    order = np.random.default_rng(seed).permutation(TILE.valid.size)
    shuffled = TILE.radiance.reshape(72, -1)[:, order].reshape(TILE.radiance.shape)
    got = FILTERS[name].score(shuffled, TILE.bands, TILE.valid)
    assert_same_but_for_rounding(name, got.ravel(), FILTERS[name].score(*TILE.inputs).ravel()[order])


@few
@given(seed=st.integers(0, 2**32 - 1), gain=st.floats(1e-3, 1e3))
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_gain_of_the_sensor_and_of_each_band_cancels_in_the_log_filter(covariance, seed, gain):
    band_gain = gain * np.random.default_rng(seed).uniform(0.5, 2.0, size=(72, 1, 1))
    before = FILTERS["log-mf"].score(*TILE.inputs, LogMfSettings(covariance=covariance))
    scaled = (TILE.radiance * band_gain).astype(np.float32)
    after = FILTERS["log-mf"].score(scaled, TILE.bands, TILE.valid, LogMfSettings(covariance=covariance))
    np.testing.assert_allclose(after, before, atol=1e-3 * np.abs(before).max())


@few
@given(gain=st.floats(1e-3, 1e3))
@pytest.mark.parametrize("name", [name for name in FILTERS if not name.endswith("-additive")])
def test_unit_of_radiance_cancels_where_the_target_scales_with_it(name, gain):
    scaled = (TILE.radiance * gain).astype(np.float32)
    got = FILTERS[name].score(scaled, TILE.bands, TILE.valid)
    assert_same_but_for_rounding(name, got, FILTERS[name].score(*TILE.inputs))
