"""Backgrounds on disk: one file for a pool, read back to the byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flame.errors import FlameError
from flame.files import whole_file
from flame.physics import BandSet
from flame.simulate.backgrounds import Background

__all__ = ["load_backgrounds", "save_backgrounds"]

_ARRAYS = ("spectra", "maps", "valid", "visible_ppm_m")
_FACTS = ("path_factor", "pixel_m", "sensor", "name")
_VERSION = 1


def save_backgrounds(path: Path | str, backgrounds: Sequence[Background]) -> Path:
    """Writes a pool of backgrounds, about 1.5 MB each for 128 x 128 pixels."""
    arrays: dict[str, np.ndarray] = {}
    facts = []
    for index, background in enumerate(backgrounds):
        arrays |= {f"{name}_{index}": getattr(background, name) for name in _ARRAYS}
        arrays[f"grid_{index}"] = np.stack([background.grid.centres_nm, background.grid.fwhm_nm])
        facts.append({name: getattr(background, name) for name in _FACTS})
    arrays["facts"] = np.array(json.dumps({"version": _VERSION, "backgrounds": facts}))
    path = Path(path)
    with whole_file(path) as partial, Path(partial).open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    return path


def load_backgrounds(path: Path | str) -> tuple[Background, ...]:
    """Reads a pool of backgrounds.

    Raises:
        FlameError: If the file is missing or holds something else.
    """
    path = Path(path)
    if not path.is_file():
        raise FlameError(f"{path}: no such file; make it with save_backgrounds")
    try:
        with np.load(path, allow_pickle=False) as stored:
            facts = json.loads(str(stored["facts"]))
            if facts["version"] != _VERSION:
                raise FlameError(f"{path}: backgrounds of version {facts['version']}, not {_VERSION}; make them anew")
            return tuple(
                Background(
                    grid=BandSet(*stored[f"grid_{index}"]),
                    **{name: stored[f"{name}_{index}"] for name in _ARRAYS},
                    **entry,
                )
                for index, entry in enumerate(facts["backgrounds"])
            )
    except (OSError, ValueError, KeyError, EOFError) as reason:
        raise FlameError(f"{path}: holds no backgrounds ({reason}); make them with save_backgrounds") from reason
