"""The CSV files that list a split's tiles, in STARCOP's columns and in those of its successors."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from flame.files import whole_file
from flame.io.budget import read_text
from flame.io.errors import ReaderError
from flame.io.names import SAFE_NAME, acquisition_time, flight_line, is_safe_name
from flame.tile import LabelledTile

__all__ = ["TileRecord", "find_index", "read_index", "write_index"]

COLUMNS = (
    "id",
    "qplume",
    "name",
    "folder",
    "datetime",
    "window_col_off",
    "window_row_off",
    "window_width",
    "window_height",
    "subset",
    "difficulty",
    "has_plume",
)
"""STARCOP's columns that are written; its own files also have candidate_id, date, label_path and window_labels."""

_TRUE, _FALSE = {"true", "1", "1.0"}, {"false", "0", "0.0"}


@dataclass(frozen=True)
class TileRecord:
    """One row of a split's CSV file.

    Attributes:
        name: The tile's identifier, STARCOP's `id`; also its folder's name.
        split: The split the row belongs to, `train` or `test`; STARCOP's `subset`.
        has_plume: Whether the tile was annotated with a plume.
        emission_kg_h: Emission rate of the plume, 0 for none; STARCOP's `qplume`. None if the file does not say.
        difficulty: STARCOP's `easy` or `hard` for plume tiles, `hard` or `random` for others.
        shape: Rows and columns of the tile.
    """

    name: str
    split: str
    has_plume: bool
    emission_kg_h: float | None = None
    difficulty: str = ""
    shape: tuple[int, int] | None = None

    @property
    def flight_line(self) -> str | None:
        """The flight line the tile was cut from, if its name tells."""
        return flight_line(self.name)

    @classmethod
    def of(cls, tile: LabelledTile, split: str, difficulty: str = "") -> TileRecord:
        """The row that describes a tile."""
        return cls(tile.name, split, tile.has_plume, tile.emission_kg_h, difficulty, tile.scene.shape)


def find_index(root: Path | str, split: str) -> Path:
    """The CSV file of a split: `<split>.csv`, or the only `<split>_*.csv`, as in STARCOP's smaller downloads.

    With several such files, the whole name without `.csv` chooses one: `train_easy`.
    """
    root = Path(root)
    exact = root / f"{split}.csv"
    if exact.is_file():
        return exact
    others = sorted(path for path in root.glob(f"{split}_*.csv") if "_tiled_" not in path.name)
    if len(others) == 1:
        return others[0]
    if others:
        listed = ", ".join(path.name for path in others)
        raise ReaderError(exact, f"not there, but {listed} are", f"name one of them, as in split '{others[0].stem}'")
    raise ReaderError(exact, f"no list of the {split} tiles", f"put {split}.csv into {root}")


def read_index(path: Path | str, split: str | None = None) -> list[TileRecord]:
    """Reads a split's CSV file.

    Args:
        path: The file; it needs the columns `id` (or `event_id`, which then wins) and `has_plume`, and takes `qplume`,
            `subset` and `difficulty`.
        split: Its split, if the file has no `subset` column; by default the first word of the file's name.

    Raises:
        ReaderError: If the file is empty, lacks a column, lists a tile twice, or a value cannot be understood.
    """
    path = Path(path)
    if not path.exists():
        raise ReaderError(path, "no such file", "give the CSV file that lists the tiles")
    try:
        return _records(path, StringIO(read_text(path), newline=""), split)
    except csv.Error as failure:
        raise ReaderError(path, f"is no CSV file ({failure})", "download it again") from failure


def _records(path: Path, text: StringIO, split: str | None) -> list[TileRecord]:
    rows = csv.DictReader(text)
    columns = rows.fieldnames or ()
    name_column = "event_id" if "event_id" in columns else "id"
    missing = [column for column in (name_column, "has_plume") if column not in columns]
    if not columns:
        raise ReaderError(path, "is empty", "download it again, or write it with flame.io.starcop.write_index")
    if missing:
        raise ReaderError(
            path, f"lacks the column {' and '.join(missing)} (it has {', '.join(columns)})", "add the column"
        )
    records = [_record(path, number, row, name_column, split) for number, row in enumerate(rows, start=2)]
    if not records:
        raise ReaderError(path, "lists no tile", "download it again, or write it with flame.io.starcop.write_index")
    names = [record.name for record in records]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ReaderError(path, f"lists {twice[0]} more than once", "remove the repeated row")
    return records


def _record(path: Path, number: int, row: dict[str, str], name_column: str, split: str | None) -> TileRecord:
    def wrong(column: str, expected: str) -> ReaderError:
        return ReaderError(path, f"line {number}: {column} is '{row.get(column)}'", f"expected {expected}")

    name = (row.get(name_column) or "").strip()
    if not is_safe_name(name):
        raise wrong(name_column, f"the name of a tile folder, {SAFE_NAME}")
    plume = (row.get("has_plume") or "").strip().lower()
    if plume not in _TRUE | _FALSE:
        raise wrong("has_plume", "True or False")
    rate = (row.get("qplume") or "").strip()
    try:
        emission = float(rate) if rate else None
    except ValueError:
        raise wrong("qplume", "an emission rate in kg/h") from None
    if emission is not None and not 0 <= emission < float("inf"):
        emission = None  # NaN or negative: not known.
    subset = (row.get("subset") or "").strip() or split or path.stem.split("_")[0]
    return TileRecord(name, subset, plume in _TRUE, emission, (row.get("difficulty") or "").strip())


def write_index(root: Path | str, split: str, records: Iterable[TileRecord]) -> Path:
    """Writes `<root>/<split>.csv` with STARCOP's columns, all or nothing.

    Args:
        root: The data set's folder, which holds the tile folders.
        split: `train` or `test`.
        records: The split's tiles, in the order to be written.
    """
    path, records = Path(root) / f"{split}.csv", list(records)
    for record in records:
        if not is_safe_name(record.name):
            raise ReaderError(path, f"'{record.name}' is not safe as a folder name", f"use {SAFE_NAME}")
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for record in records:
            time = acquisition_time(record.name)
            rows, cols = record.shape or ("", "")
            writer.writerow(
                {
                    "id": record.name,
                    "qplume": "" if record.emission_kg_h is None else repr(float(record.emission_kg_h)),
                    "name": record.flight_line or record.name,
                    "folder": record.name,
                    "datetime": time.isoformat(sep=" ") if time else "",
                    "window_col_off": 0,
                    "window_row_off": 0,
                    "window_width": cols,
                    "window_height": rows,
                    "subset": split,
                    "difficulty": record.difficulty,
                    "has_plume": record.has_plume,
                }
            )
    return path
