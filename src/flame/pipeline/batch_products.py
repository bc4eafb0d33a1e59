"""Products over many scenes, from their files: index page, merged plumes, STAC collection. One scene at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flame.errors import FlameError
from flame.pipeline.scene_folders import RECORD
from flame.pipeline.scene_products import PAGE, PLUMES, SOFTWARE, remove_other_fields
from flame.products.fields import FIELD_SETS, field_columns, field_files
from flame.products.geojson import read_features
from flame.products.index_page import IndexEntry, write_index_page
from flame.products.stac import COLLECTION, ITEM, write_collection
from flame.products.tables import renamed_features, write_csv, write_features
from flame.records import RecordError, read_json

__all__ = ["BATCH_FILES", "BatchScene", "read_entry", "write_batch"]

_TABLE = "plumes.csv"
BATCH_FILES = (
    PAGE,
    PLUMES,
    _TABLE,
    COLLECTION,
    *(file for name in FIELD_SETS for file in field_files(name)),
)
"""Files in the folder of a batch; no scene's folder has such a name."""


@dataclass(frozen=True)
class BatchScene:
    """One input of a batch.

    Attributes:
        title: Its name for people.
        folder: Where its products are; None if there are none.
        failure: Why there is nothing.
    """

    title: str
    folder: Path | None = None
    failure: str | None = None


def write_batch(
    out: Path, scenes: Sequence[BatchScene], fields: Sequence[str] = (), title: str = "Methane plumes"
) -> None:
    """Writes the products over all scenes of a batch.

    Args:
        out: The folder that holds the scenes' folders.
        scenes: What became of each input.
        fields: Other products under whose names the plumes are written too.
        title: Headline of the page.

    Raises:
        WriteError: If a file cannot be written.
    """
    remove_other_fields(out, fields)
    done = list(dict.fromkeys(scene.folder for scene in scenes if scene.folder is not None))
    plumes = write_features(out / PLUMES, _features(done))
    write_csv(out / _TABLE, _features(done))
    files = {PLUMES: "plumes of all scenes", _TABLE: "the same as a table"}
    for name in fields:
        names = field_files(name)
        write_features(out / names[0], renamed_features(_features(done), name))
        write_csv(out / names[1], renamed_features(_features(done), name), field_columns(name))
        files |= dict.fromkeys(names, "plumes of all scenes under those names")
    if write_collection(out / COLLECTION, _items(done), SOFTWARE):
        files[COLLECTION] = "STAC collection of the scenes"
    failed = sum(scene.failure is not None for scene in scenes)
    summary = f"{plumes} plume{'' if plumes == 1 else 's'} in {len(done)} scene{'' if len(done) == 1 else 's'}"
    summary += f"; {failed} input{'' if failed == 1 else 's'} failed." if failed else "."
    write_index_page(out / PAGE, title, summary, _entries(scenes), files, SOFTWARE)


def _features(folders: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    """Plumes of all scenes; a damaged file is left out here and told on the page."""
    for folder in folders:
        try:
            yield from read_features(folder / PLUMES)
        except (RecordError, OSError):
            continue


def _items(folders: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for folder in folders:
        try:
            item = read_json(folder / ITEM, "a STAC item")
        except (RecordError, OSError):
            continue
        if isinstance(item, dict) and isinstance(item.get("properties"), dict) and "datetime" in item["properties"]:
            yield f"./{folder.name}/{ITEM}", item


def _entries(scenes: Sequence[BatchScene]) -> Iterator[IndexEntry]:
    """Lines of the page; inputs of the same content share a folder, and a line."""
    shown: set[Path] = set()
    for scene in scenes:
        failure = scene.failure
        if scene.folder is not None:
            if scene.folder in shown:
                continue
            shown.add(scene.folder)
            try:
                yield read_entry(scene.folder)
                continue
            except (FlameError, OSError) as lost:
                failure = str(lost)
        yield IndexEntry(Path(scene.title).name or scene.title, failure=failure)


def read_entry(folder: Path) -> IndexEntry:
    """A scene's line on the page, from its files: nothing of a detection must be kept for it.

    Raises:
        RecordError: If a file is missing or damaged.
    """
    facts = read_json(folder / RECORD, "the record of a detection")
    plumes = [feature["properties"] for feature in read_features(folder / PLUMES)]
    numbers = ("usable_pixels", "rows", "columns")
    words = ("time", "sensor")
    whole = (
        isinstance(facts, dict)
        and isinstance(facts.get("source"), str)
        and all(isinstance(facts.get(name), int) for name in numbers)
        and all(isinstance(facts.get(name), str | None) for name in words)
        and all(isinstance(value, _PLAIN) for plume in plumes for name, value in plume.items() if name in _SHOWN)
    )
    if not whole:
        raise RecordError(f"{folder}: the products are damaged; run it again with --force")
    return IndexEntry(facts["source"], f"{folder.name}/{PAGE}", facts, plumes)


_PLAIN = int | float | None
_SHOWN = frozenset(
    (
        "rate_kg_h",
        "rate_sigma_kg_h",
        "wind_m_s",
        "mass_kg",
        "mass_sigma_kg",
        "peak_ppm_m",
        "integrated_ppm_m_px",
        "spectral_p_value",
    )
) | {"source_longitude", "source_latitude"}
