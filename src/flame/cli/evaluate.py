"""`flame evaluate`: a model's figures on the test tiles of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def run(
    model: Annotated[Path, typer.Option(help="A model.safetensors, or the run folder that holds it.")],
    data: Annotated[Path, typer.Option(help="STARCOP-layout folder.")],
    out: Annotated[Path, typer.Option(help="Folder for metrics.json, metrics.md and the figure.")],
    split: Annotated[str, typer.Option(help="Which tiles: test or train.")] = "test",
    threshold: Annotated[float, typer.Option(min=0.0, max=1.0, help="Probability above which a pixel is plume.")] = 0.5,
    workers: Annotated[int, typer.Option(min=1, help="Processes that build the cache.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of torch; all cores if not given.")] = None,
) -> None:
    """Evaluate a model by the paper's rule: probability above 0.5, opened by a 3x3 cross, valid pixels only."""
    import torch
    from rich.markdown import Markdown

    from flame.cli.progress import counting
    from flame.detection import DecisionRule, ScoreJudge
    from flame.models.weights import load_model
    from flame.physics import BandMismatchError
    from flame.training.data import open_split
    from flame.training.evaluate import evaluate_model
    from flame.training.report import markdown_table, write_report

    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    stored = load_model(model)
    tiles = open_split(data, split, workers)
    if not tiles.bands.matches(stored.bands):
        raise BandMismatchError(stored.bands, tiles.bands, str(data))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rule, judge = DecisionRule(threshold), ScoreJudge(threshold, probabilities=True)
    with counting(console, "evaluating", len(tiles)) as step:
        metrics = evaluate_model(
            stored.model.to(device), tiles, device, rule, batch=1, progress=lambda *_: step(), judge=judge
        )
    facts = {"model": model.name, "data": data.name, "split": split, "threshold": threshold}
    write_report(out, metrics, facts, judge.rows() if metrics.counts.tp + metrics.counts.fn else {})
    console.print(Markdown(markdown_table(metrics)))
