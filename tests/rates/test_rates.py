"""Mass and rates: laws first, then what others published from their own numbers."""

import numpy as np
import pytest

from flame.physics import Wind, WindError, kg_per_m2_from_ppm_m
from flame.rates import (
    Air,
    EffectiveWind,
    PlumeFigures,
    PlumeMass,
    PlumePixels,
    RateError,
    coefficient_sets,
    cross_section_rate,
    effective_wind,
    fetch_m,
    fetch_rate,
    find_shape,
    ime_rate,
    line_density,
    plume_mass,
    plume_rates,
)


def _steady_plume(rng, kg_h=1000.0, wind_m_s=4.0, to_deg=60.0, side_m=30.0, size=160):
    """A plume whose mass in each metre is exactly that of a steady source, growing sideways; ppm m and the truth."""
    row, col = np.mgrid[0:size, 0:size]
    east, north = (col - 40.0) * side_m, (100.0 - row) * side_m
    angle = np.deg2rad(to_deg)
    along = east * np.sin(angle) + north * np.cos(angle)
    across = east * np.cos(angle) - north * np.sin(angle)
    width = 40.0 + 0.12 * np.maximum(along, 0.0)
    per_metre = kg_h / 3600.0 / wind_m_s
    kg_m2 = np.where(along > 0, per_metre / (np.sqrt(2 * np.pi) * width) * np.exp(-0.5 * (across / width) ** 2), 0.0)
    column = kg_m2 / kg_per_m2_from_ppm_m()
    noisy = column + rng.normal(0, 20.0, column.shape)
    return noisy, column, east, north


def test_mass_of_a_known_column_is_exact_and_takes_the_path_out():
    column = np.zeros((40, 40))
    column[10:20, 10:30] = 500.0
    mask, sigma = column > 0, np.full((40, 40), 30.0)
    plain = plume_mass(column, sigma, mask, ~mask, 900.0)
    assert plain.ime_kg == pytest.approx(200 * 500.0 * 900.0 * kg_per_m2_from_ppm_m(), rel=1e-12)
    slanted = plume_mass(1.33 * column, sigma, mask, ~mask, 900.0, Air(path_factor=1.33))
    assert slanted.ime_kg == pytest.approx(plain.ime_kg, rel=1e-9)
    warm = plume_mass(column, sigma, mask, ~mask, 900.0, Air(temperature_k=288.15))
    assert warm.kg_per_m2 == pytest.approx(6.785e-7, rel=2e-3)  # the figure for 15 °C
    assert plain.kg_per_m2 == pytest.approx(7.16e-7, rel=2e-3)  # and for 0 °C


def test_the_surroundings_are_taken_off_and_their_error_is_told():
    rng = np.random.default_rng(1)
    field = 80.0 + rng.normal(0, 40.0, (120, 120))
    mask = np.zeros((120, 120), bool)
    mask[50:60, 40:80] = True
    found = plume_mass(field + 300.0 * mask, np.full((120, 120), 40.0), mask, ~mask, 900.0, rng=rng)
    truth = 400 * 300.0 * 900.0 * kg_per_m2_from_ppm_m()
    assert found.background_ppm_m == pytest.approx(80.0, abs=8.0)
    assert abs(found.ime_kg - truth) < 4 * found.sigma_kg
    assert found.sigma_kg >= found.noise_sigma_kg > 0


def test_sigma_of_mass_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(2)
    mask = np.zeros((80, 80), bool)
    mask[30:40, 30:50] = True
    truth = 200 * 300.0 * 900.0 * kg_per_m2_from_ppm_m()
    inside = 0
    for _ in range(200):
        field = rng.normal(0, 60.0, (80, 80)) + 300.0 * mask
        found = plume_mass(field, np.full((80, 80), 60.0), mask, ~mask, 900.0)
        inside += abs(found.ime_kg - truth) < found.sigma_kg
    assert 0.6 < inside / 200 < 0.78


@pytest.mark.parametrize("to_deg", [0.0, 60.0, 135.0, 250.0])
@pytest.mark.parametrize("wind_known", [True, False])
def test_source_and_course_of_a_plume(to_deg, wind_known):
    rng = np.random.default_rng(3)
    noisy, column, east, north = _steady_plume(rng, to_deg=to_deg, size=240)
    mask = column > 60.0
    pixels = PlumePixels(east[mask], north[mask], noisy[mask], 900.0)
    shape = find_shape(pixels, (to_deg + 180.0 + 25.0) % 360.0 if wind_known else None)
    assert abs((shape.to_deg - to_deg + 180) % 360 - 180) < 6.0
    assert np.hypot(pixels.east_m[shape.source], pixels.north_m[shape.source]) < 250.0
    assert not shape.wind_disagrees
    assert shape.fetch_m >= shape.length_m * 0.9


def test_a_wind_across_the_plume_is_said():
    noisy, column, east, north = _steady_plume(np.random.default_rng(4), to_deg=0.0)
    mask = column > 60.0
    pixels = PlumePixels(east[mask], north[mask], noisy[mask], 900.0)
    assert find_shape(pixels, 270.0).wind_disagrees
    assert not find_shape(pixels, 180.0).wind_disagrees


def test_cross_sections_of_a_steady_plume_give_its_rate():
    noisy, column, east, north = _steady_plume(np.random.default_rng(5), kg_h=1000.0, wind_m_s=4.0)
    # Nearly the whole plume, so that no coefficient is needed, and not its end that the scene's edge cuts off.
    mask = (column > 3.0) & (np.hypot(east, north) < 2500.0)
    pixels = PlumePixels(east[mask], north[mask], noisy[mask], 900.0)
    shape = find_shape(pixels, 240.0)
    density = line_density(pixels, shape, kg_per_m2_from_ppm_m())
    rate = cross_section_rate(density, shape.length_m, Wind(4.0, 240.0, 0.0), EffectiveWind(1.0, 0.0))
    assert rate.kg_h == pytest.approx(1000.0, rel=0.05)
    assert abs(rate.kg_h - 1000.0) < 4 * rate.sigma_kg_h


def test_published_chains_come_out_of_their_own_numbers():
    """IME, area and rate of two cases of HyGAS; the winds follow from its coefficients and its error of 1 m/s."""
    for sensor, ime, sigma, area, wind, rate, rate_sigma in (
        ("emit", 3524.23, 94.23, 4_466_168.0, 2.70, 11_320.0, 2_720.0),
        ("prisma", 820.91, 19.82, 2_569_892.0, 3.005, 3_340.0, 690.0),
    ):
        mass = PlumeMass(ime, sigma, sigma, 0.0, area, 7.16e-7)
        found = ime_rate(mass, Wind(wind, None, 1.0), effective_wind("hygas", sensor))
        assert found.kg_h == pytest.approx(rate, rel=2e-3)
        assert found.sigma_kg_h == pytest.approx(rate_sigma, rel=0.05)


def test_emit_fetch_rate_is_the_guides_formula():
    mass = PlumeMass(100.0, 5.0, 5.0, 0.0, 9e5, 7.16e-7)
    pixels = PlumePixels(np.array([0.0, 970.0]), np.zeros(2), np.ones(2), 900.0)
    shape = find_shape(pixels)
    rate = fetch_rate(mass, shape.fetch_m, Wind(3.0, None, 1.0))
    assert shape.fetch_m == pytest.approx(1000.0)
    assert rate.kg_h == pytest.approx(3600 * 100 * 3 / 1000)
    assert rate.sigma_kg_h == pytest.approx(np.hypot(3600 * 5 * 3 / 1000, 3600 * 100 / 1000))


def test_other_outlines_widen_the_error():
    mass = PlumeMass(100.0, 1.0, 1.0, 0.0, 1e6, 7.16e-7)
    others = [PlumeMass(70.0, 1.0, 1.0, 0.0, 7e5, 7.16e-7), PlumeMass(130.0, 1.0, 1.0, 0.0, 1.4e6, 7.16e-7)]
    wind, law = Wind(3.0, None, 0.1), EffectiveWind(0.4, 0.5)
    assert ime_rate(mass, wind, law, others).sigma_kg_h > 1.5 * ime_rate(mass, wind, law).sigma_kg_h
    assert ime_rate(mass, wind, EffectiveWind(0.4, 0.5, residual=0.2)).sigma_kg_h > ime_rate(mass, wind, law).sigma_kg_h


def test_fetch_of_a_line_and_of_one_pixel():
    line = PlumePixels(np.arange(5) * 30.0, np.zeros(5), np.ones(5), 900.0)
    assert fetch_m(line) == pytest.approx(150.0)
    assert fetch_m(PlumePixels(np.zeros(1), np.zeros(1), np.ones(1), 900.0)) == pytest.approx(30.0)


def test_a_calm_is_not_the_rate_to_state_if_there_is_another_wind():
    figures = PlumeFigures(PlumeMass(100.0, 5.0, 5.0, 0.0, 1e6, 7.16e-7), (), 1000.0, 900.0, None)
    laws = {"ime": EffectiveWind(0.6, 0.1), "fetch": EffectiveWind(1.2, 0.1)}
    calm, strong, weak = Wind(0.5), Wind(5.0), Wind(2.0)
    rates = plume_rates(figures, [calm, strong, weak], laws, np.random.default_rng(0))
    assert [rate.wind for rate in rates] == [strong, strong, weak, weak, calm, calm]
    assert ["calm" in rate.note for rate in rates] == [False] * 4 + [True] * 2


@pytest.mark.parametrize("text", ["", "fast", "1,2,3,4", "nan,0", "-3,0", "3,nan", "3,90,-1"])
def test_a_wind_that_is_none_is_refused(text):
    with pytest.raises(WindError):
        Wind.parse(text)


def test_a_wind_in_words_of_weather_services():
    wind = Wind.parse("4.2,270,0.8")
    assert (wind.speed_m_s, wind.from_deg, wind.error_m_s) == (4.2, 270.0, 0.8)
    assert Wind.parse("2").error_m_s == 1.0
    assert Wind.parse("8").error_m_s == 1.5


def test_what_cannot_be_a_mass_or_coefficient_is_refused_by_name():
    empty = np.zeros((4, 4), bool)
    with pytest.raises(RateError, match="without pixels"):
        plume_mass(np.zeros((4, 4)), np.ones((4, 4)), empty, ~empty, 900.0)
    with pytest.raises(RateError, match="geometry"):
        plume_mass(np.zeros((4, 4)), np.ones((4, 4)), ~empty, empty, float("nan"))
    with pytest.raises(RateError, match="known are flame, hygas"):
        effective_wind("varon", "emit")
    with pytest.raises(RateError, match="none for tanager-1"):
        effective_wind("hygas", "tanager-1")
    assert coefficient_sets()["hypergas"] == ["emit", "enmap", "prisma"]
