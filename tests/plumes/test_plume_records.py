"""Records of plumes: names and the numbers that follow from others."""

import numpy as np
import pytest

from flame.physics import Wind
from flame.plumes import UnitRate, plume_letters
from flame.rates import EffectiveWind, PlumeFigures, PlumeMass, plume_rates


def test_letters_go_on_after_z():
    named = {1: "A", 2: "B", 26: "Z", 27: "AA", 52: "AZ", 53: "BA", 702: "ZZ", 703: "AAA"}
    assert {number: plume_letters(number) for number in named} == named
    assert len({plume_letters(n) for n in range(1, 3000)}) == 2999


@pytest.mark.parametrize("method", ["fetch", "ime"])
def test_a_rate_for_each_m_s_gives_the_rate_of_any_wind_and_its_share_of_error(method):
    figures = PlumeFigures(PlumeMass(100.0, 5.0, 5.0, 0.0, 1e6, 7.16e-7), (), 1000.0, 900.0, None)
    laws = {method: EffectiveWind(1.27, 0.166, 0.184)}
    unit = UnitRate.of(figures, laws, "ours")
    for speed in (2.0, 7.5):
        (rate,) = plume_rates(figures, [Wind(speed, None, 0.0)], laws, np.random.default_rng(0))
        assert unit.kg_h_per_m_s * speed + unit.offset_kg_h == pytest.approx(rate.kg_h)
        assert unit.sigma_kg_h_per_m_s / unit.kg_h_per_m_s == pytest.approx(rate.sigma_kg_h / rate.kg_h, rel=1e-6)
    assert unit.sigma_kg_h_per_m_s / unit.kg_h_per_m_s == pytest.approx(np.hypot(0.05, 0.184), rel=0.05)
    assert (unit.method, unit.coefficients) == (method, "ours")
    assert f"rate by {method} = kg_h_per_m_s" in unit.basis


def test_the_fetch_law_is_taken_and_none_means_no_rate():
    figures = PlumeFigures(PlumeMass(100.0, 5.0, 5.0, 0.0, 1e6, 7.16e-7), (), 1000.0, 900.0, None)
    simple = UnitRate.of(figures, {"ime": EffectiveWind(0.6, 0.1), "fetch": EffectiveWind(1.0, 0.0)})
    assert simple.method == "fetch"
    assert simple.kg_h_per_m_s == pytest.approx(3600 * 100 / 1000)
    assert simple.offset_kg_h == pytest.approx(0.0)
    assert UnitRate.of(figures, {}) is None
