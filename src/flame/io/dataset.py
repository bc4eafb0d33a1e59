"""A split of a data set, tile by tile; a damaged tile does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flame.errors import FlameError
from flame.io.errors import ReaderError
from flame.io.index import TileRecord
from flame.tile import LabelledTile

__all__ = ["Dataset", "TileFailure"]


@dataclass(frozen=True)
class TileFailure:
    """A tile that could not be read, and why."""

    name: str
    message: str


@dataclass(frozen=True)
class Dataset:
    """The tiles of one split, read when asked for.

    Attributes:
        root: The folder that holds the tile folders.
        records: The tiles listed.
        read_folder: Reads one tile folder; must be importable, so that tiles can be read in several processes.
    """

    root: Path
    records: tuple[TileRecord, ...]
    read_folder: Callable[[Path], LabelledTile]
    _deeper: dict[str, Path] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.records)

    def folder(self, record: TileRecord) -> Path:
        """The tile's folder: in the root, or one level deeper as in STARCOP's split downloads."""
        direct = self.root / record.name
        if direct.is_dir():
            return direct
        if not self._deeper:
            self._deeper.update({path.name: path for path in self.root.glob("*/*") if path.is_dir()})
        if record.name not in self._deeper:
            raise ReaderError(
                direct, "the tile is listed but its folder is not there", "download it or remove its row from the CSV"
            )
        return self._deeper[record.name]

    def read(self, record: TileRecord) -> LabelledTile:
        """Reads one tile; its emission rate comes from the CSV file unless the tile itself says.

        Raises:
            ReaderError: If it cannot be read.
        """
        folder = self.folder(record)
        try:
            tile = self.read_folder(folder)
        except ReaderError:
            raise
        except FlameError as failure:
            raise ReaderError(folder, str(failure), "download the tile again or remove its row from the CSV") from None
        return tile if tile.emission_kg_h is not None else replace(tile, emission_kg_h=record.emission_kg_h)

    def tiles(self, failures: list[TileFailure] | None = None) -> Iterator[LabelledTile]:
        """Reads all tiles in the list's order and goes on past those that cannot be read.

        Args:
            failures: Takes the tiles that could not be read.

        Raises:
            ReaderError: After the last tile, if some could not be read and `failures` was not given, or if none could.
        """
        lost: list[TileFailure] = []
        for record in self.records:
            try:
                tile = self.read(record)
            except ReaderError as failure:
                lost.append(TileFailure(record.name, str(failure)))
                continue
            yield tile
        if failures is not None:
            failures.extend(lost)
        if lost and (failures is None or len(lost) == len(self.records)):
            raise _summary(self.root, lost, len(self.records))


def _summary(root: Path, lost: Sequence[TileFailure], listed: int) -> ReaderError:
    lines = "".join(f"\n  {failure.message}" for failure in lost[:5])
    more = f"\n  and {len(lost) - 5} more" if len(lost) > 5 else ""
    return ReaderError(root, f"{len(lost)} of {listed} tiles could not be read", f"fix or remove them:{lines}{more}")
