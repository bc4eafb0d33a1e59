"""Numbers on pages: digits that mean something, and no more."""

import math

import pytest

from flame.products import digits


@pytest.mark.parametrize(
    ("value", "sigma", "text"),
    [
        (1234.5, 310.2, "1,230 ± 310 kg/h"),
        (1234.5, 31.02, "1,234 ± 31 kg/h"),
        (0.01234, 0.0021, "0.0123 ± 0.0021 kg/h"),
        (98765.4, 12345.0, "99,000 ± 12,000 kg/h"),
        (-12.0, 3.4, "−12.0 ± 3.4 kg/h"),
        (1234.5, None, "1,230 kg/h"),
        (1234.5, 0.0, "1,230 kg/h"),
        (math.nan, 3.0, "–"),
        (None, 3.0, "–"),
    ],
)
def test_sigma_decides_the_digits(value, sigma, text):
    assert digits.with_sigma(value, sigma, "kg/h") == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1234567.0, "1,230,000"), (0.000123, "0.000123"), (9.996, "10.00"), (math.inf, "–")]
)
def test_amounts_keep_three_figures(value, text):
    assert digits.amount(value) == text


def test_units_follow_the_size():
    assert digits.area(17_840.1) == "17,800 m²"
    assert digits.area(1_784_000.0) == "1.78 km²"
    assert digits.length(271.9) == "272 m"
    assert digits.length(2719.0) == "2.72 km"


def test_places_have_hemispheres():
    assert digits.place(-103.9, 32.1) == "32.1000°\u00a0N, 103.9000°\u00a0W"
    assert digits.place(181.0, -0.5, 1) == "0.5°\u00a0S, 179.0°\u00a0W"
    assert digits.place(None, 3.0) == "not known"
    assert digits.place(math.nan, 3.0) == "not known"


def test_shares_never_round_to_nothing_or_all():
    assert digits.share(1, 100_000) == "< 0.1 %"
    assert digits.share(99_999, 100_000) == "> 99.9 %"
    assert digits.share(100, 100) == "100.0 %"
    assert digits.share(0, 100) == "0.0 %"


def test_a_chance_is_not_told_below_what_the_trials_can():
    assert digits.chance(1 / 301, 300) == "p ≤ 0.003"
    assert digits.chance(0.04651, 300) == "p = 0.047"
