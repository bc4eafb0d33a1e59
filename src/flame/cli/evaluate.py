"""`flame evaluate`: a model's figures on the labelled tiles of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flame.cli.options import (
    Runtime,
    Threads,
    completing,
    input_path,
    names_package,
    output_folder,
    packaged_names,
    require_torch,
)
from flame.errors import FlameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flame.detection import JudgedRow, Metrics
    from flame.pipeline.evaluate import PackageEvaluation

_SPLITS = ("test", "train")


def run(
    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="A packaged model such as flame-plus, noise-aware-mf, an .onnx file, a run folder of `flame train` or "
            "its model.safetensors.",
            autocompletion=completing(packaged_names),
        ),
    ],
    data: Annotated[Path, input_path("Folder of labelled tiles in the STARCOP layout.", metavar="FOLDER")],
    out: Annotated[Path, output_folder("Folder for metrics.json, metrics.md and the figure.")],
    split: Annotated[
        str,
        typer.Option(metavar="NAME", help="Which tiles: test or train.", autocompletion=completing(lambda: _SPLITS)),
    ] = "test",
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="P",
            help="Probability above which a pixel is plume. By default the packaged model's, or 0.5 for a trained run.",
        ),
    ] = None,
    runtime: Runtime = "auto",
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes that prepare the tiles for a trained run.")
    ] = 1,
    threads: Threads = None,
) -> None:
    """Measure how well a model finds the labelled plumes of a data set.

    A pixel counts as plume by the model's own rule, for a trained run the paper's: probability above 0.5, then the mask
    is opened by a 3x3 cross. Only valid pixels count. A packaged model runs as in `flame detect`, without PyTorch; a
    trained run needs it.
    """
    from rich.markdown import Markdown

    from flame.training.report import markdown_table, write_report

    console = Console()
    about: dict[str, object] = {"data": data.name, "split": split}
    if names_package(model) or Path(model).suffix == ".onnx":
        found = _packaged(model, data, split, threshold, runtime, threads, console)
        metrics, rules, facts, failed = found.metrics, found.rules, found.facts, len(found.failures)
    else:
        metrics, rules = _trained(Path(model), data, split, threshold, workers, threads, console)
        facts, failed = {}, 0
        about |= {"model": Path(model).name, "threshold": 0.5 if threshold is None else threshold}
    write_report(out, metrics, facts | about, rules)
    console.print(Markdown(markdown_table(metrics)))
    console.print(f"wrote {out / 'metrics.json'}", markup=False, soft_wrap=True)
    if failed:
        from flame.cli.app import EXIT_PARTLY_FAILED

        raise typer.Exit(EXIT_PARTLY_FAILED)


def _packaged(
    model: str, data: Path, split: str, threshold: float | None, runtime: str, threads: int | None, console: Console
) -> PackageEvaluation:
    from flame.cli.progress import counting
    from flame.io import starcop
    from flame.onboard import Asked, Detectors
    from flame.pipeline.evaluate import evaluate_package

    tiles = starcop.read_dataset(data, split)
    as_annotators = Detectors(model, runtime, threads, Asked(level="visible"))
    with counting(console, "tiles", len(tiles)) as step:
        found = evaluate_package(tiles, as_annotators, threshold, step)
    errors = Console(stderr=True)
    for failure in found.failures:
        errors.print(f"error: {failure.message}", markup=False, highlight=False, soft_wrap=True)
    return found


def _trained(
    model: Path, data: Path, split: str, threshold: float | None, workers: int, threads: int | None, console: Console
) -> tuple[Metrics, Mapping[str, JudgedRow]]:
    if not model.exists():
        raise FlameError(
            f"{model}: no such model; give {', '.join(packaged_names())}, an .onnx file, a run folder of `flame train` "
            "or its model.safetensors"
        )
    require_torch("flame evaluate")
    import torch

    from flame.cli.progress import counting
    from flame.detection import DecisionRule, ScoreJudge
    from flame.models.trained import load_trained
    from flame.physics import BandMismatchError
    from flame.training.data import open_split
    from flame.training.evaluate import evaluate_model

    if threads is not None:
        torch.set_num_threads(threads)
    stored = load_trained(model)
    tiles = open_split(data, split, workers)
    if not tiles.bands.matches(stored.bands):
        raise BandMismatchError(stored.bands, tiles.bands, str(data))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rule = DecisionRule() if threshold is None else DecisionRule(threshold)
    judge = ScoreJudge(rule.threshold, probabilities=True)
    with counting(console, "tiles", len(tiles)) as step:
        metrics = evaluate_model(
            stored.model.to(device), tiles, device, rule, batch=1, progress=lambda *_: step(), judge=judge
        )
    return metrics, judge.rows() if metrics.plume_free_tiles < metrics.tiles else {}
