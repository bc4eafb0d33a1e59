"""Onto the map: every map pixel shows ground beside it, some twice, and all layers move together."""

import numpy as np
import pytest

from flame.simulate import InstrumentSettings, Range
from flame.simulate.mapping import draw_mapping

SHAPE = (96, 80)


def drawn(samples, seed=0):
    settings = InstrumentSettings(map_chance=1.0, samples_per_pixel=Range(samples, samples))
    return draw_mapping(np.random.default_rng(seed), SHAPE, settings)


def test_without_a_map_nothing_is_drawn():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert draw_mapping(rng, SHAPE, InstrumentSettings()) is None
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("seed", range(5))
def test_every_map_pixel_shows_ground_beside_it(seed):
    rows, cols = np.divmod(drawn(0.8, seed).place, SHAPE[1])
    row, col = np.indices(SHAPE)
    assert np.hypot(rows - row, cols - col).max() <= 0.5 * np.sqrt(2) * (1 / 0.8 + 1)


def test_the_finer_the_map_the_more_pixels_repeat():
    shares = [drawn(samples).repeated_share for samples in (1.0, 0.8, 0.6)]
    assert shares == sorted(shares)
    # Each of the 0.36 samples in a map pixel's area is shown at least once.
    assert shares[2] == pytest.approx(1 - 0.36, abs=0.05)


def test_layers_move_together():
    mapping = drawn(0.7)
    layer = np.random.default_rng(0).normal(size=(3, *SHAPE))
    moved = mapping(layer)
    assert moved.shape == layer.shape
    np.testing.assert_array_equal(moved[1], mapping(layer[1]))
