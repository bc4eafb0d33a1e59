"""A split of a STARCOP folder, tile by tile; a damaged tile does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flame.io.errors import ReaderError
from flame.io.starcop.index import TileRecord, find_index, read_index
from flame.io.starcop.reader import read_tile
from flame.scene import SceneError
from flame.tile import LabelledTile, TileError

__all__ = ["Dataset", "TileFailure", "read_dataset"]


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
        pad_to: Smaller tiles are padded to this size with invalid pixels; 512 for STARCOP.
    """

    root: Path
    records: tuple[TileRecord, ...]
    pad_to: int | None = None
    _folders: dict[str, Path] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.records)

    def folder(self, record: TileRecord) -> Path:
        """The tile's folder: in the root, or one level deeper as in STARCOP's split downloads."""
        direct = self.root / record.name
        if direct.is_dir():
            return direct
        if not self._folders:
            self._folders.update({path.name: path for path in self.root.glob("*/*/") if path.is_dir()})
        if record.name not in self._folders:
            raise ReaderError(
                direct, "the tile is listed but its folder is not there", "download it or remove its row from the CSV"
            )
        return self._folders[record.name]

    def read(self, record: TileRecord) -> LabelledTile:
        """Reads one tile; its emission rate comes from the CSV file unless the tile itself says.

        Raises:
            ReaderError: If it cannot be read.
        """
        folder = self.folder(record)
        try:
            tile = read_tile(folder, self.pad_to)
        except (SceneError, TileError) as failure:
            raise ReaderError(folder, str(failure), "download the tile again or remove its row from the CSV") from None
        return tile if tile.emission_kg_h is not None else replace(tile, emission_kg_h=record.emission_kg_h)

    def tiles(self, failures: list[TileFailure] | None = None) -> Iterator[LabelledTile]:
        """Reads all tiles in the list's order and goes on past those that cannot be read.

        Args:
            failures: Takes the tiles that could not be read.

        Raises:
            ReaderError: After the last tile, if some could not be read and `failures` was not given, or if none could.
        """
        lost: list[TileFailure] = [] if failures is None else failures
        before = len(lost)
        for record in self.records:
            try:
                tile = self.read(record)
            except ReaderError as failure:
                lost.append(TileFailure(record.name, str(failure)))
                continue
            yield tile
        if len(lost) > before and (failures is None or len(lost) - before == len(self.records)):
            raise _summary(self.root, lost[before:], len(self.records))


def _summary(root: Path, lost: Sequence[TileFailure], listed: int) -> ReaderError:
    lines = "".join(f"\n  {failure.message}" for failure in lost[:5])
    more = f"\n  and {len(lost) - 5} more" if len(lost) > 5 else ""
    return ReaderError(root, f"{len(lost)} of {listed} tiles could not be read", f"the others are done{lines}{more}")


def read_dataset(root: Path | str, split: str = "train", pad_to: int | None = None) -> Dataset:
    """Opens a split of a STARCOP folder.

    Args:
        root: The folder with the CSV files and the tile folders.
        split: `train` or `test`.
        pad_to: Size to pad smaller tiles to; 512 for STARCOP.

    Raises:
        ReaderError: If the split has no usable CSV file.
    """
    root = Path(root)
    return Dataset(root, tuple(read_index(find_index(root, split), split)), pad_to)
