"""MAG1C-SAS gives the numbers of the package onboard-methane-detection (Herec et al. 2025)."""

import numpy as np
import pytest
from onboard_methane_detection import mag1c_sas

from filters.simulated_tile import simulated_tile
from flame.filters.mag1c_sas import score
from flame.physics import unit_absorption


def assert_same(ours: np.ndarray, theirs: np.ndarray) -> None:
    plume = theirs > 100
    assert plume.sum() > 100
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.9999
    assert np.median(np.abs(ours - theirs)[plume] / theirs[plume]) < 1e-3


@pytest.mark.parametrize(("seed", "peak_ppm_m"), [(0, 800.0), (1, 3000.0), (2, 10_000.0)])
def test_whole_tile(seed, peak_ppm_m):
    """192 x 192 is about the least size at which the peer's 1 % sample holds five pixels a band."""
    tile = simulated_tile(seed, size=192, peak_ppm_m=peak_ppm_m)
    assert_same(score(*tile.inputs), mag1c_sas(tile.radiance, unit_absorption(tile.bands))[0])


def test_invalid_pixels():
    """The peer's sign for them is zero in all bands."""
    tile = simulated_tile(3, size=224)
    valid = np.random.default_rng(0).random(tile.valid.shape) > 0.2
    image = np.where(valid, tile.radiance, np.float32(0))
    assert_same(score(image, tile.bands, valid), mag1c_sas(image, unit_absorption(tile.bands))[0])


def test_small_tile_where_the_peer_breaks_down():
    """A 64 x 64 tile leaves the peer 40 spectra for 72 bands; here the sample grows and the plume is found.

    The peer inverts a singular matrix: what comes out depends on the processor, but it is no map of the plume.
    """
    tile = simulated_tile(4, size=64, peak_ppm_m=4000.0)
    ours = score(*tile.inputs)
    theirs = mag1c_sas(tile.radiance, unit_absorption(tile.bands))[0]
    plume = tile.enhancement_ppm_m > 2000
    assert ours[plume].mean() == pytest.approx(tile.enhancement_ppm_m[plume].mean(), rel=0.2)
    ours_likeness, peers_likeness = (
        np.corrcoef(found.ravel(), tile.enhancement_ppm_m.ravel())[0, 1] for found in (ours, theirs)
    )
    assert ours_likeness > 0.9
    assert not peers_likeness > 0.5  # NaN is no likeness either
