from dataclasses import replace

import numpy as np
import pytest

from flame.physics import BandSet, noise_model, sensor, transmittance
from flame.simulate import InstrumentSettings, Range
from flame.simulate.instrument import band_transmittance, draw_instrument, noise_sigma, point_spread, respond

BANDS = sensor("aviris-ng").bands.methane()
SHAPE = (40, 50)
NONE = Range(0.0, 0.0)


def draw(**changes):
    perfect = {
        "noise_scale": Range(1.0, 1.0), "band_noise_spread": NONE, "smile_nm": NONE, "band_gain": NONE,
        "band_mismatch": NONE, "band_offset": NONE, "stripe": NONE, "column_gain": NONE, "dead_column_chance": 0.0,
        "saturation_chance": 0.0, "edge_chance": 0.0,
    }  # fmt: skip
    settings = replace(InstrumentSettings(), **{**perfect, **changes})
    return draw_instrument(np.random.default_rng(4), SHAPE, BANDS, settings)


def test_a_perfect_sensor_changes_nothing():
    radiance = np.random.default_rng(0).uniform(0.1, 1.0, (len(BANDS), *SHAPE)).astype(np.float32)
    state = draw()
    np.testing.assert_array_equal(respond(radiance, radiance.mean(axis=(1, 2)), state), radiance)
    np.testing.assert_allclose(
        noise_sigma(radiance, BANDS, state, "aviris-ng"), noise_model("aviris-ng").sigma(radiance, BANDS), rtol=1e-6
    )
    assert state.seen.all()


def test_point_spread_keeps_the_light_of_a_point():
    point = np.zeros((1, 21, 21), np.float32)
    point[0, 10, 10] = 1.0
    blurred = point_spread(point, 0.7)
    assert blurred.sum() == pytest.approx(1.0, rel=1e-5)
    assert blurred.max() < 0.5


def test_stripes_are_constant_along_the_flight_line():
    state = draw(stripe=Range(0.01, 0.01), rotation_deg=NONE)
    flat = np.ones((len(BANDS), *SHAPE), np.float32)
    seen = respond(flat, np.ones(len(BANDS), np.float32), state)
    assert np.ptp(seen, axis=1).max() < 1e-6
    assert seen[0, 0].std() == pytest.approx(0.01, rel=0.3)


def test_edges_and_dead_columns_become_invalid():
    edge = draw(edge_chance=1.0)
    assert 0.3 < edge.seen.mean() < 1.0
    dead = draw(dead_column_chance=1.0, rotation_deg=NONE)
    lost = np.flatnonzero(~dead.seen[0])
    assert (dead.seen == dead.seen[:1]).all()
    assert lost.size <= 3


def test_transmittance_at_shifted_bands_meets_the_exact_one():
    slant = np.array([500.0, 4000.0, 20000.0])
    shift = np.array([0.13, -0.4, 0.7])
    seen = band_transmittance(slant, BANDS, shift)
    for pixel in range(3):
        moved = BandSet(BANDS.centres_nm + shift[pixel], BANDS.fwhm_nm)
        exact = transmittance(slant[pixel : pixel + 1], moved)[:, 0]
        np.testing.assert_allclose(seen[:, pixel], exact, rtol=2e-3)
