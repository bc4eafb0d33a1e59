"""The largest magnitude among many numbers: NumPy is the oracle, and NaN wins."""

import numpy as np
import pytest

from kernel_sets import kernels, wide_kernels  # noqa: F401


def largest(kernels, values):  # noqa: F811
    return kernels.largest_magnitude(values.ctypes.data, values.size)


@pytest.mark.parametrize("count", [0, 1, 7, 64, 1003])
def test_it_is_the_largest_of_either_sign(kernels, count):  # noqa: F811
    values = np.random.default_rng(count).normal(0, 1e3, count).astype(np.float32)
    assert largest(kernels, values) == (np.abs(values).max() if count else 0.0)
    assert largest(kernels, -values) == largest(kernels, values)


@pytest.mark.parametrize("odd", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 500, 999])
def test_what_is_no_number_comes_out(kernels, odd, place):  # noqa: F811
    values = np.ones(1000, np.float32)
    values[place] = odd
    np.testing.assert_equal(largest(kernels, values), abs(odd))
