"""Scenes to products: what `flame detect` does. Files become detections, detections files, and files the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from flame.errors import FlameError
from flame.files import remove_leftovers, require_writable
from flame.io import OpenOptions
from flame.onboard import Detectors
from flame.pipeline.batch_products import BATCH_FILES, BatchScene, write_batch
from flame.pipeline.measure import MeasureSettings
from flame.pipeline.runners import Runner, here
from flame.pipeline.scene_folders import SceneInput, claim_folder, lies_in
from flame.pipeline.scene_products import PAGE, ProductOptions
from flame.pipeline.scene_work import FAILURE_LOG, Job, Outcome, SceneTask, failed
from flame.workers import WorkerLost

__all__ = ["FAILURE_LOG", "REPORT", "Batch", "Detectors", "Outcome", "detect_files", "write_scene_report"]

REPORT = PAGE
_RESERVED = frozenset({*BATCH_FILES, FAILURE_LOG})


def detect_files(
    inputs: Sequence[Path],
    out: Path,
    detectors: Detectors,
    done: Callable[[Outcome], None] = lambda _: None,
    options: OpenOptions | None = None,
    *,
    measure: MeasureSettings | None = None,
    downlink: bool = False,
    fields: Sequence[str] = (),
    force: bool = False,
    runner: Runner = here,
    earlier: Sequence[Outcome] = (),
) -> list[Outcome]:
    """Detects in each input and writes its products, and in the end one report.

    An input that fails, of whatever, does not stop the others. If the batch itself is stopped (Ctrl-C, a full disk),
    the report tells of what was done till then. Inputs that an earlier run finished are kept as they are. Where nothing
    could be done at all, report and tables of an earlier run are left as they were.

    Args:
        inputs: Scene files or folders, each one scene; see `find_scenes`.
        out: Folder for the products, one folder per input, and report.html.
        detectors: Which model and engine.
        done: Called after each input.
        options: Unit and masks, for all inputs.
        measure: Winds, and how plumes are measured.
        downlink: Whether to write downlink packets too.
        fields: Other products under whose field names the plumes are written too.
        force: Whether to do finished inputs again.
        runner: Where the work is done: here, in several processes, or on a cluster.
        earlier: What became of the inputs of earlier calls: the report tells of them too, but for those given again.

    Returns:
        What became of each input, in their order.

    Raises:
        FlameError: If `out` lies in the folder of a scene, whose files it would be mixed with; before the work.
        WriteError: If `out` cannot be written to; before the work, or for the report after it.
        WindError: If a wind file cannot be read; before the work.
    """
    for scene in inputs:
        if scene.is_dir() and lies_in(out.resolve(), scene.resolve()):
            raise FlameError(f"{out}: lies in the folder of the scene {scene}; choose another place for the results")
    require_writable(out)
    remove_leftovers(out)
    measure = measure or MeasureSettings()
    place = out.absolute()
    products = ProductOptions(downlink, tuple(fields))
    job = Job(place, detectors, options or OpenOptions(), measure.absolute(), measure.key(), products, force)
    batch = Batch(inputs, job, done)
    try:
        batch.run(runner)
    finally:
        outcomes = batch.outcomes()
        again = {outcome.source for outcome in outcomes}
        before = [outcome for outcome in earlier if outcome.source not in again]
        told = [*before, *outcomes]
        # Where nothing could be done, what an earlier run found is worth more than an empty table.
        if any(outcome.folder for outcome in told) or not (out / REPORT).exists():
            write_scene_report(out, told, fields)
    return outcomes


class Batch:
    """The inputs of one run, and what has become of them so far.

    Args:
        inputs: Scene files or folders; one that is given twice is done once.
        job: What is asked of each.
        done: Called after each input.
    """

    def __init__(self, inputs: Sequence[Path], job: Job, done: Callable[[Outcome], None]) -> None:
        self._scenes = [SceneInput(path.absolute(), str(path)) for path in inputs]
        self._job, self._done = job, done
        self._outcomes: dict[int, Outcome] = {}
        self._first: dict[int, int] = {}
        self._stopping = False

    def run(self, runner: Runner) -> None:
        """Works on all inputs; ends early only where the disk is full, or if it is stopped."""
        with closing(runner(self._job, self._tasks())) as results:
            for task, result in results:
                if isinstance(result, WorkerLost):
                    result = failed(task.scene, FlameError(f"{task.scene.shown}: {result}"), self._job.out)
                self._note(task.index, result)

    def _tasks(self) -> Iterator[SceneTask]:
        """The scenes, each with a folder; folders are taken in the inputs' order, so that names do not depend on who
        is faster."""
        seen: dict[str, int] = {}
        for index, scene in enumerate(self._scenes):
            if self._stopping:
                return
            try:
                self._first[index] = seen.setdefault(scene.place, index)
                if self._first[index] != index:
                    continue
                folder = claim_folder(self._job.out, scene, _RESERVED)
            except Exception as mistake:
                self._note(index, failed(scene, mistake, self._job.out))
                continue
            yield SceneTask(index, scene, folder)

    def _note(self, index: int, outcome: Outcome) -> None:
        self._outcomes[index] = outcome
        self._stopping = self._stopping or outcome.disk_full
        self._done(outcome)

    def outcomes(self) -> list[Outcome]:
        """What became of each input, in their order."""
        why = "not tried: the batch was stopped"
        return [
            self._outcomes.get(self._first.get(index, index), Outcome(scene.shown, "not tried", failure=why))
            for index, scene in enumerate(self._scenes)
        ]


def write_scene_report(out: Path, outcomes: Sequence[Outcome], fields: Sequence[str] = ()) -> None:
    """The page and the other products over all inputs, from their files."""
    scenes = [BatchScene(outcome.source, outcome.folder, outcome.failure) for outcome in outcomes]
    write_batch(out, scenes, fields)
