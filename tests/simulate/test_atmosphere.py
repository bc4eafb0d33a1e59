"""Laws of the clear sky: the table's own scene comes back, and more absorber means less light."""

import numpy as np
import pytest

from flame.physics import clear_sky_radiance, sensor
from flame.simulate.atmosphere import TABLE_AIRMASS, AirState, airmass_of, band_sunlight, path_factor, visible_sunlight

BANDS = sensor("aviris-ng").bands.methane()
FLAT = np.zeros((2, 3), np.float32)


def air(vapour=1.0, dry=1.0, sun_deg=24.62, vapour_field=FLAT, dry_field=FLAT):
    return AirState(sun_deg, 0.0, vapour, dry, 0.001, 0.05, vapour_field, dry_field)


def light(state, shift_nm=0.0, fwhm=1.0, smile=FLAT):
    return band_sunlight(BANDS, state, shift_nm, fwhm, smile)


def test_the_tables_own_air_gives_the_tables_own_radiance():
    assert air().airmass == pytest.approx(TABLE_AIRMASS, abs=0.001)
    seen = light(air())[:, 0, 0]
    expected = clear_sky_radiance(BANDS)
    ratio = seen / expected
    # Both to within the smooth part that aerosol and sunlight put on top.
    np.testing.assert_allclose(ratio / ratio.mean(), 1.0, atol=0.06)


def test_vapour_darkens_the_window_and_most_where_water_absorbs():
    change = np.log(light(air(vapour=2.0))[:, 0, 0] / light(air())[:, 0, 0])
    assert (change <= 0).all()
    assert change[BANDS.nearest(2475.0)] < -0.8 < change[BANDS.nearest(2135.0)]


def test_a_higher_ground_lets_more_methane_light_through():
    change = np.log(light(air(dry=0.75))[:, 0, 0] / light(air())[:, 0, 0])
    assert (change >= -1e-6).all()
    assert change[BANDS.nearest(2345.0)] > 3 * change[BANDS.nearest(2140.0)]


def test_the_expansion_inside_a_tile_meets_the_exact_state():
    step = np.full((2, 3), 0.04, np.float32)
    expanded = light(air(vapour_field=step))[:, 0, 0]
    exact = light(air(vapour=1.04))[:, 0, 0]
    np.testing.assert_allclose(expanded, exact, rtol=2e-4)


def test_smile_is_a_shift_of_the_bands():
    smile = np.full((2, 3), 0.2, np.float32)
    np.testing.assert_allclose(light(air(), smile=smile)[:, 0, 0], light(air(), shift_nm=0.2)[:, 0, 0], rtol=3e-3)


def test_air_mass_and_path_factor():
    assert airmass_of(60.0, 0.0) == pytest.approx(3.0)
    assert path_factor(TABLE_AIRMASS) == 1.0


def test_blue_haze_is_brighter_than_red():
    white, haze = visible_sunlight(air())
    assert haze[2] > haze[1] > haze[0] > 0
    assert (white > haze).all()
