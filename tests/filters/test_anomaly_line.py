"""The widening of sigma by anomaly is a line without negative coefficients: SciPy's solver is the oracle."""

import numpy as np
import pytest
from scipy.optimize import nnls

from flame.filters.noise_aware.anomaly import _nonnegative_line


@pytest.mark.parametrize(("flat", "rising"), [(1.0, 0.3), (1.0, -0.4), (-0.3, 1.0), (1.0, 0.0)])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_nearest_line_without_negative_coefficients(flat, rising, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.exponential(1.0, 12))
    y = np.maximum(flat + rising * x, 0.05) * rng.uniform(0.7, 1.4, 12)
    expected, _ = nnls(np.stack([np.ones_like(x), x], axis=1) / y[:, None], np.ones_like(y))
    assert _nonnegative_line(x, y) == pytest.approx(tuple(expected), rel=1e-8, abs=1e-10)


def test_ground_without_anomaly_has_a_constant():
    assert _nonnegative_line(np.zeros(8), np.full(8, 2.0)) == pytest.approx((2.0, 0.0))
