"""The course of a run as CSV and PNG, and for TensorBoard if it is installed."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from flame.files import write_whole

__all__ = ["write_curves"]


def write_curves(folder: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Writes `log.csv` and `curves.png` anew from all finished epochs."""
    if not history:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(history[0]))
    writer.writeheader()
    writer.writerows(history)
    write_whole(folder / "log.csv", text.getvalue())
    write_whole(folder / "curves.png", _figure(history))
    _tensorboard(folder / "tensorboard", history[-1])


def _figure(history: Sequence[Mapping[str, float]]) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    epochs = [row["epoch"] for row in history]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    losses, quality = figure.subplots(1, 2)
    for name in ("loss", "segmentation", "auxiliary"):
        losses.plot(epochs, [row[name] for row in history], label=name)
    losses.set(xlabel="epoch", ylabel="training loss", yscale="log")
    for name in ("f1", "precision", "recall"):
        quality.plot(epochs, [row[name] for row in history], label=name)
    quality.set(xlabel="epoch", ylabel="validation", ylim=(0, 1))
    for axes in (losses, quality):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=120)
    return target.getvalue()


def _tensorboard(folder: Path, row: Mapping[str, float]) -> None:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return
    with SummaryWriter(str(folder)) as board:
        for name, value in row.items():
            if name != "epoch" and not math.isnan(value):
                board.add_scalar(name, value, int(row["epoch"]))
