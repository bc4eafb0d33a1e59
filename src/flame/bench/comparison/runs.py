"""Runs what is missing of an experiment; stopped at any moment, it goes on where it was."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import flame
from flame.bench.comparison.judging import Judged, judge_filter, judge_model, judge_packaged, model_maps
from flame.bench.comparison.methods import Method, recipe_of
from flame.bench.comparison.records import Records, stem
from flame.bench.comparison.scales import Scale
from flame.bench.comparison.tiles import data_facts, panels_of, simulated_set
from flame.models.trained import load_trained
from flame.training.batches import TileSequence
from flame.training.data import open_split, training_and_validation
from flame.training.distributed import World, join, one_after_another
from flame.training.loop import StepReport, Trainer, chosen_device

__all__ = ["Setting", "run_missing"]


@dataclass(frozen=True)
class Setting:
    """Where and how an experiment runs.

    Attributes:
        scale: How large.
        out: Folder of the small files that are kept, one folder a scale in it.
        work: Folder of tiles, checkpoints and weights.
        data: A data set of the user's in the STARCOP layout; simulated tiles if there is none.
        changes: Settings changed in every training, as `flame train --set` takes them.
        device: Where to train: `cpu`, `cuda`, or None for a GPU if there is one.
        workers: Processes that prepare tiles.
        tell: Takes a line of progress.
    """

    scale: Scale
    out: Path
    work: Path
    data: Path | None = None
    changes: tuple[str, ...] = ()
    device: str | None = None
    workers: int = 1
    tell: Callable[[str], None] = field(default=print)

    @property
    def records(self) -> Records:
        """The kept files."""
        return Records(self.out / self.scale.name)

    @property
    def runs_folder(self) -> Path:
        """Where runs are trained."""
        return self.work / self.scale.name / "runs"

    def tiles_folder(self) -> Path:
        """Where the tiles are, drawn first if need be."""
        return self.data or simulated_set(self.scale, self.work / self.scale.name / "data", self.tell)


def run_missing(methods: Iterable[Method], seeds: Iterable[int], setting: Setting) -> None:
    """Trains and judges every method and seed that is not kept yet; seed by seed, so that rows come before spreads.

    Under torchrun all processes train together; the first one judges and keeps.

    Args:
        methods: What to run, in order. A filter or a packaged model is run once, whatever the seeds.
        seeds: Seeds of the trainings.
        setting: Where and how.
    """
    world, records = join(), setting.records
    wanted = [(method, seed) for seed in seeds for method in methods if method.trained_here or not seed]
    missing = [(method, seed) for method, seed in wanted if not records.has(method.key, seed)]
    _wait(world)  # before anybody keeps a run that another process has still to look for
    if not missing:
        return
    with one_after_another():
        root = setting.tiles_folder()
        open_split(root, "train", setting.workers)
        test = open_split(root, "test", setting.workers)
    if world.rank == 0:
        records.take_data(data_facts(root, setting.scale, setting.data is None))
        if not records.panels():
            records.keep_panels(panels_of(test))
    for number, (method, seed) in enumerate(missing, start=1):
        if world.rank == 0:
            setting.tell(f"[{number}/{len(missing)}] {method.title}, seed {seed}")
        _run(method, seed, setting, root, test, world)
        _wait(world)


def _wait(world: World) -> None:
    if world.size > 1:
        dist.barrier()


def _run(method: Method, seed: int, setting: Setting, root: Path, test: TileSequence, world: World) -> None:
    started = time.monotonic()
    if not method.trained_here:
        if world.rank == 0:
            _keep(method, seed, setting, _judge_as_it_is(method, test), {}, started)
        return
    folder = setting.runs_folder / stem(method.key, seed)
    trained = _train(method, seed, setting, root, folder, world)
    if world.rank == 0:
        device = chosen_device(setting.device, world)
        started = time.monotonic()
        judged = judge_model(load_trained(folder).model, test, device)
        phase_one = folder / f"epoch{setting.scale.phase_one_epochs}.safetensors"
        if method.key == "flame" and phase_one.is_file():
            judged.maps.update(model_maps(load_trained(phase_one).model.to(device), test, device, "phase-1 "))
        _keep(method, seed, setting, judged, trained, started)


def _judge_as_it_is(method: Method, test: TileSequence) -> Judged:
    if method.packaged is not None:
        return judge_packaged(method.packaged, method.level, test)
    assert method.filtered is not None
    return judge_filter(method.filtered, test)


def _train(method: Method, seed: int, setting: Setting, root: Path, folder: Path, world: World) -> dict[str, Any]:
    recipe = recipe_of(method, setting.scale, setting.changes)
    training, held = training_and_validation([root], setting.workers, hold_out=recipe.keep == "best")

    def watch(report: StepReport) -> None:
        if report.validation is not None and world.rank == 0:
            f1 = report.validation.get("f1", 0.0)
            setting.tell(f"  epoch {report.epoch + 1}/{report.epochs}  loss {report.loss:.3f}  validation F1 {f1:.3f}")

    resume = (folder / "checkpoint.safetensors").is_file()
    trainer = Trainer(
        recipe,
        training,
        held,
        folder,
        seed,
        resume,
        watch,
        device=setting.device,
        snapshots=(setting.scale.phase_one_epochs,) if method.key == "flame" else (),
    )
    course = trainer.run()
    steps = max(1, len(training) // min(recipe.batch.size, len(training)))
    return {
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "epochs": recipe.epochs,
        "kept_epoch": course.best_epoch,
        "validation_f1": course.best_f1,
        "training_tiles": len(training),
        "validation_tiles": len(held),
        "learning_rate": recipe.optimizer.rate,
        "training_s": round(steps * sum(row["seconds_per_step"] for row in course.history), 1),
        "device": str(trainer.device),
        "processes": world.size,
    }


def _keep(method: Method, seed: int, setting: Setting, judged: Judged, trained: dict[str, Any], started: float) -> None:
    record = {
        "method": method.key,
        "title": method.title,
        "family": method.family,
        "seed": seed,
        "scale": setting.scale.facts(),
        "data": setting.records.data(),
        "changes": list(setting.changes),
        "version": flame.__version__,
        "commit": _commit(),
        "machine": {"processor": platform.machine(), "threads": torch.get_num_threads(), "cores": os.cpu_count()},
        **trained,
        "judging_s": round(time.monotonic() - started, 1),
        **judged.figures,
    }
    setting.records.keep_run(record, judged.maps if seed == 0 else None)
    setting.tell(f"  F1 {judged.figures['metrics']['f1'] or 0.0:.3f}")


def _commit() -> str | None:
    """The commit that is running, with a plus if it was changed; None where flame is not run from a checkout."""
    here = Path(flame.__file__).parent
    try:
        asked = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
