"""`flame train`: from a folder of labelled tiles to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from flame.training.loop import StepReport


def run(
    data: Annotated[list[Path], typer.Option(help="STARCOP-layout folder; may be given more than once.")],
    out: Annotated[Path, typer.Option(help="Run folder: model, checkpoint, log and curves.")],
    recipe: Annotated[str, typer.Option(help="paper, cpu, flame-plus or tiny.")] = "paper",
    seed: Annotated[int, typer.Option(min=0, help="Decides initial weights, order and augmentation.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's checkpoint.")] = False,
    start: Annotated[
        Path | None, typer.Option(help="Run folder or model.safetensors whose weights to start from.")
    ] = None,
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            help="Choose the epoch by the training tiles of this folder instead; their scenes are not trained on."
        ),
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting of the recipe: model.score=none.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that build the cache.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of torch; all cores if not given.")] = None,
) -> None:
    """Train a model; runs on the CPU, a GPU, or under torchrun on many, and survives being killed (--resume)."""
    import torch

    from flame.models.weights import load_model
    from flame.training import recipes
    from flame.training.data import training_and_validation
    from flame.training.distributed import join, one_after_another
    from flame.training.loop import Trainer
    from flame.training.overrides import override

    chosen = override(recipes.recipe(recipe), change or [])
    if threads is not None:
        torch.set_num_threads(threads)
    world = join()
    console = Console(quiet=world.rank != 0)

    def told(done: int, total: int) -> None:
        if done == total or done % 50 == 0:
            console.print(f"cache: {done} of {total} tiles")

    with one_after_another():
        training, held = training_and_validation(data, workers, told, validation or ())
    console.print(f"{len(training)} training and {len(held)} validation tiles, recipe {chosen.name}, seed {seed}")
    with _watching(console) as watch:
        given = None if start is None else load_model(start)
        progress = Trainer(chosen, training, held, out, seed, resume, watch, given).run()
    console.print(
        f"best validation F1 {progress.best_f1:.3f} in epoch {progress.best_epoch}: {out / 'model.safetensors'}"
    )


@contextmanager
def _watching(console: Console) -> Iterator[Callable[[StepReport], None]]:
    """One line an epoch; on a terminal also a bar over all steps with the loss of the last."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=None)

        def watch(report: StepReport) -> None:
            figures = report.validation
            if figures is None:
                done = report.epoch * report.steps + report.step
                text = f"epoch {report.epoch + 1}/{report.epochs}  loss {report.loss:.3f}"
                bar.update(task, completed=done, total=report.epochs * report.steps, description=text)
                return
            console.print(
                f"epoch {report.epoch + 1:3d}/{report.epochs}  loss {report.loss:.4f}  F1 {figures.get('f1', 0):.3f}  "
                f"precision {figures.get('precision', 0):.3f}  recall {figures.get('recall', 0):.3f}  "
                f"AUPRC {figures.get('auprc', 0):.3f}"
            )

        yield watch
