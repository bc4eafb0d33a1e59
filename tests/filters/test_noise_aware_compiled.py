"""The passes over a sample in C: what NumPy learns of a tile, on every instruction set, and NumPy where C cannot."""

from dataclasses import replace

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters import NoiseAwareSettings
from flame.filters.noise_aware import background, estimate_background
from flame.kernels import Kernels, load_kernels
from kernel_sets import kernels, wide_kernels  # noqa: F401

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")


@pytest.fixture
def told(monkeypatch):
    """What the kernels answered, call after call."""
    answers = []
    real = background.learn_with_kernels

    def listened(*given, **named):
        answers.append(real(*given, **named))
        return answers[-1]

    monkeypatch.setattr(background, "learn_with_kernels", listened)
    return answers


def by_numpy(monkeypatch, *given, **named):
    with monkeypatch.context() as patched:
        patched.setattr(background, "learn_with_kernels", lambda *_, **__: None)
        return estimate_background(*given, **named)


def assert_same_ground(got, wanted):
    for what, one, other, rtol in (
        ("read-out noise", got.law.read_out, wanted.law.read_out, 1e-4),
        ("shot noise", got.law.shot, wanted.law.shot, 1e-4),
        ("mean", got.mean, wanted.mean, 1e-6),
        ("covariance", got.covariance, wanted.covariance, 1e-5),
        ("weights", got.levels.weight, wanted.levels.weight, 1e-4),
        ("gain", got.levels.neighbour_gain, wanted.levels.neighbour_gain, 1e-4),
        ("sigma", got.levels.sigma_ppm_m, wanted.levels.sigma_ppm_m, 1e-3),
        ("log-noise", got.levels.log_noise, wanted.levels.log_noise, 1e-4),
        ("neighbour", got.neighbour, wanted.neighbour, 1e-3),
        ("clutter", got.anomaly.clutter, wanted.anomaly.clutter, 1e-4),
        ("typical distance", got.anomaly.typical, wanted.anomaly.typical, 1e-3),
        ("widening", got.anomaly.widening, wanted.anomaly.widening, 1e-2),
    ):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max(), err_msg=what)
    np.testing.assert_array_equal(got.law.doubtful, wanted.law.doubtful)
    # A level's own median is that of few pixels, which the last digits of an estimate can exchange.
    apart = np.abs(got.levels.offset - wanted.levels.offset) / wanted.levels.sigma_ppm_m
    assert apart.max() < 1e-2


@pytest.mark.parametrize(
    ("name", "size", "settings"),
    [
        ("aviris-ng", 96, NoiseAwareSettings()),
        ("emit", 90, NoiseAwareSettings(levels=5, bins=5)),
        ("emit", 70, NoiseAwareSettings(neighbours=False, passes=1)),
        ("prisma", 64, NoiseAwareSettings(passes=2, smoothing_px=2.5)),
    ],
)
def test_kernels_learn_what_numpy_does(kernels, told, monkeypatch, name, size, settings):  # noqa: F811
    tile = simulated_tile(seed=31, size=size, sensor_name=name)
    for workers in (1, 3):
        got = estimate_background(*tile.inputs, settings, kernels, workers=workers)
    assert told[0] is not None
    assert_same_ground(got, by_numpy(monkeypatch, *tile.inputs, settings, kernels))


def test_threads_change_nothing():
    tile = simulated_tile(seed=32, size=80)
    one, other = (estimate_background(*tile.inputs, workers=workers) for workers in (1, 3))
    np.testing.assert_array_equal(one.levels.weight, other.levels.weight)
    np.testing.assert_array_equal(one.levels.offset, other.levels.offset)
    np.testing.assert_array_equal(one.anomaly.direction, other.anomaly.direction)


class Refusing(Kernels):
    """Kernels that find no inverse."""

    def __init__(self):
        pass

    def __getattr__(self, name):
        return (lambda *_: 1) if name == "learn_filter" else getattr(load_kernels(), name)


def test_numpy_has_the_last_word_where_a_matrix_has_no_inverse(told, monkeypatch):
    tile = simulated_tile(seed=33, size=64)
    got = estimate_background(*tile.inputs, None, Refusing())
    assert told == [None]
    np.testing.assert_array_equal(got.levels.weight, by_numpy(monkeypatch, *tile.inputs).levels.weight)


def test_a_band_made_of_another_is_doubted_by_both(monkeypatch):
    radiance, bands, valid = simulated_tile(seed=33, size=64).inputs
    radiance = radiance.copy()
    radiance[5] = radiance[4]
    got, wanted = estimate_background(radiance, bands, valid), by_numpy(monkeypatch, radiance, bands, valid)
    np.testing.assert_array_equal(got.law.doubtful, wanted.law.doubtful)
    assert got.law.doubtful[4:6].all()
    np.testing.assert_allclose(got.levels.sigma_ppm_m, wanted.levels.sigma_ppm_m, rtol=1e-2)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("name", ["aviris-ng", "emit"])
def test_bright_pixels_cut_off_leave_both_the_same_filter(kernels, told, monkeypatch, name):  # noqa: F811
    """In bins of which a band does not vary no noise can be told, or only what rounding leaves of it."""
    radiance, bands, valid = simulated_tile(seed=35, size=96, sensor_name=name).inputs
    radiance = np.minimum(radiance, np.quantile(radiance, 0.6).astype(np.float32))
    got = estimate_background(radiance, bands, valid, None, kernels)
    wanted = by_numpy(monkeypatch, radiance, bands, valid, None, kernels)
    assert told[0] is not None
    np.testing.assert_allclose(got.levels.sigma_ppm_m, wanted.levels.sigma_ppm_m, rtol=1e-2)
    largest = np.abs(wanted.levels.weight).max()
    np.testing.assert_allclose(got.levels.weight, wanted.levels.weight, atol=1e-2 * largest)


def test_few_pixels_and_given_laws_are_left_to_numpy(told):
    tile = simulated_tile(seed=34, size=24)
    estimate_background(*tile.inputs)
    assert told == [None]
    told.clear()
    estimate_background(*tile.inputs, replace(NoiseAwareSettings(), sensor="aviris-ng"))
    assert told == []
