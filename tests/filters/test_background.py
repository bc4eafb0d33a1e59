"""Mean, covariance and inverse against NumPy, and shrinkage where it is due."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters.background import BackgroundSettings, estimate, usable_pixels
from flame.filters.pixels import BLOCK_PIXELS, Pixels, pixels_of
from flame.filters.whitening import leave_one_out_shrinkage, whitening
from flame.physics import unit_absorption


def test_mean_and_covariance_equal_numpy_across_blocks():
    rng = np.random.default_rng(0)
    spectra = (5.0 + rng.standard_normal((6, 2 * BLOCK_PIXELS + 17))).astype(np.float32)
    usable = rng.random(spectra.shape[1]) > 0.3
    background = estimate(Pixels(spectra, usable, (1, usable.size)))
    np.testing.assert_allclose(background.mean, spectra[:, usable].mean(axis=1, dtype=np.float64), rtol=1e-8)
    np.testing.assert_allclose(
        background.covariance, np.cov(spectra[:, usable].astype(np.float64), bias=True), rtol=1e-6, atol=1e-7
    )
    assert background.shrinkage == 0


def test_small_noise_on_a_bright_scene_survives():
    """The variance of one part in a million that float32 sums would lose."""
    rng = np.random.default_rng(1)
    brightness = rng.uniform(1.0, 9.0, 50_000)
    spectra = (brightness + 1e-3 * rng.standard_normal((2, 50_000))).astype(np.float32)
    covariance = estimate(Pixels(spectra, np.ones(50_000, dtype=bool), (1, 50_000))).covariance
    difference = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert difference == pytest.approx(2e-6, rel=0.05)


def test_inverse_of_a_regular_covariance_is_the_inverse():
    rng = np.random.default_rng(2)
    root = rng.standard_normal((8, 8))
    covariance = root @ root.T + 0.1 * np.eye(8)
    t = rng.standard_normal(8)
    white = whitening(covariance)
    np.testing.assert_allclose(white.solve(t), np.linalg.solve(covariance, t), rtol=1e-9)
    np.testing.assert_allclose(white.matrix @ covariance @ white.matrix.T, np.eye(8), atol=1e-9)
    shrunk = 0.7 * covariance + 0.3 * np.diag(np.diagonal(covariance))
    np.testing.assert_allclose(whitening(covariance, 0.3).solve(t), np.linalg.solve(shrunk, t), rtol=1e-9)
    assert white.seen(t) is t


def test_singular_covariance_is_inverted_where_it_varies():
    rng = np.random.default_rng(3)
    samples = rng.standard_normal((5, 1000))
    samples = np.vstack([samples, samples[:1], np.zeros((1, 1000))])
    covariance = np.cov(samples)
    white = whitening(covariance)
    t = covariance @ rng.standard_normal(7)
    np.testing.assert_allclose(covariance @ white.solve(t), t, atol=1e-9)
    np.testing.assert_allclose(white.seen(t), t, atol=1e-9)
    assert white.solve(np.eye(7)[6])[6] == 0


def test_shrinkage_is_strong_for_few_spectra_and_weak_for_many():
    rng = np.random.default_rng(4)
    root = rng.standard_normal((20, 20)) * np.geomspace(1, 0.01, 20)
    few = leave_one_out_shrinkage(root @ rng.standard_normal((20, 15)))
    many = leave_one_out_shrinkage(root @ rng.standard_normal((20, 4000)))
    assert many < 1e-3 < few


@pytest.mark.parametrize("count", [64, 80, 150])
def test_shrinkage_keeps_the_contrast_of_the_filter_when_pixels_are_few(count):
    """Contrast of methane under the true covariance: far above the sample covariance's, near the best shrinkage's."""
    tile = simulated_tile(seed=1, size=128, peak_ppm_m=0.0)
    spectra = tile.radiance.reshape(72, -1).astype(np.float64)
    truth, target = np.cov(spectra), spectra.mean(axis=1) * unit_absorption(tile.bands)
    few = spectra[:, np.random.default_rng(5).choice(spectra.shape[1], count, replace=False)]

    def contrast(shrinkage: float) -> float:
        weight = whitening(np.cov(few), shrinkage).solve(target)
        return float((weight @ target) ** 2 / (weight @ truth @ weight))

    chosen = contrast(leave_one_out_shrinkage(few))
    assert chosen > 1.2 * contrast(1e-8)
    assert chosen > 0.85 * max(contrast(shrinkage) for shrinkage in np.geomspace(1e-6, 1.0, 13))


def test_saturated_pixels_are_set_aside_and_dark_ones_kept():
    tile = simulated_tile(size=32)
    image = tile.radiance.copy()
    image[:, 2, 3], image[:, 4, 5] = 1e6, 0.0
    left = usable_pixels(pixels_of(image, tile.bands, tile.valid), BackgroundSettings())
    assert left.pixels.count == 32 * 32 - 1
    assert not left.pixels.usable[2 * 32 + 3]
    assert left.albedo[4 * 32 + 5] == 0
    assert left.albedo[left.pixels.usable].mean() == pytest.approx(1.0, abs=1e-3)
