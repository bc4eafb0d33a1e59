"""What helped, each alone: short runs that differ in one setting, judged on the validation tiles and never on the test.

Every run's figures are kept in the output folder as they come, so a stopped experiment goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flame.bench.tables import shown
from flame.files import write_json, write_whole
from flame.training.data import training_and_validation
from flame.training.loop import Trainer
from flame.training.overrides import override
from flame.training.recipes import recipe

__all__ = ["STEPS", "Step", "changes_table", "run_changes"]

_INPUTS_NOT_IN_PPM_M = "model.prepare.pixel_fields=matched_filter,brightness,anomaly,coherence,noise"


@dataclass(frozen=True)
class Step:
    """One run.

    Attributes:
        title: What is different.
        recipe: The recipe it starts from.
        changes: Settings changed, as `flame train --set` takes them.
    """

    title: str
    recipe: str
    changes: tuple[str, ...] = ()


STEPS: dict[str, Step] = {
    "paper": Step("flame, the paper's", "cpu"),
    "paper-raw": Step("flame, input not whitened", "cpu", ("model.conditioning=none",)),
    "paper-random-lift": Step("flame, lift starts at random", "cpu", ("model.lift_start=random",)),
    "paper-no-leak": Step("flame, no leak through the clamp", "cpu", ("model.clamp_leak=0.0",)),
    "paper-projected": Step(
        "flame + leading background directions projected out of the score", "cpu", ("model.score_space=projected",)
    ),
    "paper-tile": Step("flame + whitened by the tile itself", "cpu", ("model.conditioning=tile",)),
    "paper-tile-score": Step(
        "flame + whitened by the tile, the score too (full covariance)",
        "cpu",
        ("model.conditioning=tile", "model.score_space=whitened"),
    ),
    "paper-average": Step("flame + averaged weights", "cpu", ("optimizer.averaging=0.99",)),
    "plus": Step("flame-plus", "flame-plus"),
    "plus-fine": Step("flame-plus, operator on the full grid", "flame-plus", ("model.backbone=ufno",)),
    "plus-tile-lift": Step("flame-plus, lift whitened by the tile", "flame-plus", ("model.lift_space=tile",)),
    "plus-no-ppm-m": Step("flame-plus, inputs not in ppm m", "flame-plus", (_INPUTS_NOT_IN_PPM_M,)),
    "plus-no-inputs": Step("flame-plus, no further inputs", "flame-plus", ("model.prepare.pixel_fields=",)),
    "plus-no-score": Step("flame-plus, no score", "flame-plus", ("model.score=none",)),
    "plus-no-teacher": Step("flame-plus, no teacher", "flame-plus", ("loss.teacher_weight=0.0",)),
    "plus-mag1c": Step(
        "flame-plus, MAG1C-SAS as its teacher, for ten epochs",
        "flame-plus",
        ("loss.teacher=mag1c_sas", "loss.teacher_weight=1.0", "loss.teacher_epochs=10"),
    ),
    "plus-one-pass": Step("flame-plus, background in one pass", "flame-plus", ("model.prepare.background.passes=1",)),
    "plus-beta5": Step("flame-plus, cross-entropy weighted 5 instead of 50", "flame-plus", ("loss.beta_max=5",)),
    "plus-width10": Step(
        "flame-plus, operator on the full grid, 10 features instead of 14",
        "flame-plus",
        ("model.backbone=ufno", "model.width=10"),
    ),
}
SHOWN = ("auprc", "f1", "precision", "recall")


def run_changes(
    data: Path,
    out: Path,
    steps: Iterable[str] = tuple(STEPS),
    changes: Iterable[str] = (),
    seed: int = 0,
    workers: int = 2,
    tell: Callable[[str], None] = print,
) -> str:
    """Trains what is missing and gives the table as Markdown; also written to `changes.md`.

    Args:
        data: Data set; only its train split is used.
        out: Folder for runs and figures.
        steps: Keys of `STEPS`.
        changes: Settings changed in every run, such as `epochs=3`.
        seed: Seed of every run.
        workers: Processes for building caches.
        tell: Takes a line of progress.
    """
    for key in steps:
        step, file = STEPS[key], out / f"{key}.json"
        if file.exists():
            continue
        training, held = training_and_validation([data], workers)
        chosen = override(recipe(step.recipe), [*step.changes, *changes])
        folder = out / key
        course = Trainer(chosen, training, held, folder, seed, (folder / "checkpoint.safetensors").exists()).run()
        row = course.history[-1]
        write_json(file, {"title": step.title, "seed": seed, "epochs": chosen.epochs, "tiles": len(training), **row})
        tell(f"{step.title}: AUPRC {shown(row['auprc'])}")
    return changes_table(out)


def changes_table(out: Path) -> str:
    """The table of whatever figures the folder holds."""
    lines = [
        "| | epochs | AUPRC | F1 | precision | recall | segmentation loss |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for key, step in STEPS.items():
        file = out / f"{key}.json"
        if file.exists():
            found: dict[str, Any] = json.loads(file.read_text())
            cells = [shown(found[name]) for name in (*SHOWN, "segmentation")]
            lines.append(f"| {step.title} | {found['epochs']} | {' | '.join(cells)} |")
    text = "\n".join(lines) + "\n"
    write_whole(out / "changes.md", text)
    return text
