"""Builds a cache, in several processes if asked, and goes on where an interrupted build stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from flame.errors import FlameError
from flame.io import TileFailure
from flame.physics import BandMismatchError
from flame.tile import LabelledTile
from flame.training.cache.format import NAME_BYTES, CacheError, CacheFile, CacheSpec, State, partial_path
from flame.training.cache.sources import Teacher, TileSource, describe, mag1c_sas_teacher
from flame.workers import end_with_parent

__all__ = ["BuildReport", "build_cache"]

BAND_TOLERANCE_NM = 1.0


@dataclass(frozen=True)
class BuildReport:
    """What a build did.

    Attributes:
        path: The cache.
        written: Tiles written by this run.
        kept: Tiles found whole from an earlier run.
        failures: Tiles that could not be made, and why.
    """

    path: Path
    written: int
    kept: int
    failures: tuple[TileFailure, ...]


def build_cache(
    path: Path | str,
    source: TileSource,
    teacher: Teacher | None = mag1c_sas_teacher,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> BuildReport:
    """Builds a cache; a tile that cannot be made is reported and left out.

    Args:
        path: The file to make. A finished cache of the same source is left as it is.
        source: The tiles; all of one size, with the same bands and layers.
        teacher: Computes the teacher map of a scene; None for a cache without one.
        workers: Processes to use; with more than one, `source` and `teacher` must be importable.
        progress: Called with the number of tiles done and the number of all, after each tile.

    Raises:
        CacheError: If no tile can be made, or the path holds a cache of something else.
    """
    path = Path(path)
    fingerprint = f"{source.fingerprint()}, teacher {describe(teacher)}"
    if path.is_file():
        return _report_finished(_open_same(path, fingerprint, writable=False), source)
    partial = partial_path(path)
    if partial.is_file():
        file = _open_same(partial, fingerprint, writable=True)
    else:
        file = CacheFile.create(partial, _learn_spec(path, source, teacher, fingerprint))
    todo = [slot for slot in range(len(source)) if not file.whole(slot)]
    kept = len(source) - len(todo)
    failures = []
    for count, (slot, problem) in enumerate(_fill(_Job(file, source, teacher), todo, workers), start=1):
        if problem is not None:
            failures.append(TileFailure(source.label(slot), problem))
        if progress is not None:
            progress(kept + count, len(source))
    if len(failures) == len(source):
        raise _nothing_made(path, failures)
    file.flush()
    partial.replace(path)
    return BuildReport(path, len(todo) - len(failures), kept, tuple(failures))


def _report_finished(file: CacheFile, source: TileSource) -> BuildReport:
    lost = np.flatnonzero(file.arrays["state"] != State.WRITTEN).tolist()
    why = "left out when the cache was built; delete the cache to try it again"
    return BuildReport(
        file.path, 0, len(source) - len(lost), tuple(TileFailure(source.label(slot), why) for slot in lost)
    )


def _open_same(path: Path, fingerprint: str, writable: bool) -> CacheFile:
    file = CacheFile(path, writable)
    if file.spec.source != fingerprint:
        raise CacheError(
            f"{path}: holds other tiles ({file.spec.source}) than those asked for ({fingerprint}); "
            "delete it or name another file"
        )
    return file


def _learn_spec(path: Path, source: TileSource, teacher: Teacher | None, fingerprint: str) -> CacheSpec:
    """Takes size, bands and layers from the first tile that can be made."""
    failures = []
    for index in range(len(source)):
        try:
            tile = source.tile(index)
        except FlameError as failure:
            failures.append(TileFailure(source.label(index), str(failure)))
            continue
        rows, cols = tile.scene.shape
        there = {"rgb": tile.scene.rgb, "teacher": teacher, "enhancement": tile.enhancement_ppm_m}
        layers = ("radiance", "label", "valid", *(name for name, value in there.items() if value is not None))
        return CacheSpec(len(source), rows, cols, tile.scene.bands, layers, fingerprint)
    raise _nothing_made(path, failures)


def _nothing_made(path: Path, failures: list[TileFailure]) -> CacheError:
    first = f", the first because of {failures[0].message}" if failures else ""
    return CacheError(f"{path}: none of {len(failures)} tiles could be made{first}; check the data set's folder")


@dataclass(frozen=True, eq=False)
class _Job:
    """What is needed to fill a slot; each worker process has one of its own."""

    file: CacheFile
    source: TileSource
    teacher: Teacher | None

    def fill(self, slot: int) -> str | None:
        """Makes a tile and writes it; gives the reason if it could not be made."""
        state = self.file.arrays["state"]
        state[slot] = State.EMPTY
        try:
            _write(self.file, slot, self.source.tile(slot), self.teacher)
        except FlameError as failure:
            self.file.arrays["crc"][slot] = 0
            state[slot] = State.FAILED
            return str(failure)
        self.file.arrays["crc"][slot] = self.file.checksum(slot)
        state[slot] = State.WRITTEN
        return None


_worker_job: list[_Job] = []


def _start_worker(path: Path, source: TileSource, teacher: Teacher | None) -> None:
    end_with_parent()
    _worker_job[:] = [_Job(CacheFile(path, writable=True), source, teacher)]


def _fill_in_worker(slot: int) -> str | None:
    return _worker_job[0].fill(slot)


def _fill(job: _Job, todo: list[int], workers: int) -> Iterator[tuple[int, str | None]]:
    """Fills slots in some order; gives each with None, or with the reason why its tile could not be made."""
    if workers <= 1 or len(todo) <= 1:
        for slot in todo:
            yield slot, job.fill(slot)
        return
    start = (job.file.path, job.source, job.teacher)
    with ProcessPoolExecutor(min(workers, len(todo)), get_context("spawn"), _start_worker, start) as pool:
        pending = {pool.submit(_fill_in_worker, slot): slot for slot in todo}
        for finished in as_completed(pending):
            yield pending[finished], finished.result()


def _write(file: CacheFile, slot: int, tile: LabelledTile, teacher: Teacher | None) -> None:
    scene, spec, name = tile.scene, file.spec, tile.name.encode()
    if scene.shape != (spec.rows, spec.cols):
        raise CacheError(
            f"{tile.name}: has {scene.shape[0]} x {scene.shape[1]} pixels, the cache {spec.rows} x {spec.cols}; "
            "open the data set with pad_to"
        )
    if not scene.bands.matches(spec.bands, BAND_TOLERANCE_NM):
        raise BandMismatchError(spec.bands, scene.bands, tile.name)
    if len(name) > NAME_BYTES:
        raise CacheError(f"{tile.name}: the name is longer than {NAME_BYTES} bytes; shorten it")
    layers = {
        "radiance": np.where(scene.valid, scene.radiance, np.float32(0)),
        "rgb": None if scene.rgb is None else np.where(scene.valid, scene.rgb, np.float32(0)),
        "label": tile.label,
        "valid": scene.valid,
        "teacher": teacher(scene) if teacher is not None else None,
        "enhancement": tile.enhancement_ppm_m,
    }
    for layer in spec.layers:
        if layers[layer] is None:
            raise CacheError(f"{tile.name}: has no {layer} as the cache's other tiles have; leave it out or add it")
        file.arrays[layer][slot] = layers[layer]
    file.arrays["name"][slot] = name
    file.arrays["emission_kg_h"][slot] = np.nan if tile.emission_kg_h is None else tile.emission_kg_h
