"""The log-domain matched filter and the pieces a network is compared with."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters import FILTERS, LogMfSettings, fit_log_mf
from flame.physics import unit_absorption

TILE = simulated_tile(seed=6)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_equals_the_estimator_written_out(covariance):
    log = np.log(TILE.radiance.reshape(72, -1).astype(np.float64))
    s, mean = unit_absorption(TILE.bands), log.mean(axis=1)
    c = np.cov(log, bias=True)
    if covariance == "diagonal":
        c = np.diag(np.diagonal(c))
    weight = np.linalg.solve(c, s)
    settings = LogMfSettings(covariance=covariance)
    pieces = fit_log_mf(*TILE.inputs, settings)
    np.testing.assert_allclose(pieces.mean_log, mean, atol=1e-6)
    np.testing.assert_allclose(pieces.variance, np.diagonal(c), rtol=1e-4)
    np.testing.assert_allclose(pieces.weight, weight, rtol=1e-3, atol=1e-4 * np.abs(weight).max())
    assert pieces.normaliser == pytest.approx(s @ weight, rel=1e-4)
    expected = 1e5 * (log - mean[:, None]).T @ weight / (s @ weight)
    got = FILTERS["log-mf"].score(*TILE.inputs, settings).ravel()
    np.testing.assert_allclose(got, expected, atol=2e-3 * np.abs(expected).max())


def test_proposition_a_is_the_diagonal_numerator():
    """(l - l-bar)^T (s / omega^2), to which the network reduces with constant heads."""
    log = np.log(TILE.radiance.reshape(72, -1))
    pieces = fit_log_mf(*TILE.inputs, LogMfSettings(covariance="diagonal"))
    s = unit_absorption(TILE.bands)
    expected = (log - pieces.mean_log[:, None]).T @ (s / pieces.variance)
    np.testing.assert_allclose(pieces.numerator(log), expected, rtol=1e-4, atol=1e-3 * np.abs(expected).max())


def test_noise_of_the_estimate_is_what_the_normaliser_says():
    tile = simulated_tile(seed=8, peak_ppm_m=0.0)
    sigma_ppm_m = 1e5 / np.sqrt(fit_log_mf(*tile.inputs).normaliser)
    score = FILTERS["log-mf"].score(*tile.inputs)
    assert score.std() == pytest.approx(sigma_ppm_m, rel=0.01)
    assert abs(float(score.mean())) < 0.05 * sigma_ppm_m
