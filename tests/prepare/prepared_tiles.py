"""Tiles with correlated bands, holes and bad pixels, of any number of bands and any size."""

import numpy as np

from flame.physics import BandSet


def bands_of(count):
    return BandSet(np.linspace(2130.0, 2470.0, count), np.full(count, 6.0))


def random_tile(bands=9, rows=40, cols=37, seed=0, holes=0.1):
    """Radiance, validity and RGB; the radiance varies by a fifth."""
    rng = np.random.default_rng(seed)
    log = np.einsum("ij,jrc->irc", rng.normal(size=(bands, bands)), rng.normal(size=(bands, rows, cols)))
    radiance = np.exp(0.2 / np.sqrt(bands) * log).astype(np.float32)
    valid = rng.random((rows, cols)) >= holes
    return radiance, valid, rng.uniform(1, 9, (3, rows, cols)).astype(np.float32)


def spoiled(radiance, seed=0):
    """The radiance with every kind of bad pixel in it."""
    rng = np.random.default_rng(seed)
    radiance = radiance.copy()
    for bad in (np.nan, np.inf, -np.inf, 0.0, -0.5, -9999.0, 1e6, 1e-30):
        band, row, col = (rng.integers(0, size, 3) for size in radiance.shape)
        radiance[band, row, col] = bad
    row, col = (rng.integers(0, size, 4) for size in radiance.shape[1:])
    radiance[:, row, col] = 0.0
    return radiance
