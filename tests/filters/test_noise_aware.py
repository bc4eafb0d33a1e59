"""The noise-aware matched filter: a sigma that is true, an estimate without bias, kernels that equal NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import nnls

from filters.simulated_tile import simulated_tile
from flame.filters import BackgroundSettings, FilterError, NoiseAwareSettings, noise_aware_fields
from flame.filters.noise_aware import Prior, apply, estimate_background
from flame.filters.noise_aware.fields import _finish_with_numpy
from flame.filters.noise_aware.moments import _add_up_with_numpy, bin_sample
from flame.filters.noise_aware.noise_law import MeasuredNoise, _non_negative, fit_law, law_of_sensor
from flame.filters.noise_aware.project import project, project_with_numpy
from flame.filters.noise_aware.sample import _look, _look_with_numpy, draw_sample
from flame.filters.noise_aware.smoothing import learn_prior, smooth
from flame.kernels import library, load_kernels
from flame.physics import BandMismatchError, noise_model, sensor, transmittance, unit_absorption
from flame.simulate import preset, simulate_tile, tile_generator

SENSORS = ("aviris-ng", "emit")


def spread(found, where):
    return float((found.enhancement_ppm_m / found.sigma_ppm_m)[where & found.usable].std())


def instruction_sets():
    best = load_kernels()
    return [] if best is None else list(library._SETS[: library._SETS.index(best.instructions) + 1])


@pytest.mark.parametrize("name", SENSORS)
@pytest.mark.parametrize("contrast", [0.1, 0.6])
def test_sigma_is_the_spread_of_the_estimate_over_plume_free_ground(name, contrast):
    tile = simulated_tile(seed=21, size=96, peak_ppm_m=0.0, contrast=contrast, sensor_name=name)
    found = noise_aware_fields(*tile.inputs)
    assert 0.9 < spread(found, tile.valid) < 1.1
    dark = found.brightness < np.median(found.brightness)
    assert 0.9 < spread(found, dark) < 1.1
    assert 0.9 < spread(found, ~dark) < 1.1


@pytest.mark.parametrize("name", ["wide", "narrow"])
def test_sigma_is_true_on_simulated_tiles(name):
    ratios = []
    for index in range(3):
        drawn = simulate_tile(tile_generator(22, index), preset(name, size=96), "law")
        scene = drawn.tile.scene
        noise = np.random.default_rng(index).standard_normal(scene.radiance.shape, dtype=np.float32)
        empty = np.where(scene.valid, drawn.background_radiance + drawn.noise_sigma * noise, np.float32(0))
        found = noise_aware_fields(empty, scene.bands, scene.valid)
        ratios.append((found.enhancement_ppm_m / found.sigma_ppm_m)[found.usable])
    assert 0.9 < float(np.concatenate(ratios).std()) < 1.1


@pytest.mark.parametrize("name", SENSORS)
@pytest.mark.parametrize("peak_ppm_m", [1000.0, 8000.0])
def test_slope_is_one_where_lines_saturate(name, peak_ppm_m):
    tile = simulated_tile(seed=23, size=128, peak_ppm_m=peak_ppm_m, sensor_name=name)
    found = noise_aware_fields(*tile.inputs)
    inside = tile.enhancement_ppm_m > 0.05 * peak_ppm_m
    truth = tile.enhancement_ppm_m[inside]
    slope = np.polyfit(truth, found.enhancement_ppm_m[inside], 1, w=1 / found.sigma_ppm_m[inside])[0]
    assert 0.9 < slope < 1.1
    core = tile.enhancement_ppm_m > 0.8 * peak_ppm_m
    assert found.enhancement_ppm_m[core].mean() == pytest.approx(tile.enhancement_ppm_m[core].mean(), rel=0.1)


def quiet_tile(noise_share):
    """A tile with a share of the sensor's noise: its variance is a hundred-millionth of that of the brightness."""
    loud = simulated_tile(seed=38, size=96, peak_ppm_m=0.0, contrast=0.8)
    smooth_ground = np.exp(gaussian_filter1d(np.log(loud.radiance.astype(np.float64)), 6.0, axis=0))
    sigma = noise_share * noise_model("aviris-ng").sigma(smooth_ground, loud.bands)
    noise = np.random.default_rng(38).standard_normal(sigma.shape)
    return (smooth_ground + sigma * noise).astype(np.float32), loud.bands, loud.valid


def test_sums_keep_the_noise_of_a_quiet_sensor():
    image, _, valid = quiet_tile(0.02)
    _, sample = draw_sample(image, valid, NoiseAwareSettings())
    moments = bin_sample(sample, 8, neighbours=True).moments
    _, got = moments.covariance(np.ones(len(moments.count)))
    both = np.concatenate([sample.log_spectra, sample.ring]).astype(np.float64)
    expected = np.linalg.eigvalsh(np.cov(both, bias=True))
    np.testing.assert_allclose(np.linalg.eigvalsh(got), expected, rtol=1e-3)


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("bins", [1, 8])
def test_kernels_add_up_what_numpy_does(instructions, neighbours, bins):
    tile = simulated_tile(seed=44, size=56, sensor_name="emit")
    valid = np.random.default_rng(44).random(tile.valid.shape) > 0.7  # many are without neighbours
    _, sample = draw_sample(tile.radiance, valid, NoiseAwareSettings())
    assert not sample.has_ring[sample.usable].all()
    kernels = load_kernels(instructions)
    fast, again = (bin_sample(sample, bins, neighbours=neighbours, kernels=kernels, workers=n) for n in (1, 3))
    chunks, first, second = _add_up_with_numpy(sample, fast.order, fast.edges, neighbours)
    np.testing.assert_array_equal(fast.chunks, chunks)
    np.testing.assert_allclose(fast.moments.first, first, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(fast.moments.second, second, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(again.moments.second, fast.moments.second)


def test_sums_without_a_plume_are_those_of_spectra_without_it():
    tile = simulated_tile(seed=45, size=64, peak_ppm_m=0.0)
    spectrum = unit_absorption(tile.bands) / 1e5
    _, sample = draw_sample(tile.radiance, tile.valid, NoiseAwareSettings())
    binned = bin_sample(sample, 8, neighbours=True)
    rng = np.random.default_rng(45)
    plume = np.where(rng.random(binned.order.size) < 0.1, rng.uniform(0, 5000, binned.order.size), 0).astype(np.float32)
    without = binned.without(plume, spectrum)
    change = np.zeros(sample.usable.size)
    change[binned.order] = plume
    less = replace(
        sample,
        log_spectra=(sample.log_spectra - np.outer(spectrum, change)).astype(np.float32),
        ring=(sample.ring - np.outer(spectrum, change)).astype(np.float32),
    )
    expected = bin_sample(less, 8, neighbours=True).moments
    weight = np.linspace(1.0, 2.0, 8)
    for got, wanted in zip(without.covariance(weight), expected.covariance(weight), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-6 * np.abs(wanted).max())
    bands = len(tile.bands)
    got, wanted = without.covariance_in(3, bands), expected.covariance_in(3, bands)
    np.testing.assert_allclose(got, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("noise_share", [0.25, 0.05, 0.02])
def test_quiet_sensors_are_served_and_their_sigma_is_true(noise_share):
    image, bands, valid = quiet_tile(noise_share)
    assert 0.9 < spread(noise_aware_fields(image, bands, valid), valid) < 1.1


def test_dark_pixels_have_the_larger_sigma():
    tile = simulated_tile(seed=24, size=96, peak_ppm_m=0.0, contrast=0.8)
    found = noise_aware_fields(*tile.inputs)
    low, high = np.quantile(found.brightness, [0.05, 0.95])
    assert np.median(found.sigma_ppm_m[found.brightness < low]) > 1.3 * np.median(
        found.sigma_ppm_m[found.brightness > high]
    )


def test_estimate_is_more_precise_than_one_covariance_for_all():
    from flame.filters import FILTERS

    tile = simulated_tile(seed=25, size=96, peak_ppm_m=0.0, contrast=0.8)
    ours, plain = noise_aware_fields(*tile.inputs), FILTERS["log-mf"].score(*tile.inputs)
    assert ours.enhancement_ppm_m.std() < 0.9 * plain.std()


def test_noise_law_is_found_in_the_tile():
    tile = simulated_tile(seed=26, size=128, peak_ppm_m=0.0, contrast=0.8)
    known = estimate_background(*tile.inputs)
    true = law_of_sensor("aviris-ng", tile.bands, known.scale.reference)
    for brightness in (0.5, 1.0, 2.0):
        at = np.array([brightness])
        ratio = known.law.variance(at) / true.variance(at)
        assert np.median(ratio) == pytest.approx(1.0, abs=0.15)


def test_law_of_a_sensor_is_its_noise_model():
    bands = sensor("emit").bands.methane()
    reference = np.linspace(0.4, 0.1, len(bands))
    law = law_of_sensor("emit", bands, reference)
    for brightness in (0.2, 1.0, 3.0):
        radiance = brightness * reference
        expected = np.square(noise_model("emit").sigma(radiance, bands) / radiance)
        np.testing.assert_allclose(law.variance(np.array([brightness]))[:, 0], expected, rtol=1e-10)


def test_bins_of_one_brightness_still_have_a_law():
    """As in a saturated image: no term can be told from another, and one of them is the noise."""
    variance = np.random.default_rng(0).uniform(0.5, 1.5, (8, 5))
    law = fit_law(MeasuredNoise(variance, np.full(8, 0.7)))
    at_bin = law.variance(np.array([0.7]))[:, 0]
    assert (law.read_out >= 0).all()
    assert (law.shot >= 0).all()
    assert ((at_bin == 0) | ((at_bin > 0.4) & (at_bin < 1.6))).all()
    told = fit_law(MeasuredNoise(variance, np.linspace(0.3, 3.0, 8)))
    assert np.isfinite(told.read_out + told.shot).all()


def test_small_non_negative_least_squares_are_those_of_lawson_and_hanson():
    rng = np.random.default_rng(27)
    terms = rng.uniform(0.1, 1.0, (60, 8, 3)) * rng.uniform(0.2, 3.0, (60, 1, 3)) ** np.arange(3)
    expected = np.array([nnls(each, np.ones(8))[0] for each in terms])
    assert (expected == 0).any()
    np.testing.assert_allclose(_non_negative(terms), expected, atol=1e-9)


def test_neighbours_tell_of_the_ground_and_not_of_methane():
    tile = simulated_tile(seed=28, size=96, peak_ppm_m=0.0)
    known = estimate_background(*tile.inputs)
    assert known.neighbour.any()
    assert abs(known.neighbour @ unit_absorption(tile.bands)) < 1e-6 * np.abs(known.neighbour).max()
    uniform = np.full(tile.valid.shape, 1000.0)
    covered = (tile.radiance * transmittance(uniform, tile.bands)).astype(np.float32)
    before, after = (apply(known, image, tile.bands, tile.valid) for image in (tile.radiance, covered))
    assert np.median(after.enhancement_ppm_m - before.enhancement_ppm_m) == pytest.approx(1000.0, rel=0.08)


def test_foreign_material_widens_its_own_sigma():
    tile = simulated_tile(seed=29, size=96, peak_ppm_m=0.0)
    rng = np.random.default_rng(29)
    image, where = tile.radiance.copy(), np.zeros(tile.valid.shape, dtype=bool)
    where.ravel()[rng.choice(where.size, 200, replace=False)] = True
    bump = np.exp(0.1 * gaussian_filter1d(rng.standard_normal((72, 200)), 2.0, axis=0))
    image[:, where] *= bump.astype(np.float32)
    found = noise_aware_fields(image, tile.bands, tile.valid)
    assert np.median(found.anomaly[where]) > 5 * np.median(found.anomaly[~where])
    assert np.median(found.sigma_ppm_m[where]) > 2 * np.median(found.sigma_ppm_m[~where])
    assert 0.9 < spread(found, ~where) < 1.1


def test_invalid_and_dark_pixels_are_zero_with_infinite_sigma():
    tile = simulated_tile(seed=30, size=64)
    valid, image = tile.valid.copy(), tile.radiance.copy()
    valid[:4] = False
    image[:, 10, 10:14] *= 1e-3
    found = noise_aware_fields(image, tile.bands, valid)
    for gone in (np.s_[:4], np.s_[10, 10:14]):
        assert (found.enhancement_ppm_m[gone] == 0).all()
        assert np.isinf(found.sigma_ppm_m[gone]).all()
        assert not found.usable[gone].any()
    assert np.isfinite(found.sigma_ppm_m[found.usable]).all()
    posterior = found.posterior(1.0)
    assert np.isfinite(posterior.mean_ppm_m).all()
    assert np.isfinite(posterior.sigma_ppm_m).all()


@pytest.mark.parametrize(("size", "name"), [(12, None), (12, "aviris-ng"), (30, None), (30, "aviris-ng")])
def test_few_pixels_still_have_a_true_sigma(size, name):
    """144 pixels are two a band: noise cannot be told from ground, unless the sensor's law is known."""
    ratios = []
    for seed in range(6):
        tile = simulated_tile(seed=seed, size=size, peak_ppm_m=0.0)
        found = noise_aware_fields(*tile.inputs, NoiseAwareSettings(sensor=name))
        ratios.append((found.enhancement_ppm_m / found.sigma_ppm_m)[found.usable])
    assert 0.7 < np.concatenate(ratios).std() < 1.5


def test_background_serves_another_tile_of_the_same_ground_but_not_other_bands():
    tile = simulated_tile(seed=31, size=96)
    known = estimate_background(*tile.inputs)
    part = np.ascontiguousarray(tile.radiance[:, 20:60])
    alone = apply(known, part, tile.bands, tile.valid[20:60])
    whole = apply(known, *tile.inputs)
    np.testing.assert_allclose(alone.enhancement_ppm_m[1:-1], whole.enhancement_ppm_m[20:60][1:-1], rtol=1e-4, atol=0.1)
    other = sensor("emit").bands.methane()
    with pytest.raises(BandMismatchError):
        apply(known, tile.radiance[: len(other)], other, tile.valid)


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize(("shape", "name"), [((40, 64), "aviris-ng"), ((37, 51), "emit"), ((48, 30), "aviris-ng")])
def test_kernels_equal_numpy(instructions, shape, name):
    kernels = load_kernels(instructions)
    tile = simulated_tile(seed=32, size=64, sensor_name=name)
    image = np.ascontiguousarray(tile.radiance[:, : shape[0], : shape[1]])
    valid = np.random.default_rng(33).random(shape) > 0.1
    valid[0] = False
    image[:, ~valid] = np.nan
    scale, _ = draw_sample(image, valid, NoiseAwareSettings())
    middle = np.array([0, 1, 2, shape[0] // 2, shape[0] - 1], dtype=np.int32)
    (spectra, images), (expected, expected_images) = (
        _look(kernels, image, valid, middle, scale),
        _look_with_numpy(image, valid, middle, scale),
    )
    np.testing.assert_allclose(images, expected_images, rtol=1e-5, atol=1e-6)
    usable = expected_images[2] > 0
    np.testing.assert_allclose(spectra[:, :, usable], expected[:, :, usable], atol=2e-6)

    known = estimate_background(image, tile.bands, valid)
    fast, slow = project(known, image, valid, kernels), project_with_numpy(known, image, valid)
    turned = project(known, np.roll(image, 5, axis=1), valid, kernels, first=5)
    np.testing.assert_array_equal(turned.layers, fast.layers)
    for got, wanted in zip(fast.layers, slow.layers, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-4 * np.abs(wanted).max())
    got, wanted = apply(known, image, tile.bands, valid, kernels), _finish_with_numpy(known, slow)
    np.testing.assert_array_equal(got.usable, wanted.usable)
    typical = np.median(wanted.sigma_ppm_m[wanted.usable])
    np.testing.assert_allclose(got.enhancement_ppm_m, wanted.enhancement_ppm_m, rtol=1e-4, atol=1e-3 * typical)
    np.testing.assert_allclose(got.sigma_ppm_m, wanted.sigma_ppm_m, rtol=1e-3)


def test_smoothing_weighs_by_inverse_variance_and_knows_its_own_sigma():
    rng = np.random.default_rng(34)
    sigma = rng.uniform(50.0, 400.0, (400, 400)).astype(np.float32)
    noise = (sigma * rng.standard_normal(sigma.shape)).astype(np.float32)
    sigma[::7, ::5] = np.inf
    mean, spread_of = smooth(noise, sigma, (1.5, 1.5))
    assert (mean / spread_of).std() == pytest.approx(1.0, abs=0.02)
    assert np.median(spread_of) < 0.2 * np.median(sigma)


def test_prior_is_learned_from_the_tile():
    rng = np.random.default_rng(35)
    sigma = np.full(40_000, 100.0, dtype=np.float32)
    truth = np.where(np.arange(40_000) < 800, np.abs(rng.normal(0.0, 900.0, 40_000)), 0.0)
    prior = learn_prior((truth + sigma * rng.standard_normal(40_000)).astype(np.float32), sigma)
    assert prior.width_ppm_m == pytest.approx(900.0, rel=0.2)
    assert prior.share == pytest.approx(0.02, rel=0.35)
    empty = learn_prior((sigma * rng.standard_normal(40_000)).astype(np.float32), sigma)
    assert empty.share < 0.003


def test_posterior_is_shrunk_and_sure_of_a_clear_plume():
    tile = simulated_tile(seed=36, size=96, peak_ppm_m=4000.0)
    found = noise_aware_fields(*tile.inputs)
    posterior = found.posterior(1.5)
    core, ground = tile.enhancement_ppm_m > 2000, tile.enhancement_ppm_m == 0
    assert posterior.probability[core].min() > 0.99
    assert np.median(posterior.probability[ground]) < 0.05
    assert np.abs(posterior.mean_ppm_m[ground]).mean() < 0.1 * np.abs(found.enhancement_ppm_m[ground]).mean()
    given = found.posterior(1.5, Prior(1000.0, 0.01))
    assert given.prior.width_ppm_m == 1000.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"levels": 1}, "at least 2 levels"),
        ({"passes": 0}, "1 pass"),
        ({"smoothing_px": 0.0}, "above zero"),
        ({"sensor": "landsat"}, "no sensor 'landsat'"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(FilterError, match=message):
        NoiseAwareSettings(**wrong)
    with pytest.raises(FilterError, match="a prior needs"):
        Prior(0.0, 0.5)


def test_noise_limit_decides_what_is_too_dark():
    tile = simulated_tile(seed=37, size=64, contrast=0.8)
    strict = noise_aware_fields(*tile.inputs, NoiseAwareSettings(max_log_noise=0.005))
    usual = noise_aware_fields(*tile.inputs)
    assert usual.usable.all()
    assert 0 < strict.usable.mean() < 1
    assert strict.brightness[strict.usable].min() > usual.brightness[~strict.usable].max()
    darker = NoiseAwareSettings(background=BackgroundSettings(min_albedo=0.8))
    assert noise_aware_fields(*tile.inputs, darker).usable.mean() < 0.9


def test_bands_that_are_copies_are_refused_in_words():
    radiance, bands, valid = simulated_tile(seed=3, size=64, peak_ppm_m=0.0).inputs
    radiance = radiance.copy()
    radiance[1::2] = radiance[::2]
    with pytest.raises(FilterError, match="bands made of others"):
        estimate_background(radiance, bands, valid)
