"""`flame bench`: one of the paper's tables or figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


EXPERIMENTS: dict[str, Callable[[Request, Console], None]] = {"limit": _limit}
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
) -> None:
    """Run one of the paper's experiments; `limit` sets MAG1C beside the detection limit of simulated tiles."""
    if name not in EXPERIMENTS:
        raise FlameError(f"no experiment '{name}'; known are {', '.join(EXPERIMENTS)}")
    backgrounds = tuple(str(path) for path in background or ())
    EXPERIMENTS[name](Request(data, out, tiles, seed, preset, size, backgrounds, workers), Console())
