"""`flame bench`: one of the paper's tables or figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flame.errors import FlameError


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line; each experiment takes what it needs."""

    data: Path | None
    out: Path
    tiles: int
    seed: int
    preset: str
    size: int
    backgrounds: tuple[str, ...]
    workers: int | None
    real: Path | None
    only: tuple[str, ...]
    changes: tuple[str, ...]


def _limit(request: Request, console: Console) -> None:
    from flame.bench.baselines import limit_rows, run_limit
    from flame.cli.progress import counting
    from flame.pipeline.datasets import SimulationPlan, read_plan

    if request.data is not None:
        plan, split = read_plan(request.data), "test"
    else:
        plan, split = (
            SimulationPlan(request.tiles, request.seed, request.preset, request.size, backgrounds=request.backgrounds),
            None,
        )
    file = request.out / "limit.json"
    with counting(console, "judging", plan.tiles) as step:
        report = run_limit(plan, split, file, request.workers, on_tile=step)
    console.print(limit_rows(report))
    console.print(f"wrote {file}")


def _accuracy(request: Request, console: Console) -> None:
    from rich.markdown import Markdown

    from flame.bench.accuracy import VARIANTS, run_accuracy

    if request.data is None:
        raise FlameError(
            "`flame bench accuracy` needs --data: a folder made by `flame simulate`, trained and judged on"
        )
    unknown = [name for name in request.only if name not in VARIANTS]
    if unknown:
        raise FlameError(f"no variant '{unknown[0]}'; known are {', '.join(VARIANTS)}")
    data = {"simulated": request.data} | ({"real surfaces": request.real} if request.real else {})
    variants = request.only or tuple(VARIANTS)
    tell = partial(console.print, highlight=False)
    console.print(Markdown(run_accuracy(data, request.out, variants, request.changes, request.workers or 2, tell)))


EXPERIMENTS: dict[str, Callable[[Request, Console], None]] = {"limit": _limit, "accuracy": _accuracy}
"""Every experiment by name; its figures go into the output folder."""


def run(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    out: Annotated[Path, typer.Option(help="Folder for the figures.")],
    data: Annotated[Path | None, typer.Option(help="Data set; its test split is judged.")] = None,
    tiles: Annotated[int, typer.Option(min=1, help="Tiles to simulate when no data set is given.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of those tiles.")] = 0,
    preset: Annotated[str, typer.Option(help="Breadth of their distributions: wide or narrow.")] = "wide",
    size: Annotated[int, typer.Option(min=16, help="Their rows and columns.")] = 128,
    background: Annotated[list[Path] | None, typer.Option(help="Real scene to inject plumes into.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    real: Annotated[Path | None, typer.Option(help="accuracy: a second set to judge on, with real surfaces.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="accuracy: train only this variant; may be repeated.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="accuracy: change a setting of every recipe, as in flame train.")
    ] = None,
) -> None:
    """Run one of the experiments; a stopped one goes on where it was.

    `limit` sets MAG1C beside the detection limit of simulated tiles. `accuracy` trains and judges FLAME, its variants
    and the better recipe, and makes the table.
    """
    if name not in EXPERIMENTS:
        raise FlameError(f"no experiment '{name}'; known are {', '.join(EXPERIMENTS)}")
    backgrounds = tuple(str(path) for path in background or ())
    request = Request(
        data, out, tiles, seed, preset, size, backgrounds, workers, real, tuple(only or ()), tuple(change or ())
    )
    EXPERIMENTS[name](request, Console())
