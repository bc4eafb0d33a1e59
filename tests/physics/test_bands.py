"""A BandSet that cannot be right cannot be made."""

import numpy as np
import pytest

from flame.physics import BandError, BandMismatchError, BandSet, sensor


@pytest.mark.parametrize(
    ("centres", "fwhm", "message"),
    [
        ([2300.0, 2290.0], [5.0, 5.0], "must increase, got 2300 nm followed by 2290 nm"),
        ([2300.0, 2300.0], [5.0, 5.0], "must increase"),
        ([2.3, 2.31], [0.005, 0.005], "micrometres must be multiplied by 1000"),
        ([2300.0, 2310.0], [5.0], "one FWHM for each of 2"),
        ([2300.0, np.nan], [5.0, 5.0], "must be finite"),
        ([2300.0, 2310.0], [5.0, 0.0], "must be positive, got 0 nm"),
        ([], [], "non-empty"),
    ],
)
def test_refuses(centres, fwhm, message):
    with pytest.raises(BandError, match=message):
        BandSet(np.array(centres), np.array(fwhm))


def test_is_immutable_and_hashable():
    bands = sensor("emit").bands
    with pytest.raises(ValueError, match="read-only"):
        bands.centres_nm[0] = 1.0
    assert bands == BandSet(bands.centres_nm.copy(), bands.fwhm_nm.copy())
    assert len({bands, BandSet(bands.centres_nm.copy(), bands.fwhm_nm.copy())}) == 1


def test_matches_within_a_tolerance():
    bands = sensor("emit").bands
    shifted = BandSet(bands.centres_nm + 0.4, bands.fwhm_nm)
    assert bands.matches(shifted, tolerance_nm=0.5)
    assert not bands.matches(shifted, tolerance_nm=0.3)
    assert not bands.matches(bands.methane())


def test_mismatch_names_both_lists():
    error = BandMismatchError(sensor("aviris-ng").bands.methane(), sensor("emit").bands.methane(), "scene.nc")
    assert "scene.nc" in str(error)
    assert "72 bands" in str(error)
    assert "49 bands" in str(error)


def test_nearest_and_select():
    bands = BandSet(np.array([2200.0, 2300.0, 2400.0]), np.full(3, 6.0))
    assert bands.nearest(2310.0) == 1
    np.testing.assert_array_equal(bands.select(bands.within(2250.0, 2500.0)).centres_nm, [2300.0, 2400.0])
