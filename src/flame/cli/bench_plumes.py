"""`flame bench wind` and `flame bench pod`: rates and limits on simulated plumes of known rate and wind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flame.cli.options import Seed, Workers, output_folder
from flame.errors import FlameError

if TYPE_CHECKING:
    from flame.bench.plume_cases import CasePlan, CaseResult

__all__ = ["pod", "wind"]

_Out = Annotated[
    Path, output_folder("Folder for cases and figures; cases that are already there are not simulated again.")
]
_Sensors = Annotated[
    list[str] | None,
    typer.Option("--sensor", metavar="NAME", help="Sensor to simulate; may be repeated. By default emit, aviris-ng."),
]
_Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="What finds the plumes; flame-plus if not given."),
]
_Preset = Annotated[str, typer.Option("--preset", metavar="NAME", help="What the scenes are like.")]

_SIZES = {"emit": 128}
_SIZE = 160
_FIT_FROM_KG_H = {"emit": 700.0}
"""Weaker plumes are hardly ever found by a satellite: fitting on them would only take time."""


def _plans(
    sensors: list[str] | None, fit: int, cases: int, seed: int, model: str | None, preset: str
) -> dict[str, tuple[CasePlan, CasePlan]]:
    from flame.bench.plume_cases import CasePlan
    from flame.onboard.package import DEFAULT_FAMILY

    plans = {}
    model = model or DEFAULT_FAMILY
    for name in sensors or ("emit", "aviris-ng"):
        size = _SIZES.get(name, _SIZE)
        from_kg_h = _FIT_FROM_KG_H.get(name, 50.0)
        fitted = CasePlan(name, fit, seed, (from_kg_h, 5000.0), size=size, model=model, preset=preset)
        plans[name] = fitted, CasePlan(name, cases, seed + 1, size=size, model=model, preset=preset)
    return plans


def _run(console: Console, plan: CasePlan, folder: Path, workers: int | None) -> list[CaseResult]:
    from flame.bench.plume_cases import run_cases
    from flame.cli.progress import counting

    with counting(console, f"{folder.name}", plan.cases) as step:
        return run_cases(plan, folder, workers, step)


def wind(
    out: _Out,
    sensor: _Sensors = None,
    cases: Annotated[int, typer.Option(min=20, metavar="N", help="Plumes to judge on, for each sensor.")] = 200,
    fit_cases: Annotated[int, typer.Option(min=20, metavar="N", help="Plumes to fit on, for each sensor.")] = 200,
    model: _Model = None,
    preset: _Preset = "wide",
    seed: Seed = 2101,
    workers: Workers = None,
) -> None:
    """Fit effective-wind coefficients to a detector's masks, and judge emission rates on other plumes.

    Writes wind.json with all figures, and effective_wind.json, the set of coefficients.
    """
    from dataclasses import asdict

    from rich.markdown import Markdown

    from flame.bench.wind import wind_report, wind_table, write_coefficients
    from flame.files import write_json

    console = Console(markup=False)
    reports = {}
    for name, (fitted, judged) in _plans(sensor, fit_cases, cases, seed, model, preset).items():
        fitting = _run(console, fitted, out / f"{name}-fit", workers)
        judging = _run(console, judged, out / f"{name}-judge", workers)
        reports[name] = wind_report(fitted, fitting, judged, judging)
    write_json(out / "wind.json", {name: asdict(report) for name, report in reports.items()})
    write_coefficients(out / "effective_wind.json", reports)
    console.print(Markdown(wind_table(reports)))
    console.print(f"wrote {out / 'wind.json'} and {out / 'effective_wind.json'}", soft_wrap=True)


def pod(
    out: _Out,
    sensor: _Sensors = None,
    cases: Annotated[int, typer.Option(min=20, metavar="N", help="Plumes to simulate for each sensor.")] = 200,
    model: _Model = None,
    preset: _Preset = "wide",
    seed: Seed = 2101,
    workers: Workers = None,
) -> None:
    """How strong a plume must be to be found, and what the spectral check does to false plumes.

    Takes the plumes that `flame bench wind` judged on, if they are in the same folder. Writes pod.json, and
    detection_limit.json, the curves.
    """
    from dataclasses import asdict

    from rich.markdown import Markdown

    from flame.bench.pod import check_rows, check_table, fit_curve, limit_table, write_curves
    from flame.files import write_json

    console = Console(markup=False)
    curves, checks = {}, {}
    for name, (_, judged) in _plans(sensor, cases, cases, seed, model, preset).items():
        judging = _run(console, judged, out / f"{name}-judge", workers)
        try:
            curves[name] = fit_curve(judged, judging)
            checks[name] = check_rows(judging)
        except FlameError as reason:
            raise FlameError(f"{name}: {reason}") from None
    write_curves(out / "detection_limit.json", curves)
    rows = {name: [asdict(row) for row in each] for name, each in checks.items()}
    write_json(out / "pod.json", {"curves": {k: asdict(v) for k, v in curves.items()}, "spectral_check": rows})
    console.print(Markdown(limit_table(curves)))
    console.print(Markdown(check_table(checks)))
    console.print(f"wrote {out / 'pod.json'} and {out / 'detection_limit.json'}", soft_wrap=True)
