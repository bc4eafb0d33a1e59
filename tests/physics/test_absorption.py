"""Laws of methane absorption, then parity with mag1c, then figures."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mag1c.mag1c import generate_template_from_bands

import flame.physics
from flame.errors import FlameError
from flame.physics import (
    ABSORPTION_UNIT_PPM_M,
    MAX_ENHANCEMENT_PPM_M,
    BandError,
    BandSet,
    beer_lambert,
    clear_sky_radiance,
    methane_table,
    sensor,
    transmittance,
    unit_absorption,
)

BANDS = sensor("aviris-ng").bands.methane()
SWIR_RANGE_NM = (1410.0, 2490.0)


@settings(deadline=None)  # the first call imports the interpolation
@given(alpha=st.floats(0, 30_000), more=st.floats(0, 30_000))
def test_beer_lambert_composes(alpha, more):
    unit = unit_absorption(BANDS)
    background = clear_sky_radiance(BANDS)
    once = beer_lambert(background, np.array(alpha + more), unit)
    twice = beer_lambert(beer_lambert(background, np.array(alpha), unit), np.array(more), unit)
    np.testing.assert_allclose(once, twice, rtol=1e-12)


def test_no_methane_transmits_everything():
    np.testing.assert_array_equal(transmittance(np.zeros(3), BANDS), np.ones((len(BANDS), 3)))


def test_transmittance_falls_monotonically_to_64000_ppm_m():
    alpha_ppm_m = np.linspace(0, MAX_ENHANCEMENT_PPM_M, 2000)
    for name in ("aviris-ng", "emit", "enmap", "prisma"):
        bands = sensor(name).bands
        seen = transmittance(alpha_ppm_m, bands.select(bands.within(*SWIR_RANGE_NM)))
        assert (np.diff(seen, axis=1) <= 0).all()
        assert (seen > 0).all()


def test_transmittance_equals_the_table_at_its_own_enhancements():
    table = methane_table()
    weight = np.exp(
        -0.5 * ((table.wavelength_nm[:, None] - BANDS.centres_nm) / (BANDS.fwhm_nm / 2.3548200450309493)) ** 2
    )
    weight *= (table.samples * table.clear_radiance)[:, None]
    for alpha, absorbance in zip(table.enhancement_ppm_m, table.absorbance, strict=True):
        expected = (np.exp(-absorbance) @ weight) / weight.sum(axis=0)
        np.testing.assert_allclose(transmittance(np.array(alpha), BANDS), expected, rtol=2e-5)


def test_transmittance_extrapolates_along_the_last_slope_of_each_cell():
    table = methane_table()
    step = table.absorbance[-1] - table.absorbance[-2]
    np.testing.assert_allclose(table.absorbance_at(np.array([24_000.0]))[0], table.absorbance[-1] + step, atol=1e-9)


def test_the_linear_form_overstates_strong_plumes():
    """Bands saturate: at 16,000 ppm m the unit spectrum fits, at 1,000 it is too weak, at 64,000 far too strong."""
    strongest = int(np.argmin(unit_absorption(BANDS)))
    alpha_ppm_m = np.array([1_000.0, 64_000.0])
    true_log = np.log(transmittance(alpha_ppm_m, BANDS))[strongest]
    linear_log = unit_absorption(BANDS)[strongest] * alpha_ppm_m / ABSORPTION_UNIT_PPM_M
    assert true_log[0] < linear_log[0] * 1.05
    assert true_log[1] > linear_log[1] * 0.95


def test_linearised_radiance_underestimates_a_strong_plume():
    """The first-order form of eq:radiance_linearization recovers less than was there, as the paper says."""
    unit = unit_absorption(BANDS)
    target = unit / ABSORPTION_UNIT_PPM_M
    for alpha, worst_share in ((500.0, 0.98), (8_000.0, 0.97), (64_000.0, 0.80)):
        change = beer_lambert(np.ones(len(BANDS)), np.array(alpha), unit) - 1.0
        recovered = (change @ target) / (target @ target)
        assert recovered < alpha
        if alpha > 500:
            assert recovered < worst_share * alpha


@pytest.mark.parametrize("name", ["aviris-ng", "emit", "enmap", "prisma"])
def test_unit_absorption_equals_mag1c(name):
    bands = sensor(name).bands
    bands = bands.select(bands.within(*SWIR_RANGE_NM))
    expected = generate_template_from_bands(bands.centres_nm, bands.fwhm_nm)[:, 1]
    strong = np.abs(expected) > 0.01
    assert strong.sum() > len(bands) // 2
    np.testing.assert_allclose(unit_absorption(bands)[strong], expected[strong], rtol=1e-3)


def test_packaged_table_is_what_the_tool_derives(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    sys.modules.pop("make_methane_table", None)
    from make_methane_table import derive_table

    derived = derive_table()
    packaged = methane_table()
    np.testing.assert_array_equal(packaged.wavelength_nm, derived["wavelength_nm"])
    np.testing.assert_array_equal(packaged.samples, derived["samples"])
    np.testing.assert_allclose(packaged.clear_radiance, derived["clear_radiance"], rtol=1e-6)
    np.testing.assert_allclose(packaged.absorbance[1:], derived["absorbance"], atol=1e-6)


def test_the_table_stays_small():
    stored = Path(flame.physics.__file__).parent / "data" / "methane.npz"
    assert stored.stat().st_size < 600_000


def test_clear_sky_follows_the_published_starcop_mean_shape():
    """STARCOP's mean spectrum falls from 2.57 at 2124 nm to 0.09 near 2470 nm; the shape must agree."""
    radiance = clear_sky_radiance(BANDS)
    fall = radiance[-3] / radiance[0]
    assert 0.02 < fall < 0.12


@pytest.mark.parametrize("bad", [-1.0, MAX_ENHANCEMENT_PPM_M * 1.01, np.nan])
def test_impossible_enhancements_are_refused(bad):
    with pytest.raises(FlameError, match="must lie in 0 to 64,000 ppm m"):
        transmittance(np.array([0.0, bad]), BANDS)


def test_bands_outside_the_table_are_refused():
    with pytest.raises(BandError, match="lies outside the spectrum"):
        unit_absorption(BandSet(np.array([900.0, 2300.0]), np.array([5.0, 5.0])))
