"""Ground that a spectrometer took: its noise is white in space and spread over the finer bands."""

from dataclasses import replace

import numpy as np

from flame.physics import sensor
from flame.simulate import FreshSettings, FreshTiles, NoisePool, draw_background, make_plume_pool, preset
from flame.simulate.own_noise import OwnNoiseSettings, add_own_noise
from flame.simulate.settings import Range

BANDS = sensor("aviris-ng").bands.methane()
LOUD = OwnNoiseSettings(chance=1.0, noisiest=50.0, quietest=50.0, finest_nm=10.0, coarsest_nm=10.0)


def noisy(seed=0, settings=LOUD, light=1.0):
    rng = np.random.default_rng(seed)
    ground = np.full((len(BANDS), 64, 64), 2.0, np.float32)
    ground[:, :, 32:] *= light
    cube = ground.copy()
    said = add_own_noise(rng, cube, BANDS, settings, lambda shape: rng.standard_normal(shape, dtype=np.float32))
    return cube - ground, said


def test_noise_is_as_large_as_it_says_and_as_was_asked_for():
    noise, said = noisy()
    np.testing.assert_allclose(noise.std(axis=(1, 2)), said, rtol=0.06)
    # On a band of the coarse instrument it is 1 / 50 of the light, half-way between two of them 1 / sqrt(2) of that.
    assert said.max() <= 1.001 * 2.0 / 50.0
    assert said.min() >= 0.999 * 2.0 / 50.0 / np.sqrt(2.0)


def test_neighbouring_bands_share_it_and_distant_ones_and_pixels_do_not():
    noise, _ = noisy()
    flat = noise.reshape(len(BANDS), -1)
    near = [np.corrcoef(flat[band], flat[band + 1])[0, 1] for band in range(20)]
    far = [np.corrcoef(flat[band], flat[band + 5])[0, 1] for band in range(20)]
    beside = np.corrcoef(noise[:, :, 1:].ravel(), noise[:, :, :-1].ravel())[0, 1]
    assert np.mean(near) > 0.4
    assert abs(np.mean(far)) < 0.02
    assert abs(beside) < 0.01


def test_bright_pixels_never_have_less_of_it_and_no_radiance_falls_below_zero():
    shares = []
    for seed in range(8):
        noise, _ = noisy(seed, light=9.0)
        shares.append(noise[:, :, 32:].std() / noise[:, :, :32].std())
    assert min(shares) > 0.98
    assert max(shares) > 1.5
    rng = np.random.default_rng(0)
    dark = np.full((len(BANDS), 8, 8), 1e-3, np.float32)
    add_own_noise(rng, dark, BANDS, replace(LOUD, noisiest=0.5, quietest=0.5), rng.standard_normal)
    assert dark.min() > 0


def test_fresh_tiles_have_it_where_it_is_asked_for_and_keep_their_bytes_where_not():
    whole = preset("wide", size=40).each(lambda s: replace(s, instrument=replace(s.instrument, edge_chance=0.0)))
    ground = (draw_background(np.random.default_rng(4), whole),)
    plumes = make_plume_pool(np.random.default_rng(0), 2, 40, 5.0)
    noise = NoisePool(np.random.default_rng(1), 1 << 21)
    quiet = FreshSettings(noise_scale=Range(0.01, 0.01))

    def tile(settings):
        return FreshTiles(ground, plumes, noise, settings).draw(np.random.default_rng(2), BANDS, "aviris-ng")

    def roughness(tile):
        """Of a pixel against its neighbours, relative to its light."""
        logs = np.log(np.maximum(tile.radiance, 1e-6))
        second = logs[:, :, 2:] - 2 * logs[:, :, 1:-1] + logs[:, :, :-2]
        return np.median(np.abs(second - np.median(second, axis=0)))

    plain, own = tile(quiet), tile(replace(quiet, own_noise=LOUD))
    never = tile(replace(quiet, own_noise=replace(LOUD, chance=0.0)))
    assert roughness(own) > 3 * roughness(plain)
    assert roughness(never) < 1.5 * roughness(plain)
