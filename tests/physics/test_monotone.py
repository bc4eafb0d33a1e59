"""Monotone cubic interpolation: SciPy's own is the oracle."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from flame.physics import methane_table
from flame.physics.monotone import monotone_cubic


def test_it_is_scipys_on_the_methane_table():
    table = methane_table()
    at = np.linspace(0.0, table.enhancement_ppm_m[-1], 97)
    expected = PchipInterpolator(table.enhancement_ppm_m, table.absorbance, axis=0)(at)
    np.testing.assert_allclose(
        monotone_cubic(table.enhancement_ppm_m, table.absorbance, at), expected, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("nodes", [3, 4, 9])
def test_it_is_scipys_on_values_that_rise_fall_and_stay(nodes):
    rng = np.random.default_rng(nodes)
    x = np.cumsum(rng.uniform(0.1, 3.0, nodes))
    y = rng.integers(-2, 3, (nodes, 40)).astype(float)
    at = np.concatenate([rng.uniform(x[0], x[-1], 50), x])
    np.testing.assert_allclose(monotone_cubic(x, y, at), PchipInterpolator(x, y, axis=0)(at), rtol=1e-10, atol=1e-12)
