"""`flame train`: from a folder of labelled tiles to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from flame.cli.options import Seed, Threads, completing, input_path, output_folder, require_torch, trained_model

if TYPE_CHECKING:
    from flame.training.loop import StepReport

_RECIPES = ("paper", "strict-paper", "cpu", "flame-plus", "tiny")
"""As in `flame.training.recipes`, which cannot be asked without PyTorch."""


def run(
    data: Annotated[
        list[Path], input_path("Folder of labelled tiles in the STARCOP layout; may be repeated.", metavar="FOLDER")
    ],
    out: Annotated[Path, output_folder("Run folder: the model, a checkpoint, a log and its curves.")],
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Which settings to train with: {', '.join(_RECIPES)}.",
            autocompletion=completing(lambda: _RECIPES),
        ),
    ] = "paper",
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the run folder.")] = False,
    start: Annotated[
        Path | None, input_path("Start with the weights of this run folder or model.safetensors.", metavar="RUN")
    ] = None,
    validation: Annotated[
        list[Path] | None,
        input_path(
            "Choose the best epoch on the training tiles of this folder, not on some of --data; their scenes are then "
            "not trained on; may be repeated.",
            metavar="FOLDER",
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting, such as batch.size=4; may be repeated."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Processes that prepare the tiles.")] = 1,
    threads: Threads = None,
) -> None:
    """Train a model on labelled tiles.

    Runs on the CPU, on a GPU, or on many under torchrun. A run that was killed goes on with `--resume`.
    """
    require_torch("flame train")
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
        training, held = training_and_validation(data, workers, told, chosen.keep == "best", validation or ())
    console.print(f"{len(training)} training and {len(held)} validation tiles, recipe {chosen.name}, seed {seed}")
    with _watching(console) as watch:
        given = None if start is None else load_model(trained_model(start))
        progress = Trainer(chosen, training, held, out, seed, resume, watch, given).run()
    kept = f"epoch {progress.best_epoch}, validation F1 {progress.best_f1:.3f}"
    console.print(f"kept {kept}: {out / 'model.safetensors'}")


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
