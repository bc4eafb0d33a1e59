"""Preparation in NumPy: holes filled from their block, background as the torch model finds it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.models import BackgroundSettings
from flame.models.conditioning import tile_background as torch_background
from flame.models.fields import fill_invalid, floored_log
from flame.onboard import BackgroundFacts
from flame.onboard.prepare import TilePreparer, fill_unusable, tile_background
from flame.onboard.quality import Quality
from tiny_models import SPECTRUM, filter_model


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 40), cols=st.integers(1, 40), seed=st.integers(0, 99), share=st.floats(0, 0.95))
def test_holes_are_filled_as_in_torch_and_never_read(rows, cols, seed, share):
    rng = np.random.default_rng(seed)
    field = rng.normal(size=(3, rows, cols)).astype(np.float32)
    usable = rng.random((rows, cols)) >= share
    filled, dirty = field.copy(), field.copy()
    dirty[:, ~usable] = np.nan
    fill_unusable(filled, usable, 16)
    with ThreadPoolExecutor(2) as pool:
        fill_unusable(dirty, usable, 16, pool)
    np.testing.assert_array_equal(dirty, filled)
    np.testing.assert_array_equal(filled[:, usable], field[:, usable])
    expected = fill_invalid(torch.from_numpy(field)[None], torch.from_numpy(usable)[None])[0].numpy()
    np.testing.assert_allclose(filled, expected, atol=1e-5)


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("usable_share", [1.0, 0.5, 0.01])
def test_background_is_that_of_torch(passes, usable_share):
    rng = np.random.default_rng(4)
    mixing = rng.normal(size=(4, 4))
    log = np.einsum("ij,jrc->irc", mixing, rng.normal(size=(4, 60, 70))).astype(np.float32) * 0.1
    usable = rng.random((60, 70)) < usable_share
    facts = BackgroundFacts(samples=900, passes=passes)
    mean, whitening = tile_background(log, usable, SPECTRUM, facts)
    expected = torch_background(
        torch.from_numpy(log.astype(np.float64))[None],
        torch.from_numpy(usable)[None],
        torch.from_numpy(SPECTRUM),
        BackgroundSettings(samples=900, passes=passes),
    )
    np.testing.assert_allclose(mean, expected.mean[0].numpy(), atol=1e-9)
    np.testing.assert_allclose(whitening, expected.whitening[0].numpy(), rtol=1e-6, atol=1e-9)


def test_whitened_background_is_white():
    rng = np.random.default_rng(5)
    log = (rng.normal(size=(4, 4)) @ rng.normal(size=(4, 10_000))).reshape(4, 100, 100).astype(np.float32)
    mean, whitening = tile_background(log, np.ones((100, 100), bool), SPECTRUM, BackgroundFacts())
    white = whitening @ (log.reshape(4, -1) - mean[:, None])
    np.testing.assert_allclose(np.cov(white), np.eye(4), atol=0.02)


@pytest.mark.parametrize("gain", [0.1, 1.0, 10.0])
def test_dark_bands_are_floored_as_in_torch_whatever_the_gain(gain):
    rng = np.random.default_rng(6)
    radiance = (gain * rng.uniform(0.0, 1.0, size=(4, 32, 32)) ** 6).astype(np.float32)
    radiance[:, 3, 5:9] = [[0.0], [-0.1], [0.2 * gain], [0.3 * gain]]
    valid = rng.random((32, 32)) < 0.9
    prepared = TilePreparer(filter_model().manifest).prepare(radiance, valid, None)
    usable = torch.from_numpy(prepared.usable)[None]
    expected = floored_log(torch.from_numpy(radiance)[None], usable)
    np.testing.assert_allclose(prepared.inputs["log_radiance"], expected.numpy(), atol=2e-5)
    dark = (prepared.quality & Quality.DARK) != 0
    assert 0 < dark.sum() < dark.size
