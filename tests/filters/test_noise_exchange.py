"""Exchanging the noise in a covariance leaves every direction some of its variance."""

import numpy as np

from flame.filters.noise_aware.fit import at_noise
from flame.filters.noise_aware.noise_law import NoiseLaw


def test_a_least_direction_that_the_search_does_not_begin_with_is_kept() -> None:
    """One band varies least by itself, but a mixture of all the others, of which it has no part, still less."""
    bands = 40
    even = np.append(np.ones(bands - 1), 0.0) / np.sqrt(bands - 1)
    covariance = np.eye(bands) - 0.7 * np.outer(even, even)
    covariance[-1, -1] = 0.5
    noise = np.ones(bands)
    quieter = at_noise(covariance, noise, np.zeros((2, bands)), NoiseLaw(np.ones(bands), np.zeros(bands)))
    assert (np.linalg.eigvalsh(quieter) > 0).all()
    assert (np.diagonal(quieter, axis1=1, axis2=2) < np.diagonal(covariance)).all()
