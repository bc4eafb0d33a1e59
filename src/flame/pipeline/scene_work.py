"""What is done with one scene of a batch, wherever it is done: content in, products out, a small outcome back."""

from __future__ import annotations

import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from flame.errors import FlameError
from flame.files import WriteError, printable, remove_leftovers
from flame.io import OpenOptions, open_scene
from flame.onboard import Detection, Detectors, Quality
from flame.onboard.downlink import DataReduction
from flame.pipeline.measure import MeasureSettings, measure_scene
from flame.pipeline.scene_folders import SceneFolder, SceneInput
from flame.pipeline.scene_products import PRODUCTS, SOFTWARE, ProductOptions, write_products
from flame.scene import SceneFile

__all__ = ["FAILURE_LOG", "Job", "Outcome", "SceneTask", "failed", "work_on"]

FAILURE_LOG = "failures.log"
"""Beside the report: where in the program each unexpected failure happened."""


@dataclass(frozen=True)
class Outcome:
    """What became of one input; small, so that thousands may be kept.

    Attributes:
        source: The input, for people.
        state: "done", "kept" (finished by an earlier run from the same content), "failed", or "not tried" because
            the batch was stopped before.
        folder: Where its products are; None if there are none.
        plumes: How many were found.
        model: What found them, for people.
        seconds: Time of the detection.
        downlink: What its packets save, if they were asked for.
        failure: Why there is nothing.
        disk_full: Whether it failed because the disk is full, as all others would.
        notes: What to know of its winds: files that had none for it, calms.
    """

    source: str
    state: Literal["done", "kept", "failed", "not tried"]
    folder: Path | None = None
    plumes: int = 0
    model: str = ""
    seconds: float = 0.0
    downlink: DataReduction | None = None
    failure: str | None = None
    disk_full: bool = False
    notes: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether its products are there."""
        return self.failure is None


@dataclass(frozen=True, eq=False)
class Job:
    """What is asked of every input alike; it can be sent to another process.

    Attributes:
        out: Folder of all products.
        detectors: Which model and engine.
        options: Unit and masks.
        measure: Winds, and how plumes are measured.
        measure_key: What `measure.key()` said when the batch began.
        products: What is written besides.
        force: Whether to do finished inputs again.
        software: The flame that asks; a worker that has another refuses.
    """

    out: Path
    detectors: Detectors
    options: OpenOptions
    measure: MeasureSettings
    measure_key: str
    products: ProductOptions = field(default_factory=ProductOptions)
    force: bool = False
    software: str = SOFTWARE

    def __call__(self, task: SceneTask) -> Outcome:
        """Works on one scene; whatever fails becomes an outcome."""
        return work_on(task, self)


@dataclass(frozen=True, eq=False)
class SceneTask:
    """One scene to be worked on.

    Attributes:
        index: Its place among the inputs.
        scene: The input.
        folder: The folder that was taken for it.
    """

    index: int
    scene: SceneInput
    folder: SceneFolder


def failed(scene: SceneInput, mistake: Exception, out: Path) -> Outcome:
    """The outcome of an input that failed; what nobody expected is logged with its place in the program."""
    if isinstance(mistake, FlameError | OSError):
        words = "\n".join(map(printable, str(mistake).splitlines()))
        full = isinstance(mistake, WriteError) and mistake.disk_full
        return Outcome(scene.shown, "failed", failure=words, disk_full=full)
    first = next(iter(str(mistake).splitlines()), "")
    words = f"{scene.shown}: unexpected {type(mistake).__name__}: {printable(first)}; see {FAILURE_LOG}"
    text = "".join(traceback.format_exception(mistake))
    # A log that cannot be written stops nothing; one write, so that processes do not write into each other's.
    with suppress(OSError), (out / FAILURE_LOG).open("a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {scene.shown}\n{text}\n")
    return Outcome(scene.shown, "failed", failure=words)


def work_on(task: SceneTask, job: Job) -> Outcome:
    """Detects in one scene, measures its plumes and writes its products."""
    try:
        if job.software != SOFTWARE:
            raise FlameError(f"{task.scene.shown}: this worker has {SOFTWARE}, but {job.software} asks; install that")
        return _detect(task.scene, task.folder, job)
    except Exception as mistake:
        return failed(task.scene, mistake, job.out)


def _detect(scene: SceneInput, folder: SceneFolder, job: Job) -> Outcome:
    with ExitStack() as opened:
        return _detect_in(scene, folder, job, opened)


def _detect_in(scene: SceneInput, folder: SceneFolder, job: Job, opened: ExitStack) -> Outcome:
    """Detects in one scene; `opened` frees its file."""
    remove_leftovers(folder.path)
    try:
        if not job.force and _is_finished(folder, scene, job):
            with suppress(KeyError, TypeError, ValueError, AttributeError):  # a damaged record: do it again
                return _outcome(scene, folder, folder.record, "kept")
        content = open_scene(scene.path, job.options)
        if isinstance(content, SceneFile):
            opened.enter_context(content)
        detector = job.detectors.for_bands(content.bands, str(scene.path))
        detection = detector.run(content)
        if isinstance(content, SceneFile):
            content.check_usable()
        _check_judged(scene, detection)
        measured = measure_scene(content, detection, folder.path.name, job.measure)
        marks = {
            "place": scene.place,
            "input_sha256": scene.sha256,
            "model_id": detector.identity.key,
            "options": job.options.facts(),
            "measured_with": job.measure_key,
        }
    except BaseException:
        folder.release()
        raise
    folder.begin({"source": scene.name, "place": scene.place})
    record = write_products(folder.path, scene.name, content, detection, detector, measured, job.products, marks=marks)
    return _outcome(scene, folder, record, "done")


_WHY_NOT = {
    Quality.NOT_FINITE: "NaN or infinity in a band",
    Quality.NO_SIGNAL: "no band above zero",
    Quality.SATURATED: "brighter than any ground, as in another unit",
    Quality.TOO_FEW: "too few usable pixels that differ to learn a background from",
    Quality.FAILED: "the inference failed",
}


def _check_judged(scene: SceneInput, detection: Detection) -> None:
    """Refuses a scene of which nothing was judged: without plumes is another thing than not looked at."""
    if not detection.usable.any():
        why = ", ".join(words for flag, words in _WHY_NOT.items() if flag in detection.flags) or "all are masked"
        raise FlameError(
            f"{scene.shown}: not judged: no pixel could be ({why}); "
            "check that it holds radiance, and its unit (--unit, --scale)"
        )


def _outcome(scene: SceneInput, folder: SceneFolder, record: Any, state: Literal["done", "kept"]) -> Outcome:
    saved = record.get("downlink")
    return Outcome(
        scene.shown,
        state,
        folder.path,
        int(record["plumes"]),
        str(record["model"]),
        float(record["seconds"]["total_s"]),
        None if saved is None else DataReduction(**saved),
        notes=tuple(printable(str(note)) for note in record.get("wind_notes", ())),
    )


def _is_finished(folder: SceneFolder, scene: SceneInput, job: Job) -> bool:
    """Whether an earlier run of this flame finished the same content with the same model and the same settings."""
    record = folder.record
    return (
        record.get("finished") is True
        and bool(record.get("usable_pixels"))
        and record.get("software") == SOFTWARE
        and record.get("model_id") in job.detectors.keys
        and record.get("options") == job.options.facts()
        and record.get("measured_with") == job.measure_key
        and (not job.products.downlink or "downlink" in record)
        and record.get("fields") == list(job.products.fields)
        and all((folder.path / name).is_file() for name in PRODUCTS)
        and record.get("input_sha256") == scene.sha256
    )
