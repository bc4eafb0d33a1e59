"""Records of plumes: names and the numbers that follow from others."""

import pytest

from flame.plumes import UnitRate, plume_letters
from flame.rates import PlumeFigures, PlumeMass


def test_letters_go_on_after_z():
    named = {1: "A", 2: "B", 26: "Z", 27: "AA", 52: "AZ", 53: "BA", 702: "ZZ", 703: "AAA"}
    assert {number: plume_letters(number) for number in named} == named
    assert len({plume_letters(n) for n in range(1, 3000)}) == 2999


def test_a_rate_for_each_m_s_is_the_fetch_formula_without_its_wind():
    mass = PlumeMass(100.0, 5.0, 5.0, 0.0, 1e6, 7.16e-7)
    unit = UnitRate.of(PlumeFigures(mass, (), 1000.0, 900.0, None))
    assert unit.kg_h_per_m_s == pytest.approx(3600 * 100 / 1000)
    assert unit.sigma_kg_h_per_m_s == pytest.approx(3600 * 5 / 1000)
