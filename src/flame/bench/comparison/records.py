"""What is kept of a comparison: one small JSON a run, maps of a few tiles beside it, and nothing else.

<out>/<scale>/data.json             which tiles
<out>/<scale>/panels.npz            the tiles that are shown
<out>/<scale>/runs/NAME-seed0.json  figures of a run
<out>/<scale>/maps/NAME-seed0.npz   its maps of the tiles that are shown
<out>/<scale>/latency.json          the time of every method
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from flame.bench.comparison.tiles import Panel
from flame.errors import FlameError
from flame.files import whole_file, write_json

__all__ = ["RecordError", "Records", "stem"]


class RecordError(FlameError):
    """Kept files that cannot be read, or that belong to other tiles."""


def stem(method: str, seed: int) -> str:
    """Name of a run's files."""
    return f"{method}-seed{seed}"


@dataclass(frozen=True)
class Records:
    """The kept files of one scale.

    Attributes:
        folder: `<out>/<scale>`.
    """

    folder: Path

    def run_file(self, method: str, seed: int) -> Path:
        """Where a run's figures are, or will be."""
        return self.folder / "runs" / f"{stem(method, seed)}.json"

    def has(self, method: str, seed: int) -> bool:
        """Whether a run is done."""
        return self.run_file(method, seed).is_file()

    def keep_run(self, record: Mapping[str, Any], maps: Mapping[str, np.ndarray] | None = None) -> None:
        """Keeps a run; its figures last, since they are the sign that it is done."""
        method, seed = record["method"], record["seed"]
        if maps:
            _write_arrays(self.folder / "maps" / f"{stem(method, seed)}.npz", maps)
        write_json(self.run_file(method, seed), record)

    def runs(self) -> dict[str, list[dict[str, Any]]]:
        """Every kept run, by method, in the order of their seeds."""
        found: dict[str, list[dict[str, Any]]] = {}
        for file in sorted((self.folder / "runs").glob("*.json")):
            record = _read(file)
            found.setdefault(record["method"], []).append(record)
        return {method: sorted(rows, key=lambda row: row["seed"]) for method, rows in found.items()}

    def maps(self, method: str, seed: int = 0) -> dict[str, np.ndarray] | None:
        """Maps of a run: arrays named `<what>/<kind of tile>`; None if there are none."""
        return _read_arrays(self.folder / "maps" / f"{stem(method, seed)}.npz")

    def keep_panels(self, panels: list[Panel]) -> None:
        """Keeps the tiles that are shown."""
        arrays = {f"{name}/{panel.kind}": _small(getattr(panel, name)) for panel in panels for name in _LAYERS}
        _write_arrays(self.folder / "panels.npz", arrays)

    def panels(self) -> list[Panel]:
        """The tiles that are shown; none before the first run."""
        arrays = _read_arrays(self.folder / "panels.npz") or {}
        kinds = [name.partition("/")[2] for name in arrays if name.startswith("label/")]
        found = []
        for kind in kinds:
            layers = {name: arrays[f"{name}/{kind}"] for name in _LAYERS}
            layers["rgb"] = layers["rgb"].astype(np.float32) / np.float32(255)
            found.append(Panel(kind, str(layers.pop("name")), **layers))
        return found

    def take_data(self, facts: Mapping[str, Any]) -> None:
        """Says which tiles this folder's runs are of.

        Raises:
            RecordError: If it holds runs on other tiles.
        """
        file = self.folder / "data.json"
        if file.is_file() and _read(file) != dict(facts):
            raise RecordError(
                f"{self.folder}: holds runs on other tiles ({_read(file)}) than these ({dict(facts)}); they do not "
                "belong in one table, choose another --out"
            )
        if not file.is_file():
            write_json(file, dict(facts))

    def data(self) -> dict[str, Any]:
        """Which tiles; empty before the first run."""
        file = self.folder / "data.json"
        return _read(file) if file.is_file() else {}

    def keep_latency(self, report: Mapping[str, Any]) -> None:
        """Keeps the times."""
        write_json(self.folder / "latency.json", dict(report))

    def latency(self) -> dict[str, Any]:
        """The times; empty if none were measured."""
        file = self.folder / "latency.json"
        return _read(file) if file.is_file() else {}


_LAYERS = tuple(entry.name for entry in fields(Panel) if entry.name != "kind")


def _small(layer: Any) -> np.ndarray:
    """A layer as it is kept: colours in 8 bits."""
    array = np.asarray(layer)
    return (255 * array).round().astype(np.uint8) if array.dtype == np.float32 else array


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise RecordError(f"{file}: cannot be read ({failure}); delete it to have it made again") from None
    return content


def _write_arrays(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with whole_file(file) as partial, partial.open("wb") as target:
        np.savez_compressed(target, **arrays)  # type: ignore[arg-type]


def _read_arrays(file: Path) -> dict[str, np.ndarray] | None:
    if not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError) as failure:
        raise RecordError(f"{file}: cannot be read ({failure}); delete it and its run's JSON to run it again") from None
