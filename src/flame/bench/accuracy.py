"""The accuracy table: classical filters, FLAME and its variants, and the limit, on simulated and on real surfaces.

Every run and every figure is kept in the output folder as it comes, so a stopped experiment goes on where it was, also
on another machine that has only the small JSON files.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flame.bench.baselines import rule_title, run_limit
from flame.detection import RULES, DecisionRule, ScoreJudge
from flame.files import write_json, write_whole
from flame.filters import FILTERS
from flame.models.weights import load_model
from flame.pipeline.datasets import read_plan
from flame.training.data import open_split, training_and_validation
from flame.training.evaluate import evaluate_model
from flame.training.loop import Trainer
from flame.training.overrides import override
from flame.training.recipes import recipe

__all__ = ["VARIANTS", "Variant", "accuracy_table", "run_accuracy"]

SHOWN = ("f1", "precision", "recall", "pixel_fpr", "auprc")


@dataclass(frozen=True)
class Variant:
    """A trained row of the table.

    Attributes:
        title: The row's name.
        recipe: Recipe it is trained by.
        changes: Settings changed, as `flame train --set` takes them.
        seeds: How many seeds are trained.
    """

    title: str
    recipe: str
    changes: tuple[str, ...] = ()
    seeds: int = 1


VARIANTS: dict[str, Variant] = {
    "flame-unwhitened": Variant("flame, input not whitened", "cpu", ("model.conditioning=none",)),
    "flame": Variant("flame", "cpu", seeds=3),
    "flame-no-score": Variant("flame without the score", "cpu", ("model.score=none",)),
    "flame-plus": Variant("flame-plus", "flame-plus", seeds=3),
}


def _classical(data: Mapping[str, Path], out: Path, workers: int | None, tell: Callable[[str], None]) -> None:
    for name, root in data.items():
        file = out / f"limit_{name}.json"
        if not file.exists():
            tell(f"filters and limit on {name}")
            run_limit(read_plan(root), "test", file, workers)


def _train_and_judge(
    key: str,
    seed: int,
    data: Mapping[str, Path],
    out: Path,
    changes: Iterable[str],
    workers: int,
    tell: Callable[[str], None],
) -> None:
    variant = VARIANTS[key]
    folder = out / f"{key}-seed{seed}"
    missing = [name for name in data if not (folder / f"metrics_{name}.json").exists()]
    if not missing:
        return
    chosen = override(recipe(variant.recipe), [*variant.changes, *changes])
    training, held = training_and_validation([data["simulated"]], workers)
    tell(f"{variant.title}, seed {seed}: {len(training)} training and {len(held)} validation tiles")

    def watch(report: Any) -> None:
        if report.validation is not None:
            figures = report.validation
            tell(f"  epoch {report.epoch + 1}/{report.epochs} loss {report.loss:.4f} F1 {figures.get('f1', 0):.3f}")

    Trainer(chosen, training, held, folder, seed, (folder / "checkpoint.safetensors").exists(), watch).run()
    model = load_model(folder).model
    for name in missing:
        judge = ScoreJudge(DecisionRule().threshold, probabilities=True)
        metrics = evaluate_model(model, open_split(data[name], "test", workers), batch=1, judge=judge)
        rules = {rule: row.to_dict() for rule, row in judge.rows().items()}
        found = {"variant": key, "seed": seed, **metrics.to_dict(), "rules": rules}
        write_json(folder / f"metrics_{name}.json", found)
        tell(f"  {name}: F1 {metrics.f1:.3f}, pixel FPR {1e4 * metrics.pixel_fpr:.1f}e-4")


def run_accuracy(
    data: Mapping[str, Path],
    out: Path,
    variants: Iterable[str] = tuple(VARIANTS),
    changes: Iterable[str] = (),
    workers: int = 2,
    tell: Callable[[str], None] = print,
) -> str:
    """Trains and judges what is missing and gives the table as Markdown; also written to `accuracy.md` and `.json`.

    Args:
        data: Data sets by name; `simulated` is trained on (its train split), all are judged (their test splits).
        out: Folder for runs and figures.
        variants: Keys of `VARIANTS` to train.
        changes: Settings changed in every recipe, as `flame train --set` takes them.
        workers: Processes for building caches and drawing tiles.
        tell: Takes a line of progress.
    """
    _classical(data, out, workers, tell)
    # Seed by seed, so that a stopped experiment has every row before it has every seed.
    wanted = [(key, seed) for seed in range(3) for key in variants if seed < VARIANTS[key].seeds]
    for key, seed in wanted:
        _train_and_judge(key, seed, data, out, changes, workers, tell)
    return accuracy_table(out, tuple(data))


def accuracy_table(out: Path, sets: tuple[str, ...]) -> str:
    """The table of whatever figures the folder holds."""
    rows: dict[str, dict[str, Any]] = {}
    for name in sets:
        file = out / f"limit_{name}.json"
        if not file.exists():
            continue
        found = json.loads(file.read_text())
        for key, rules in found["filters"].items():
            for rule, figures in rules.items():
                if rule != "canonical":  # as in the paper, whose filters are opened; the plain row is in the JSON
                    rows.setdefault(rule_title(FILTERS[key], rule), {})[name] = [figures]
    for key, variant in VARIANTS.items():
        for name in sets:
            files = sorted(out.glob(f"{key}-seed*/metrics_{name}.json"))
            runs = [json.loads(file.read_text()) for file in files]
            if runs:
                rows.setdefault(variant.title, {})[name] = runs
            for rule in ("best_opened", "best_smoothed"):
                judged = [run["rules"][rule] for run in runs if "rules" in run]
                if judged:
                    rows.setdefault(f"{variant.title}, {RULES[rule]}", {})[name] = judged
    for name in sets:
        file = out / f"limit_{name}.json"
        if file.exists():
            rows.setdefault("limit: background and noise known", {})[name] = [json.loads(file.read_text())["limit"]]
    summary = {
        title: {
            name: {"seeds": len(runs)} | {figure: _spread(runs, figure) for figure in SHOWN}
            for name, runs in by_set.items()
        }
        for title, by_set in rows.items()
    }
    write_json(out / "accuracy.json", summary)
    text = _markdown(summary, sets)
    write_whole(out / "accuracy.md", text)
    return text


def _spread(runs: list[dict[str, Any]], figure: str) -> dict[str, float] | None:
    values = [run[figure] for run in runs if run.get(figure) is not None]
    if not values:
        return None
    return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}


def _markdown(summary: Mapping[str, Mapping[str, Mapping[str, Any]]], sets: tuple[str, ...]) -> str:
    headings = [f"{name.replace('_', ' ')}: F1 | precision | recall | pixel FPR x 1e4" for name in sets]
    lines = [
        f"| method | {' | '.join(headings)} |",
        "|---|" + "---:|" * (4 * len(sets)),
    ]
    for title, by_set in summary.items():
        cells = []
        for name in sets:
            figures = by_set.get(name)
            cells += [_cell(figures, "f1"), _cell(figures, "precision"), _cell(figures, "recall")]
            cells.append(_cell(figures, "pixel_fpr", 1e4, 1))
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(figures: Mapping[str, Any] | None, key: str, scale: float = 1.0, digits: int = 3) -> str:
    if figures is None or figures.get(key) is None:
        return ""
    mean, std = figures[key]["mean"] * scale, figures[key]["std"] * scale
    return f"{mean:.{digits}f}" + (f" ± {std:.{digits}f}" if figures["seeds"] > 1 else "")
