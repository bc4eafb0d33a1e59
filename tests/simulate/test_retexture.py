"""The pattern of one ground in the spectra of another."""

from dataclasses import replace

import numpy as np
import pytest

from flame.physics import sensor
from flame.simulate import FreshSettings, FreshTiles, NoisePool, Range, draw_background, make_plume_pool, preset
from flame.simulate.retexture import retextured

SIDE, BANDS = 48, 12
VALID = np.ones((SIDE, SIDE), bool)


def ground(seed, depth):
    """Radiance of a few materials on a pattern, `depth` telling how much their spectra differ."""
    rng = np.random.default_rng(seed)
    light = 1.0 + rng.uniform(0, 1, (SIDE // 8, SIDE // 8)).repeat(8, 0).repeat(8, 1)
    materials = np.exp(depth * rng.standard_normal((BANDS, BANDS)))
    share = rng.dirichlet(np.ones(BANDS), SIDE * SIDE).T
    return (light.ravel() * (materials @ share)).reshape(BANDS, SIDE, SIDE).astype(np.float32)


def statistics(cube):
    logs = np.log(cube.reshape(BANDS, -1).astype(np.float64))
    return logs.mean(axis=1), np.cov(logs)


def test_spectra_have_the_donors_mean_and_covariance():
    own, donor = ground(0, 0.1), ground(1, 0.6)
    changed = retextured(np.random.default_rng(2), own, VALID, donor.reshape(BANDS, -1))
    for found, expected in zip(statistics(changed), statistics(donor), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())


def test_the_pattern_of_brightness_stays_and_no_two_draws_are_the_same_materials():
    own, donor = ground(0, 0.1), ground(1, 0.6)
    one, two = (retextured(np.random.default_rng(s), own, VALID, donor.reshape(BANDS, -1)) for s in (2, 3))
    light = [np.log(cube).mean(axis=0).ravel() for cube in (own, one, two)]
    assert np.corrcoef(light[0], light[1])[0, 1] > 0.9
    assert np.abs(one / two - 1).max() > 0.05


def test_directions_without_ground_are_filled_with_noise_of_the_donors_size():
    own, donor = ground(0, 0.1), ground(1, 0.6)
    own[-1] = own[-2]
    changed = retextured(np.random.default_rng(2), own, VALID, donor.reshape(BANDS, -1))
    assert np.isfinite(changed).all()
    np.testing.assert_allclose(np.diag(statistics(changed)[1]), np.diag(statistics(donor)[1]), rtol=0.1)


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_fresh_tiles_wear_the_donors_spectra_if_asked_to(chance):
    def made(seed, kind):
        whole = preset(kind, size=40).each(lambda s: replace(s, instrument=replace(s.instrument, edge_chance=0.0)))
        return draw_background(np.random.default_rng(seed), whole)

    still = FreshSettings(
        brightness=Range(1.0, 1.0), noise_scale=Range(0.01, 0.01), band_gain=Range(0.0, 0.0), mix_chance=0.0,
        band_mismatch=Range(0.0, 0.0), shift_nm=Range(0.0, 0.0), fwhm_factor=Range(1.0, 1.0), donor_chance=chance,
    )  # fmt: skip
    bands = sensor("aviris-ng").bands.methane()
    plumes = make_plume_pool(np.random.default_rng(0), 2, 40, 5.0)
    noise = NoisePool(np.random.default_rng(1), 1 << 21)
    own, donor = made(4, "wide"), made(5, "permian")
    tiles = FreshTiles((own,), plumes, noise, still, donor)
    plain = FreshTiles((own,), plumes, noise, replace(still, donor_chance=0.0), donor)
    means = [
        np.log(np.maximum(of.draw(np.random.default_rng(3), bands, "aviris-ng").radiance, 1e-6)).mean(axis=(1, 2))
        for of in (tiles, plain, FreshTiles((donor,), plumes, noise, replace(still, donor_chance=0.0)))
    ]
    to_own, to_donor = (np.abs(means[0] - other).max() for other in means[1:])
    assert (to_donor < to_own) == bool(chance)
