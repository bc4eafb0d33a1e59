"""`truth.json`: what the STARCOP layout has no file for, kept beside each tile that FLAME writes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from flame.io.errors import ReaderError
from flame.physics import BandSet
from flame.records import read_json, record
from flame.scene import Acquisition
from flame.tile import LabelledTile, PlumeSource

__all__ = ["Truth", "read_truth", "write_truth"]

VERSION = 1


@dataclass(frozen=True, eq=False)
class Truth:
    """The content of `truth.json`."""

    bands: BandSet
    acquisition: Acquisition
    emission_kg_h: float | None
    sources: tuple[PlumeSource, ...]


def write_truth(path: Path, tile: LabelledTile) -> None:
    """Writes what is exactly known about a tile."""
    acquisition = asdict(tile.scene.acquisition)
    del acquisition["source"]  # Where a file once stood says nothing to whoever gets the data set.
    acquisition["time"] = tile.scene.acquisition.time.isoformat() if tile.scene.acquisition.time else None
    content = {
        "version": VERSION,
        "bands": {
            "centres_nm": tile.scene.bands.centres_nm.tolist(),
            "fwhm_nm": tile.scene.bands.fwhm_nm.tolist(),
        },
        "acquisition": acquisition,
        "emission_kg_h": tile.emission_kg_h,
        "sources": [asdict(source) for source in tile.sources],
    }
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_truth(path: Path) -> Truth | None:
    """Reads it back; None if the tile has none, as STARCOP's own."""
    if not path.exists():
        return None
    try:
        content: Any = read_json(path, "the truth of a simulated tile")
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']}, expected {VERSION}")
        time = content["acquisition"].pop("time")
        acquisition = record(Acquisition, content["acquisition"], "acquisition")
        return Truth(
            BandSet(np.array(content["bands"]["centres_nm"], float), np.array(content["bands"]["fwhm_nm"], float)),
            replace(acquisition, time=datetime.fromisoformat(time)) if time else acquisition,
            _number(content["emission_kg_h"]),
            tuple(record(PlumeSource, source, "sources") for source in content["sources"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as failure:
        raise ReaderError(
            path, f"is damaged or of another version ({failure!r})", "simulate the tile again"
        ) from failure


def _number(value: object) -> float | None:
    """A finite number or nothing; whatever else is a mistake in the file."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} where a number should be")
    return float(value)
