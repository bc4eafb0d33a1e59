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

if TYPE_CHECKING:
    from flame.detection import Metrics

_SPLITS = ("test", "train")


def run(
    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="A packaged model such as flame-plus, an .onnx file, a run folder of `flame train` or its "
            "model.safetensors.",
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
            help="Probability above which a pixel is plume. By default the model's own: 0.5.",
        ),
    ] = None,
    runtime: Runtime = "auto",
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes that prepare the tiles for a trained run.")
    ] = 1,
    threads: Threads = None,
) -> None:
    """Measure how well a model finds the labelled plumes of a data set.

    A pixel counts as plume by the paper's rule: probability above 0.5, then the mask is opened by a 3x3 cross; only
    valid pixels count. A packaged model runs as in `flame detect` and needs no PyTorch; a trained run needs it.
    """
    from rich.markdown import Markdown

    from flame.training.report import markdown_table, write_report

    console = Console()
    about: dict[str, object] = {"data": data.name, "split": split}
    if names_package(model) or Path(model).suffix == ".onnx":
        metrics, facts, failed = _packaged(model, data, split, threshold, runtime, threads, console)
    else:
        metrics, facts, failed = _trained(Path(model), data, split, threshold, workers, threads, console), {}, 0
        about |= {"model": Path(model).name, "threshold": 0.5 if threshold is None else threshold}
    write_report(out, metrics, facts | about)
    console.print(Markdown(markdown_table(metrics)))
    console.print(f"wrote {out / 'metrics.json'}", markup=False, soft_wrap=True)
    if failed:
        from flame.cli.app import EXIT_PARTLY_FAILED

        raise typer.Exit(EXIT_PARTLY_FAILED)


def _packaged(
    model: str, data: Path, split: str, threshold: float | None, runtime: str, threads: int | None, console: Console
) -> tuple[Metrics, dict[str, object], int]:
    from flame.cli.progress import counting
    from flame.io import starcop
    from flame.pipeline.detect import Detectors
    from flame.pipeline.evaluate import evaluate_package

    tiles = starcop.read_dataset(data, split)
    with counting(console, "tiles", len(tiles)) as step:
        found = evaluate_package(tiles, Detectors(model, runtime, threads), threshold, step)
    errors = Console(stderr=True)
    for failure in found.failures:
        errors.print(f"error: {failure.message}", markup=False, highlight=False, soft_wrap=True)
    return found.metrics, found.facts, len(found.failures)


def _trained(
    model: Path, data: Path, split: str, threshold: float | None, workers: int, threads: int | None, console: Console
) -> Metrics:
    require_torch("flame evaluate")
    import torch

    from flame.cli.progress import counting
    from flame.detection import DecisionRule
    from flame.models.weights import load_model
    from flame.physics import BandMismatchError
    from flame.training.data import open_split
    from flame.training.evaluate import evaluate_model

    if threads is not None:
        torch.set_num_threads(threads)
    stored = load_model(model)
    tiles = open_split(data, split, workers)
    if not tiles.bands.matches(stored.bands):
        raise BandMismatchError(stored.bands, tiles.bands, str(data))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rule = DecisionRule() if threshold is None else DecisionRule(threshold)
    with counting(console, "tiles", len(tiles)) as step:
        return evaluate_model(stored.model.to(device), tiles, device, rule, batch=1, progress=lambda *_: step())
