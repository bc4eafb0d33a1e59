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
from flame.errors import FlameError

if TYPE_CHECKING:
    from flame.training.loop import StepReport
    from flame.training.recipes import Recipe

_RECIPES = ("paper", "strict-paper", "cpu", "flame-plus", "tiny")
"""As in `flame.training.recipes`, which cannot be asked without PyTorch."""

DEVICES = ("auto", "cpu", "cuda")

Device = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Where to train: cpu, cuda (in mixed precision), or auto for a GPU if there is one.",
        autocompletion=completing(lambda: DEVICES),
    ),
]


def device_named(name: str) -> str | None:
    """What the trainer is told: None for auto."""
    if name not in DEVICES:
        raise FlameError(f"no device '{name}'; known are {', '.join(DEVICES)}")
    return None if name == "auto" else name


def _networks() -> list[str]:
    try:
        from flame.models.networks import NETWORKS
    except ImportError:
        return []
    return list(NETWORKS)


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
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train one of the paper's baselines, such as unet or segformer-cu, instead of FLAME.",
            autocompletion=completing(_networks),
        ),
    ] = None,
    model_class: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="Train a network of your own instead of FLAME.")
    ] = None,
    conditioned: Annotated[
        bool,
        typer.Option("--conditioned", help="Give --network FLAME's inputs (log, whitened) instead of its own."),
    ] = False,
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
    device: Device = "auto",
) -> None:
    """Train a model on labelled tiles.

    Runs on the CPU, on a GPU, or on many under torchrun. A run that was killed goes on with `--resume`.
    """
    require_torch("flame train")
    import torch

    from flame.models.trained import load_trained
    from flame.training.data import training_and_validation
    from flame.training.distributed import join, one_after_another
    from flame.training.loop import Trainer
    from flame.training.overrides import override

    chosen = override(_recipe(recipe, network, model_class, conditioned), change or [])
    where = device_named(device)
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
        given = None if start is None else load_trained(trained_model(start))
        trainer = Trainer(chosen, training, held, out, seed, resume, watch, given, where)
        progress = trainer.run()
    kept = f"epoch {progress.best_epoch}, validation F1 {progress.best_f1:.3f}"
    console.print(f"kept {kept}: {out / 'model.safetensors'}", markup=False, soft_wrap=True)


def _recipe(name: str, network: str | None, model_class: str | None, conditioned: bool) -> Recipe:
    """The recipe, for another network if one is named."""
    from flame.training.recipes import on_network, recipe

    if network is not None and model_class is not None:
        raise FlameError("give --network NAME or --model-class MODULE:NAME, not both")
    if model_class is not None and ":" not in model_class:
        raise FlameError(f"--model-class {model_class}: write MODULE:NAME, such as my_package:MyNetwork")
    other = network or model_class
    if other is None:
        if conditioned:
            raise FlameError("--conditioned belongs to --network; FLAME has its own conditioning (model.conditioning)")
        return recipe(name)
    return on_network(recipe(name), other, conditioned)


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
