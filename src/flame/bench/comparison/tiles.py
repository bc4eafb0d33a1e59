"""The tiles of a comparison: a data set of the user's, or simulated ones, half of them with a plume as in STARCOP."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32

from flame.bench.comparison.scales import Scale
from flame.errors import FlameError
from flame.files import drop_torn_line, write_json
from flame.io import TileRecord, starcop
from flame.pipeline.datasets import SimulationPlan
from flame.records import read_json
from flame.training.batches import TileSequence

__all__ = ["PANEL_KINDS", "Panel", "TilesError", "data_facts", "panel_numbers", "panels_of", "simulated_set"]

_MOST_DRAWS = 50_000
_JOURNAL = "drawn.jsonl"
"""A line for each tile that is whole: its number, and its row in the index."""
_LEAST_WEAK_PIXELS = 12
"""Fainter labels cannot be seen in a panel."""

PANEL_KINDS = ("strong", "less strong", "middle", "weak", "empty")
"""The test tiles that are shown: by emission rate, or by labelled pixels where no rate is known."""


class TilesError(FlameError):
    """Tiles of another scale, or a preset that has too few plumes."""


def simulated_set(scale: Scale, folder: Path, tell: Callable[[str], None]) -> Path:
    """The simulated data set of a scale, drawn if it is not there: tiles in order, until each kind is full.

    A tile of the preset that is smaller than STARCOP's rarely has a plume in it; so tiles are drawn until there are
    enough of both kinds. A stopped draw goes on where it was; the same scale gives the same bytes.

    Args:
        scale: What to draw.
        folder: Where to.
        tell: Takes a line of progress.

    Raises:
        TilesError: If the folder holds the tiles of another scale, or plumes are too rare.
    """
    facts, file = scale.tile_facts(), folder / "scale.json"
    if file.is_file() and read_json(file, "the scale of a comparison") != facts:
        raise TilesError(f"{folder}: holds tiles of another scale; choose another --work")
    write_json(file, facts)
    if (folder / "test.csv").is_file():
        return folder
    splits = {"train": scale.train_tiles, "test": scale.test_tiles}
    wanted = {(split, plume): (tiles + plume) // 2 for split, tiles in splits.items() for plume in (True, False)}
    tell(f"drawing {sum(wanted.values())} tiles of preset {scale.preset}, {scale.size} x {scale.size} pixels")
    kept = _kept_so_far(folder)
    for _, record in kept:
        wanted[record.split, record.has_plume] -= 1
    plan = SimulationPlan(_MOST_DRAWS, scale.seed, scale.preset, scale.size)
    for index in range(kept[-1][0] + 1 if kept else 0, _MOST_DRAWS):
        if not any(wanted.values()):
            break
        tile = plan.draw(index).tile
        kind = next((kind for kind, left in wanted.items() if left and kind[1] == tile.has_plume), None)
        if kind is None:
            continue
        wanted[kind] -= 1
        starcop.write_tile(tile, folder / tile.name)
        record = TileRecord.of(tile, kind[0])
        kept.append((index, record))
        with (folder / _JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(json.dumps([index, asdict(record)]) + "\n")
    if any(wanted.values()):
        raise TilesError(f"{_MOST_DRAWS} tiles of preset {scale.preset} hold too few plumes; take larger tiles")
    for split in splits:
        starcop.write_index(folder, split, [record for _, record in kept if record.split == split])
    return folder


def _kept_so_far(folder: Path) -> list[tuple[int, TileRecord]]:
    """Tiles of an earlier draw, with their numbers; a line that was cut off by its end is left out."""
    found, journal = [], folder / _JOURNAL
    drop_torn_line(journal)
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else ():
        try:
            index, fields = json.loads(line)
        except json.JSONDecodeError:
            continue
        found.append((index, TileRecord(**{**fields, "shape": tuple(fields["shape"])})))
    return found


def data_facts(root: Path, scale: Scale, simulated: bool) -> dict[str, Any]:
    """What a record says about its tiles: enough to know whether two runs can stand in one table."""
    tiles = {split: len(starcop.read_dataset(root, split)) for split in ("train", "test")}
    source = f"simulated, preset {scale.preset}, seed {scale.seed}" if simulated else root.resolve().name
    return {"source": source, **tiles}


@dataclass(frozen=True, eq=False)
class Panel:
    """A test tile that is shown in figures.

    Attributes:
        kind: One of `PANEL_KINDS`.
        name: The tile's name.
        rgb: Its colours, each from 0 to 1; black if it has none.
        label: True where plume.
        valid: Pixels that count.
    """

    kind: str
    name: str
    rgb: Float32[np.ndarray, "3 row col"]
    label: Bool[np.ndarray, "row col"]
    valid: Bool[np.ndarray, "row col"]


def panel_numbers(tiles: TileSequence) -> dict[str, int]:
    """Which test tiles are shown, by kind; the choice looks at labels alone."""
    strength, empty = {}, None
    for number in range(len(tiles)):
        tile = tiles[number]
        pixels = int((tile.label & tile.valid).sum())
        if pixels == 0:
            empty = number if empty is None else empty
        elif pixels >= _LEAST_WEAK_PIXELS:
            strength[number] = (tile.emission_kg_h or 0.0, pixels)
    ordered = sorted(strength, key=lambda number: strength[number], reverse=True)
    chosen = {}
    if ordered:
        places = np.linspace(0, len(ordered) - 1, len(PANEL_KINDS) - 1).round().astype(int).tolist()
        chosen = {kind: ordered[place] for kind, place in zip(PANEL_KINDS, places, strict=False)}
    return chosen if empty is None else {**chosen, PANEL_KINDS[-1]: empty}


def panels_of(tiles: TileSequence) -> list[Panel]:
    """The tiles that are shown, with their colours stretched."""
    panels = []
    for kind, number in panel_numbers(tiles).items():
        tile = tiles[number]
        rgb = np.zeros((3, *tile.label.shape), np.float32)
        if tile.rgb is not None:
            seen = np.where(tile.valid, tile.rgb, np.nan)
            low, high = np.nanpercentile(seen, (1, 99), axis=(1, 2), keepdims=True)
            rgb = np.nan_to_num(np.clip((seen - low) / np.maximum(high - low, 1e-6), 0, 1)).astype(np.float32)
        panels.append(Panel(kind, tile.name, rgb, np.array(tile.label), np.array(tile.valid)))
    return panels
