"""Effective-wind coefficients for this project's masks, and how well rates come out on plumes they were not fitted on.

A coefficient belongs to the rule that drew the mask: the same plume under a tighter outline has less mass and less
area. So they are fitted with the detector in use, on plumes whose rate and wind are known, and judged on others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from flame.bench.plume_cases import CasePlan, CaseResult, FoundPlume
from flame.bench.tables import markdown_table
from flame.errors import FlameError
from flame.files import write_json
from flame.physics import Wind
from flame.physics.wind import usual_wind_sigma_m_s
from flame.rates import METHODS, SECONDS_PER_HOUR, EffectiveWind, PlumeFigures, plume_rates

__all__ = [
    "FittedWind",
    "JudgedMethod",
    "WindReport",
    "fit_effective_wind",
    "judge_rates",
    "wind_report",
    "wind_table",
    "write_coefficients",
]

_LEAST_PLUMES = 20
_ONE_SIGMA = 0.6827
_SOFT = 0.3
"""Log-residuals beyond this count less: a plume joined with something else must not move the law."""


@dataclass(frozen=True)
class FittedWind:
    """Coefficients of one method.

    Attributes:
        slope: Of the wind at 10 m.
        offset_m_s: What mixing adds in a calm.
        residual: Spread of true rates about found ones, in shares of the latter, that the plume's own errors leave.
        plumes: How many they were fitted on.
    """

    slope: float
    offset_m_s: float
    residual: float
    plumes: int

    @property
    def law(self) -> EffectiveWind:
        """As the rates take them."""
        return EffectiveWind(self.slope, self.offset_m_s, self.residual)


@dataclass(frozen=True)
class JudgedMethod:
    """How rates by one method compare with the truth.

    Attributes:
        method: Its name.
        plumes: How many have a rate.
        median_error: Median of |found / true - 1|.
        coverage: Share of the truths within one sigma.
        bias: Median of found / true - 1.
        total_bias: Sum of all found over sum of all true rates, less one.
    """

    method: str
    plumes: int
    median_error: float
    coverage: float
    bias: float
    total_bias: float


@dataclass(frozen=True)
class WindReport:
    """One sensor and detector.

    Attributes:
        fitted_on: The plan of the plumes that were fitted on.
        judged_on: The plan of those that were judged on.
        coefficients: By method.
        wind_known: Rates with the true wind.
        wind_usual: Rates with a wind off by the error that a weather model has, and stated with that error.
        cases: Plumes judged on.
        found: How many of them were found.
        found_by_rate: Plumes and found ones in steps of the rate, each as (from kg/h, to kg/h, plumes, found).
        mass_ratio: 10th, 50th and 90th percentile of the mass found over the one truly under the outline.
        source_error_m: Median distance of the source from the true one.
    """

    fitted_on: CasePlan
    judged_on: CasePlan
    coefficients: Mapping[str, FittedWind]
    wind_known: tuple[JudgedMethod, ...]
    wind_usual: tuple[JudgedMethod, ...]
    cases: int
    found: int
    found_by_rate: tuple[tuple[float, float, int, int], ...]
    mass_ratio: tuple[float, float, float]
    source_error_m: float


def _per_metre(figures: PlumeFigures, method: str) -> float | None:
    """What a rate is 3600 times the effective wind times of, in kg/m."""
    if method == "ime":
        return figures.mass.ime_kg / float(np.sqrt(figures.mass.area_m2))
    if method == "fetch":
        return figures.mass.ime_kg / figures.fetch_m
    return None if figures.density is None else figures.density.kg_per_m


def fit_effective_wind(cases: Sequence[CaseResult], method: str) -> FittedWind:
    """The slope and offset with which rates are nearest to the true ones, and the spread that is left.

    Args:
        cases: Plumes of known rate and wind.
        method: One of `flame.rates.METHODS`.

    Raises:
        FlameError: If too few plumes were found to fit on.
    """
    known = []
    for case in cases:
        per_metre = None if case.found is None else _per_metre(case.found.figures, method)
        if case.found is not None and per_metre is not None and per_metre > 0:
            known.append((case, case.found.figures, per_metre))
    if len(known) < _LEAST_PLUMES:
        raise FlameError(f"only {len(known)} plumes found to fit {method} on, need {_LEAST_PLUMES}; simulate more")
    wind = np.array([case.wind_m_s for case, *_ in known])
    needed = np.array([case.rate_kg_h / (SECONDS_PER_HOUR * each) for case, _, each in known])

    def off(law: np.ndarray) -> np.ndarray:
        return np.asarray(np.log((law[0] * wind + law[1]) / needed))

    start = float(np.median(needed / (wind + 0.5)))
    bounds = ([1e-3, 1e-6], [np.inf, np.inf])
    fit = least_squares(off, [start, 0.5 * start], bounds=bounds, loss="soft_l1", f_scale=_SOFT)
    slope, offset = (float(value) for value in fit.x)
    bare = {method: EffectiveWind(slope, offset)}
    own = []
    for case, figures, _ in known:
        (rate,) = plume_rates(figures, [Wind(case.wind_m_s, None, 0.0)], bare, np.random.default_rng(case.index))
        own.append(rate.sigma_kg_h / max(abs(rate.kg_h), 1e-12))
    # As a reader takes a sigma: the distance from the rate that is stated to the true one, in shares of the former.
    distance = np.abs(np.expm1(-off(fit.x)))
    return FittedWind(slope, offset, _spread_left(distance, np.array(own)), len(known))


def _spread_left(error: np.ndarray, own: np.ndarray) -> float:
    """The spread that, added in squares to each plume's own error, holds 68 % of the errors; 0 if none is needed."""
    low, high = 0.0, float(error.max()) + 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        inside = float(np.mean(error <= np.sqrt(own**2 + middle**2)))
        low, high = (low, middle) if inside >= _ONE_SIGMA else (middle, high)
    return high


def judge_rates(
    cases: Sequence[CaseResult], laws: Mapping[str, EffectiveWind], *, wind_known: bool
) -> tuple[JudgedMethod, ...]:
    """Rates of the plumes that were found, against the truth.

    Args:
        cases: Plumes that no coefficient was fitted on.
        laws: Coefficients by method.
        wind_known: Whether rates get the true wind; else one drawn about it with a weather model's usual error.
    """
    rows: dict[str, list[tuple[float, float, float]]] = {method: [] for method in laws}
    for case in cases:
        if case.found is None:
            continue
        rng = np.random.default_rng([1, case.index])
        wind = Wind(case.wind_m_s, None, 0.0)
        if not wind_known:
            speed = case.wind_m_s + usual_wind_sigma_m_s(case.wind_m_s) * float(rng.standard_normal())
            wind = Wind(max(speed, 0.0))
        for rate in plume_rates(case.found.figures, [wind], laws, rng):
            rows[rate.method].append((rate.kg_h, rate.sigma_kg_h, case.rate_kg_h))
    return tuple(_judged(method, np.array(each)) for method, each in rows.items() if each)


def _judged(method: str, rows: np.ndarray) -> JudgedMethod:
    found, sigma, true = rows.T
    ratio = found / true
    return JudgedMethod(
        method=method,
        plumes=len(rows),
        median_error=float(np.median(np.abs(ratio - 1.0))),
        coverage=float(np.mean(np.abs(found - true) <= sigma)),
        bias=float(np.median(ratio) - 1.0),
        total_bias=float(found.sum() / true.sum() - 1.0),
    )


def wind_report(
    fitted_on: CasePlan, fitting: Sequence[CaseResult], judged_on: CasePlan, judging: Sequence[CaseResult]
) -> WindReport:
    """Fits on one set of cases and judges on another.

    Raises:
        FlameError: If both have the same seed, or too few plumes were found.
    """
    if fitted_on.seed == judged_on.seed:
        raise FlameError(f"fitting and judging need different seeds, both have {judged_on.seed}")
    coefficients = {method: fit_effective_wind(fitting, method) for method in METHODS}
    laws = {method: fitted.law for method, fitted in coefficients.items()}
    seen: list[FoundPlume] = [case.found for case in judging if case.found is not None]
    ratio = [plume.figures.mass.ime_kg / plume.true_kg for plume in seen if plume.true_kg > 0]
    low, middle, high = (float(value) for value in np.percentile(ratio, [10, 50, 90]))
    return WindReport(
        fitted_on=fitted_on,
        judged_on=judged_on,
        coefficients=coefficients,
        wind_known=judge_rates(judging, laws, wind_known=True),
        wind_usual=judge_rates(judging, laws, wind_known=False),
        cases=len(judging),
        found=len(seen),
        found_by_rate=_by_rate(judging),
        mass_ratio=(low, middle, high),
        source_error_m=float(np.median([plume.source_error_m for plume in seen])),
    )


def _by_rate(cases: Sequence[CaseResult]) -> tuple[tuple[float, float, int, int], ...]:
    edges = (50.0, 158.0, 500.0, 1581.0, 5000.0)
    rows = []
    for low, high in pairwise(edges):
        here = [case for case in cases if low <= case.rate_kg_h < high]
        rows.append((low, high, len(here), sum(case.found is not None for case in here)))
    return tuple(rows)


def write_coefficients(path: Path, reports: Mapping[str, WindReport]) -> None:
    """The set as `flame.rates` reads it from its data: by sensor, and for any other sensor their mean."""
    sensors: dict[str, Any] = {
        name: {method: asdict(fitted) for method, fitted in report.coefficients.items()}
        for name, report in reports.items()
    }
    sensors["any"] = {
        method: {
            key: float(np.mean([sensors[name][method][key] for name in reports])) for key in ("slope", "offset_m_s")
        }
        | {"residual": float(max(sensors[name][method]["residual"] for name in reports))}
        for method in METHODS
    }
    model = next(iter(reports.values())).fitted_on.model
    source = f"flame bench wind: this project's simulator, masks of {model}"
    write_json(path, {"source": source, "sensors": sensors})


def wind_table(reports: Mapping[str, WindReport]) -> str:
    """The figures as Markdown."""
    rows = []
    for name, report in reports.items():
        usual = {judged.method: judged for judged in report.wind_usual}
        for judged in report.wind_known:
            law, loose = report.coefficients[judged.method], usual[judged.method]
            rows.append(
                [
                    name,
                    judged.method,
                    f"{law.slope:.2f} U + {law.offset_m_s:.2f}",
                    f"{law.residual:.2f} ({law.plumes})",
                    f"{judged.plumes} of {report.cases}",
                    f"{100 * judged.median_error:.0f} %",
                    f"{100 * judged.coverage:.0f} %",
                    f"{100 * judged.bias:+.0f} %",
                    f"{100 * loose.median_error:.0f} %",
                    f"{100 * loose.coverage:.0f} %",
                ]
            )
    head = [
        "sensor",
        "method",
        "effective wind (m/s)",
        "residual (fitted on)",
        "judged on",
        "median error",
        "in 1 sigma",
    ]
    return markdown_table([*head, "bias", "error, wind ± usual", "in 1 sigma"], rows)
