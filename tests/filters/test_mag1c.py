"""MAG1C: column groups, the first step, and what the settings do. Parity with mag1c stands in tests/parity."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters import FilterError, Mag1cSettings, mf
from flame.filters.mag1c import score

TILE = simulated_tile(seed=2, size=80)


def test_groups_are_scored_on_their_own_and_the_last_borrows_columns():
    grouped = score(*TILE.inputs, Mag1cSettings(column_group=32))
    for start, kept in ((0, slice(0, 32)), (32, slice(32, 48)), (48, slice(48, 80))):
        part = slice(start, start + 32)
        alone = score(TILE.radiance[:, :, part], TILE.bands, TILE.valid[:, part])
        np.testing.assert_array_equal(grouped[:, kept], alone[:, kept.start - start : kept.stop - start])


def test_group_wider_than_the_image_is_the_whole_image():
    np.testing.assert_array_equal(score(*TILE.inputs, Mag1cSettings(column_group=500)), score(*TILE.inputs))


def test_group_without_a_valid_pixel_scores_zero():
    valid = TILE.valid.copy()
    valid[:, :16] = False
    grouped = score(TILE.radiance, TILE.bands, valid, Mag1cSettings(column_group=16))
    assert (grouped[:, :16] == 0).all()
    assert grouped[:, 16:].max() > 1000


def test_group_that_cannot_be_scored_is_named():
    valid = TILE.valid.copy()
    valid[1:, :16] = False
    valid[0, 1:16] = False
    with pytest.raises(FilterError, match=r"columns 0 to 15: no band varies.*use more columns"):
        score(TILE.radiance, TILE.bands, valid, Mag1cSettings(column_group=16))


def test_without_iterations_it_is_the_matched_filter_over_albedo():
    mean = TILE.radiance.mean(axis=(1, 2), dtype=np.float64)
    albedo = np.tensordot(mean, TILE.radiance, axes=(0, 0)) / (mean @ mean)
    expected = 1e5 * np.maximum(mf.score(*TILE.inputs), 0) / albedo
    np.testing.assert_allclose(score(*TILE.inputs, Mag1cSettings(iterations=0)), expected, rtol=1e-3, atol=0.5)


def test_sparsity_empties_the_background_and_keeps_the_plume():
    first, last = score(*TILE.inputs, Mag1cSettings(iterations=0)), score(*TILE.inputs)
    plume = TILE.enhancement_ppm_m > 1500
    clear = TILE.enhancement_ppm_m == 0
    assert (first[clear] > 0).mean() > 0.3
    assert (last[clear] > 0).mean() < 0.1
    assert (last[plume] > 0).all()


@pytest.mark.parametrize("wrong", [{"iterations": -1}, {"column_group": 0}])
def test_settings_refuse_nonsense(wrong):
    with pytest.raises(FilterError):
        Mag1cSettings(**wrong)
