"""Preparation in NumPy: holes filled from their block, background as the torch model finds it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.kernels import load_kernels
from flame.models import BackgroundSettings
from flame.models.conditioning import tile_background as torch_background
from flame.models.fields import fill_invalid, floored_log
from flame.models.noise_inputs import WhitenedTile
from flame.onboard import BackgroundFacts
from flame.onboard.background import tile_background
from flame.onboard.prepare import TilePreparer, fill_unusable
from flame.onboard.quality import Quality
from tiny_models import SPECTRUM, filter_model, manifest


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
    mean, whitening = tile_background(log[None], usable, SPECTRUM, facts)
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
    mean, whitening = tile_background(log[None], np.ones((100, 100), bool), SPECTRUM, BackgroundFacts())
    white = whitening @ (log.reshape(4, -1) - mean[:, None])
    np.testing.assert_allclose(np.cov(white), np.eye(4), atol=0.02)


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    """Both ways of preparing tiles; what a computer has no compiler for falls back to NumPy."""
    if request.param == "numpy":
        monkeypatch.setattr("flame.onboard.prepare.load_kernels", lambda: None)
    elif load_kernels() is None:
        pytest.skip("built without a C compiler")


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("row_block", [8, 32])
@pytest.mark.parametrize("first", [0, 5])
def test_spectra_are_whitened_in_place_with_the_statistics_of_torch(threads, row_block, first):
    rng = np.random.default_rng(7)
    radiance = np.exp(0.3 * np.einsum("ij,jrc->irc", rng.normal(size=(4, 4)), rng.normal(size=(4, 32, 32))))
    radiance = radiance.astype(np.float32)
    valid = rng.random((32, 32)) < 0.8
    background = BackgroundFacts(samples=300, passes=2)
    facts = manifest(
        b"", inputs=("whitened", "target", "statistics"), row_block=row_block, background=background, tile=32
    )
    prepared = TilePreparer(facts, threads).prepare(np.roll(radiance, first, 1), valid, None, first)
    assert prepared.inputs["whitened"].shape == (32 // row_block, 4, row_block, 32)

    usable = torch.from_numpy(valid)[None]
    log = floored_log(torch.from_numpy(radiance)[None], usable).double()
    settings = BackgroundSettings(samples=300, passes=2)
    expected = torch_background(log, usable, torch.from_numpy(SPECTRUM), settings)
    white, target = expected.whiten(log), expected.target(torch.from_numpy(SPECTRUM))
    tile = WhitenedTile(log, white, target)
    found = prepared.inputs["whitened"].swapaxes(0, 1).reshape(4, 32, 32)
    np.testing.assert_allclose(found, white[0].numpy(), atol=1e-4)
    np.testing.assert_allclose(prepared.inputs["target"], target.numpy(), rtol=1e-4)
    response, power, brightness, steps = prepared.inputs["statistics"][0]
    np.testing.assert_allclose(response, tile.response[0].numpy(), atol=1e-4)
    np.testing.assert_allclose(power, tile.power[0].numpy(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(brightness, tile.brightness[0].numpy(), atol=1e-4)
    np.testing.assert_allclose(steps[:, :-1], tile.steps[0].numpy(), rtol=1e-3, atol=1e-4)


def test_holes_of_blocks_are_those_of_the_image():
    rng = np.random.default_rng(8)
    image = rng.normal(size=(3, 32, 24)).astype(np.float32)
    usable = rng.random((32, 24)) < 0.7
    blocks = np.ascontiguousarray(image.reshape(3, 4, 8, 24).swapaxes(0, 1))
    fill_unusable(image, usable, 16)
    fill_unusable(blocks.swapaxes(0, 1), usable, 16)
    np.testing.assert_array_equal(blocks.swapaxes(0, 1).reshape(image.shape), image)


@pytest.mark.parametrize("cols", [32, 29, 3])
def test_both_ways_flag_the_same_bad_pixels(cols, monkeypatch):
    if load_kernels() is None:
        pytest.skip("built without a C compiler")
    rng = np.random.default_rng(8)
    radiance = rng.uniform(0.5, 2.0, size=(4, 30, cols)).astype(np.float32)
    for row, bad in enumerate([np.nan, np.inf, -np.inf, 0.0, -9999.0, 1e6, 1e-30]):
        radiance[row % 4, 3 * row, ::2] = bad
    radiance[:, 29] = 0.0
    valid = rng.random((30, cols)) < 0.9
    compiled = TilePreparer(filter_model().manifest).prepare(radiance, valid, None)
    monkeypatch.setattr("flame.onboard.prepare.load_kernels", lambda: None)
    plain = TilePreparer(filter_model().manifest).prepare(radiance, valid, None)
    np.testing.assert_array_equal(compiled.quality, plain.quality)
    assert {Quality(bit) for bit in (1, 2, 4, 8, 16)} <= {q for q in Quality if plain.flags & q}
    if plain.inputs is not None:
        np.testing.assert_allclose(compiled.inputs["log_radiance"], plain.inputs["log_radiance"], atol=1e-6)
