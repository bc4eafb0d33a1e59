"""`flame bench`: one of the paper's tables or figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flame.errors import FlameError

if TYPE_CHECKING:
    from flame.pipeline.datasets import SimulationPlan


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line; each experiment takes what it needs."""

    data: Path | None
    out: Path
    tiles: int
    seed: int
    preset: str
    size: int
    sensor: str
    backgrounds: tuple[str, ...]
    workers: int | None
    real: Path | None
    only: tuple[str, ...]
    changes: tuple[str, ...]
    model: str

    def plan(self) -> tuple[SimulationPlan, str | None]:
        """The tiles to judge on: the test split of a data set, or tiles drawn for this."""
        from flame.pipeline.datasets import SimulationPlan, read_plan

        if self.data is not None:
            return read_plan(self.data), "test"
        plan = SimulationPlan(self.tiles, self.seed, self.preset, self.size, self.sensor, backgrounds=self.backgrounds)
        return plan, None


def _limit(request: Request, console: Console) -> None:
    from flame.bench.baselines import limit_rows, run_limit
    from flame.cli.progress import counting

    plan, split = request.plan()
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


def _ablation(request: Request, console: Console) -> None:
    from rich.markdown import Markdown

    from flame.bench.ablation import STEPS, run_ablation

    if request.data is None:
        raise FlameError("`flame bench ablation` needs --data: a folder made by `flame simulate`, trained on")
    unknown = [name for name in request.only if name not in STEPS]
    if unknown:
        raise FlameError(f"no step '{unknown[0]}'; known are {', '.join(STEPS)}")
    tell = partial(console.print, highlight=False)
    steps = request.only or tuple(STEPS)
    table = run_ablation(request.data, request.out, steps, request.changes, request.seed, request.workers or 2, tell)
    console.print(Markdown(table))


def _robustness(request: Request, console: Console) -> None:
    from rich.markdown import Markdown

    from flame.bench.robustness import robustness_table, run_robustness
    from flame.cli.progress import counting

    plan, split = request.plan()
    with counting(console, "judging", plan.tiles) as step:
        report = run_robustness(plan, split, request.model, request.out, workers=request.workers, on_tile=step)
    console.print(Markdown(robustness_table(report)))


EXPERIMENTS: dict[str, Callable[[Request, Console], None]] = {
    "limit": _limit,
    "accuracy": _accuracy,
    "ablation": _ablation,
    "robustness": _robustness,
}
"""Every experiment by name; its figures go into the output folder."""


def run(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    out: Annotated[Path, typer.Option(help="Folder for the figures.")],
    data: Annotated[Path | None, typer.Option(help="Data set; its test split is judged.")] = None,
    tiles: Annotated[int, typer.Option(min=1, help="Tiles to simulate when no data set is given.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of those tiles.")] = 0,
    preset: Annotated[str, typer.Option(help="wide, permian, quiet, cluttered or narrow.")] = "wide",
    size: Annotated[int, typer.Option(min=16, help="Their rows and columns.")] = 128,
    sensor: Annotated[str, typer.Option(help="Their sensor.")] = "aviris-ng",
    background: Annotated[list[Path] | None, typer.Option(help="Real scene to inject plumes into.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    real: Annotated[Path | None, typer.Option(help="accuracy: a second set to judge on, with real surfaces.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="accuracy, ablation: train only this; may be repeated.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="accuracy, ablation: change a setting of every run, as in flame train."),
    ] = None,
    model: Annotated[str, typer.Option(help="robustness: a packaged model's name or an ONNX file.")] = "flame-plus",
) -> None:
    """Run one of the experiments; a stopped one goes on where it was.

    `limit` sets MAG1C beside the detection limit of simulated tiles. `accuracy` trains and judges FLAME, its variants
    and the better recipe, and makes the table. `ablation` tries changes one by one on validation tiles. `robustness`
    judges a packaged model on tiles as they are, at other gains and with miscalibrated bands.
    """
    if name not in EXPERIMENTS:
        raise FlameError(f"no experiment '{name}'; known are {', '.join(EXPERIMENTS)}")
    request = Request(
        data=data,
        out=out,
        tiles=tiles,
        seed=seed,
        preset=preset,
        size=size,
        sensor=sensor,
        backgrounds=tuple(str(path) for path in background or ()),
        workers=workers,
        real=real,
        only=tuple(only or ()),
        changes=tuple(change or ()),
        model=model,
    )
    EXPERIMENTS[name](request, Console())
