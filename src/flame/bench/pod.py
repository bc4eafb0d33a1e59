"""What a scene could have shown: the chance that a plume is found, by its rate and the wind, and what the spectral
check does to false plumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from flame.bench.plume_cases import CasePlan, CaseResult
from flame.bench.tables import markdown_table
from flame.errors import FlameError
from flame.files import write_json
from flame.rates import DetectionCurve

__all__ = ["CheckRow", "check_rows", "check_table", "fit_curve", "limit_table", "write_curves"]

_SHRINK = 1e-3
_P_VALUES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


def fit_curve(plan: CasePlan, cases: Sequence[CaseResult]) -> DetectionCurve:
    """The chance that a plume is found as a logistic function of the logarithms of rate and wind.

    Raises:
        FlameError: If all plumes were found, or none.
    """
    found = np.array([case.found is not None for case in cases], dtype=np.float64)
    if not 0 < found.sum() < len(found):
        raise FlameError(
            f"{int(found.sum())} of {len(found)} plumes were found: no curve can be fitted; widen the rates"
        )
    terms = np.stack([np.ones(len(cases)), np.log([c.rate_kg_h for c in cases]), np.log([c.wind_m_s for c in cases])])

    def badness(weight: np.ndarray) -> float:
        chance = weight @ terms
        return float(np.logaddexp(0.0, np.where(found > 0, -chance, chance)).sum() + _SHRINK * weight @ weight)

    weight = minimize(badness, np.array([-5.0, 1.0, -1.0]), method="BFGS").x
    base, by_rate, by_wind = (float(value) for value in weight)
    low, high = plan.rate_kg_h
    return DetectionCurve(base, by_rate, by_wind, low, high, len(cases), plan.model, plan.preset)


def write_curves(path: Path, curves: Mapping[str, DetectionCurve]) -> None:
    """The curves by sensor, as `flame.rates` reads them from its data."""
    write_json(path, {name: asdict(curve) for name, curve in curves.items()})


def limit_table(curves: Mapping[str, DetectionCurve], winds_m_s: Sequence[float] = (1.0, 3.0, 5.0, 8.0)) -> str:
    """Rates at which half and nine in ten plumes are found, as Markdown."""
    rows = []
    for name, curve in curves.items():
        for chance in (0.5, 0.9):
            rates = [curve.rate_kg_h(chance, wind) for wind in winds_m_s]
            shown = ["more than simulated" if rate is None else f"{rate:,.0f}" for rate in rates]
            rows.append([name, f"{100 * chance:.0f} %", *shown])
    return markdown_table(["sensor", "found", *(f"kg/h at {wind:g} m/s" for wind in winds_m_s)], rows)


@dataclass(frozen=True)
class CheckRow:
    """Plumes kept if the spectral check has to be passed, and by significance alone at the same recall.

    Attributes:
        p_value: Largest p-value that is kept.
        recall: Share of the true plumes found that are kept.
        false_per_scene: False plumes that are kept.
        false_by_significance: Those kept if plumes are left out by mass over its sigma until as many true ones are.
        false_without: Those without any check.
    """

    p_value: float
    recall: float
    false_per_scene: float
    false_by_significance: float
    false_without: float


def check_rows(cases: Sequence[CaseResult]) -> list[CheckRow]:
    """What the spectral check keeps at several limits; a plume that could not be checked is kept."""
    true = [(case.found.p_value, case.found.figures.mass) for case in cases if case.found is not None]
    false = [plume for case in cases for plume in case.false]
    if not true:
        raise FlameError("no plume was found in these cases; simulate stronger ones")
    true_p = np.array([0.0 if p is None else p for p, _ in true])
    false_p = np.array([0.0 if plume.p_value is None else plume.p_value for plume in false])
    true_s = np.array([mass.ime_kg / mass.sigma_kg for _, mass in true])
    false_s = np.array([plume.ime_kg / plume.sigma_kg for plume in false])
    rows = []
    for limit in _P_VALUES:
        recall = float(np.mean(true_p <= limit))
        level = float(np.quantile(true_s, 1.0 - recall))
        rows.append(
            CheckRow(
                limit,
                recall,
                float(np.sum(false_p <= limit)) / len(cases),
                float(np.sum(false_s >= level)) / len(cases),
                len(false) / len(cases),
            )
        )
    return rows


def check_table(rows: Mapping[str, Sequence[CheckRow]]) -> str:
    """The rows by sensor as Markdown."""
    return markdown_table(
        [
            "sensor",
            "p at most",
            "true plumes kept",
            "false a scene",
            "false a scene by significance",
            "without a check",
        ],
        [
            [
                name,
                f"{row.p_value:g}",
                f"{100 * row.recall:.0f} %",
                f"{row.false_per_scene:.2f}",
                f"{row.false_by_significance:.2f}",
                f"{row.false_without:.2f}",
            ]
            for name, each in rows.items()
            for row in each
        ],
    )
