"""Scenes to products: what `flame detect` does. Files become detections, detections files, and files the report."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flame.errors import FlameError
from flame.files import WriteError, printable, require_writable
from flame.io import OpenOptions, open_scene
from flame.onboard import Detectors
from flame.onboard.downlink import DataReduction
from flame.pipeline.batch_products import BATCH_FILES, BatchScene, write_batch
from flame.pipeline.measure import MeasureSettings, measure_scene
from flame.pipeline.scene_folders import SceneFolder, SceneInput, claim_folder
from flame.pipeline.scene_products import PRODUCTS, SOFTWARE, ProductOptions, write_products
from flame.scene import SceneFile

__all__ = ["FAILURE_LOG", "REPORT", "Detectors", "Outcome", "detect_files", "write_scene_report"]

REPORT = "report.html"
FAILURE_LOG = "failures.log"
"""Beside the report: where in the program each unexpected failure happened."""

_RESERVED = frozenset({*BATCH_FILES, FAILURE_LOG})


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
    """

    source: str
    state: Literal["done", "kept", "failed", "not tried"]
    folder: Path | None = None
    plumes: int = 0
    model: str = ""
    seconds: float = 0.0
    downlink: DataReduction | None = None
    failure: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether its products are there."""
        return self.failure is None


@dataclass(frozen=True)
class _Job:
    """What is asked of every input alike."""

    options: OpenOptions
    measure: MeasureSettings
    measure_key: str
    products: ProductOptions
    force: bool


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
) -> list[Outcome]:
    """Detects in each input and writes its products, and in the end one report.

    An input that fails, of whatever, does not stop the others. If the batch itself is stopped (Ctrl-C, a full disk),
    the report tells of what was done till then. Inputs that an earlier run finished are kept as they are.

    Args:
        inputs: Scene files or folders.
        out: Folder for the products, one folder per input, and report.html.
        detectors: Which model and engine.
        done: Called after each input.
        options: Unit and masks, for all inputs.
        measure: Winds, and how plumes are measured.
        downlink: Whether to write downlink packets too.
        fields: Other products under whose field names the plumes are written too.
        force: Whether to do finished inputs again.

    Raises:
        WindError: If a wind file is not there; before the work.
        WriteError: If `out` cannot be written to; before the work, or for the report after it.
    """
    require_writable(out)
    measure = measure or MeasureSettings()
    job = _Job(options or OpenOptions(), measure, measure.key(), ProductOptions(downlink, tuple(fields)), force)
    outcomes: list[Outcome] = []
    try:
        for path in inputs:
            outcome, stop = _attempt(SceneInput(path), out, detectors, job)
            outcomes.append(outcome)
            done(outcome)
            if stop:
                break
    finally:
        why = "not tried: the batch was stopped"
        rest = [SceneInput(path).shown for path in inputs[len(outcomes) :]]
        outcomes += [Outcome(source, "not tried", failure=why) for source in rest]
        write_scene_report(out / REPORT, outcomes, fields)
    return outcomes


def _attempt(scene: SceneInput, out: Path, detectors: Detectors, job: _Job) -> tuple[Outcome, bool]:
    """One input, and whether the batch must stop: where the disk is full, the others would only fail later."""
    try:
        return _detect(scene, out, detectors, job), False
    except (FlameError, OSError) as mistake:
        stop = isinstance(mistake, WriteError) and mistake.disk_full
        words = "\n".join(map(printable, str(mistake).splitlines()))
    except Exception as mistake:
        stop = False
        first = next(iter(str(mistake).splitlines()), "")
        words = f"{scene.shown}: unexpected {type(mistake).__name__}: {printable(first)}; see {FAILURE_LOG}"
        _log(out / FAILURE_LOG, scene.shown)
    return Outcome(scene.shown, "failed", failure=words), stop


def _detect(scene: SceneInput, out: Path, detectors: Detectors, job: _Job) -> Outcome:
    folder = claim_folder(out, scene, _RESERVED)
    try:
        if not job.force and _is_finished(folder, scene, detectors, job):
            with suppress(KeyError, TypeError, ValueError, AttributeError):  # a damaged record: do it again
                return _outcome(scene, folder, folder.record, "kept")
        content = open_scene(scene.path, job.options)
        detector = detectors.for_bands(content.bands, str(scene.path))
        detection = detector.run(content)
        if isinstance(content, SceneFile):
            content.check_usable()
        measured = measure_scene(content, detection, folder.path.name, job.measure)
        marks = {
            "place": scene.place,
            "input_sha256": scene.sha256,
            "model_id": detector.identity.key,
            "options": repr(job.options),
            "measured_with": job.measure_key,
        }
    except BaseException:
        folder.release()
        raise
    folder.begin({"source": scene.name, "place": scene.place})
    record = write_products(folder.path, scene.name, content, detection, detector, measured, job.products, marks=marks)
    return _outcome(scene, folder, record, "done")


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
    )


def _is_finished(folder: SceneFolder, scene: SceneInput, detectors: Detectors, job: _Job) -> bool:
    """Whether an earlier run of this flame finished the same content with the same model."""
    record = folder.record
    return (
        record.get("finished") is True
        and record.get("software") == SOFTWARE
        and record.get("model_id") in detectors.keys
        and record.get("options") == repr(job.options)
        and record.get("measured_with") == job.measure_key
        and (not job.products.downlink or "downlink" in record)
        and record.get("fields") == list(job.products.fields)
        and all((folder.path / name).is_file() for name in PRODUCTS)
        and record.get("input_sha256") == scene.sha256
    )


def _log(path: Path, source: str) -> None:
    """Adds the failure that is being handled to the log; a log that cannot be written stops nothing."""
    with suppress(OSError), path.open("a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {source}\n{traceback.format_exc()}\n")


def write_scene_report(path: Path, outcomes: Sequence[Outcome], fields: Sequence[str] = ()) -> None:
    """The products over all inputs, from their files; `path` is the page among them."""
    scenes = [BatchScene(outcome.source, outcome.folder, outcome.failure) for outcome in outcomes]
    write_batch(path.parent, scenes, fields)
