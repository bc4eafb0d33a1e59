"""Coefficients, limits and checks from cases: what was put in comes out."""

import json
from dataclasses import replace

import numpy as np
import pytest

from flame.bench.plume_cases import CasePlan, CaseResult, FalsePlume, FoundPlume, run_cases
from flame.bench.pod import check_rows, fit_curve, write_curves
from flame.bench.wind import fit_effective_wind, judge_rates, wind_report, wind_table, write_coefficients
from flame.errors import FlameError
from flame.rates import LineDensity, PlumeFigures, PlumeMass, detection_curve, effective_wind
from flame.rates.detection_limit import DetectionCurve

PLAN = CasePlan("emit", 300, 1)


def _case(index, rng, slope=0.5, offset=0.6, spread=0.2, own=0.05, found=True):
    """A plume whose mass is just what a law with some scatter asks for."""
    rate, wind = float(np.exp(rng.uniform(np.log(50), np.log(5000)))), float(rng.uniform(1, 10))
    per_metre = rate / 3600 / (slope * wind + offset) * np.exp(spread * rng.standard_normal())
    ime = per_metre * 1000.0 * (1 + own * rng.standard_normal())
    mass = PlumeMass(ime, own * ime, own * ime, 0.0, 1e6, 7e-7)
    figures = PlumeFigures(mass, (), 1000.0, 1000.0, LineDensity(ime / 1000.0, own * ime / 1000.0, 9))
    plume = FoundPlume(figures, False, 50, 1, 30.0, 5.0, ime, 0.01)
    return CaseResult(index, rate, wind, plume if found else None, ())


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(7)
    return [_case(index, rng) for index in range(400)]


@pytest.mark.parametrize("method", ["ime", "fetch", "cross-section"])
def test_the_law_behind_the_plumes_is_found_with_its_spread(method, cases):
    fitted = fit_effective_wind(cases, method)
    assert fitted.slope == pytest.approx(0.5, abs=0.04)
    assert fitted.offset_m_s == pytest.approx(0.6, abs=0.15)
    assert fitted.residual == pytest.approx(0.2, abs=0.04)
    assert fitted.plumes == 400


def test_the_plumes_own_errors_are_not_counted_twice():
    rng = np.random.default_rng(3)
    noisy = [_case(index, rng, spread=0.0, own=0.2) for index in range(400)]
    assert fit_effective_wind(noisy, "ime").residual < 0.08


def test_a_few_plumes_joined_with_something_else_do_not_move_the_law():
    rng = np.random.default_rng(4)
    mixed = [_case(index, rng) for index in range(360)]
    mixed += [_case(360 + index, rng, slope=0.05, offset=0.06) for index in range(40)]
    assert fit_effective_wind(mixed, "ime").slope == pytest.approx(0.5, abs=0.08)


def test_one_sigma_holds_two_thirds_of_new_plumes_with_the_wind_known_and_not(cases):
    rng = np.random.default_rng(8)
    new = [_case(index, rng) for index in range(400)]
    laws = {"ime": fit_effective_wind(cases, "ime").law}
    (known,) = judge_rates(new, laws, wind_known=True)
    (usual,) = judge_rates(new, laws, wind_known=False)
    assert known.plumes == 400
    assert 0.6 < known.coverage < 0.76
    assert abs(known.bias) < 0.05
    assert known.median_error == pytest.approx(0.6745 * 0.2, abs=0.04)
    assert usual.median_error > known.median_error
    assert 0.5 < usual.coverage < 0.85


def test_a_report_keeps_fitting_and_judging_apart(cases, tmp_path):
    rng = np.random.default_rng(9)
    new = [_case(index, rng, found=index % 4 > 0) for index in range(200)]
    with pytest.raises(FlameError, match="different seeds"):
        wind_report(PLAN, cases, PLAN, new)
    report = wind_report(PLAN, cases, CasePlan("emit", 200, 2), new)
    assert (report.cases, report.found) == (200, 150)
    assert sum(row[2] for row in report.found_by_rate) == 200
    assert "150 of 200" in wind_table({"emit": report})
    write_coefficients(tmp_path / "c.json", {"emit": report})
    stored = json.loads((tmp_path / "c.json").read_text())["sensors"]
    assert stored["emit"]["ime"]["slope"] == report.coefficients["ime"].slope
    assert set(stored["any"]) == {"ime", "fetch", "cross-section"}
    with pytest.raises(FlameError, match="only 0 plumes"):
        fit_effective_wind([_case(0, rng, found=False)] * 50, "ime")


def test_own_coefficients_are_there_for_every_sensor_and_method():
    for sensor in ("emit", "aviris-ng", "prisma", None):
        for method in ("ime", "fetch", "cross-section"):
            law = effective_wind("flame", sensor, method)
            assert law.slope > 0
            assert law.residual > 0


def test_a_curve_gives_back_the_chances_it_was_drawn_from(tmp_path):
    rng = np.random.default_rng(5)
    true = DetectionCurve(-12.0, 2.0, -1.0, 50.0, 5000.0, 0, "", "")
    drawn = [_case(index, rng) for index in range(3000)]
    drawn = [c if rng.uniform() < true.chance(c.rate_kg_h, c.wind_m_s) else replace(c, found=None) for c in drawn]
    curve = fit_curve(PLAN, drawn)
    for wind in (2.0, 6.0):
        assert curve.rate_kg_h(0.5, wind) == pytest.approx(true.rate_kg_h(0.5, wind), rel=0.1)
        assert curve.rate_kg_h(0.9, wind) > curve.rate_kg_h(0.5, wind)
    assert curve.rate_kg_h(0.9, 5.0) > curve.rate_kg_h(0.9, 2.0)
    assert curve.chance(curve.rate_kg_h(0.9, 3.0), 3.0) == pytest.approx(0.9)
    assert DetectionCurve(-30.0, 2.0, 0.0, 50.0, 5000.0, 0, "", "").rate_kg_h(0.9, 3.0) is None
    write_curves(tmp_path / "d.json", {"emit": curve})
    assert DetectionCurve(**json.loads((tmp_path / "d.json").read_text())["emit"]) == curve
    with pytest.raises(FlameError, match="widen the rates"):
        fit_curve(PLAN, [_case(0, rng)] * 30)
    assert detection_curve("no such sensor") is None


def test_the_check_is_compared_at_equal_recall():
    rng = np.random.default_rng(6)
    false = FalsePlume(5.0, 0.5, 20, 0.6)  # heavy, but its spectrum is not methane's
    rows = check_rows([replace(_case(index, rng), false=(false,)) for index in range(50)])
    for row in rows:
        assert row.false_without == 1.0
        assert row.recall == (1.0 if row.p_value >= 0.01 else 0.0)
        assert row.false_per_scene == (1.0 if row.p_value >= 0.6 else 0.0)


def test_cases_are_found_end_to_end_and_go_on_where_they_stopped(tmp_path):
    plan = CasePlan("emit", 1, 2101, (4000.0, 5000.0), (2.0, 3.0), size=64, preset="quiet")
    first = run_cases(plan, tmp_path / "c", workers=1)
    (case,) = first
    assert 4000 <= case.rate_kg_h <= 5000
    assert case.found is not None
    assert case.found.figures.mass.ime_kg == pytest.approx(case.found.true_kg, rel=0.25)
    counted = []
    assert run_cases(plan, tmp_path / "c", workers=1, on_case=lambda: counted.append(1)) == first
    assert counted == [1]
    rows = tmp_path / "c" / "cases.jsonl"
    rows.write_text(rows.read_text() + '{"half')  # a run that was killed
    assert run_cases(plan, tmp_path / "c", workers=1) == first
    with pytest.raises(FlameError, match="holds other cases"):
        run_cases(CasePlan("emit", 1, 7), tmp_path / "c")
