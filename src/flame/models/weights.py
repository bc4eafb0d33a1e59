"""A trained model as one safetensors file: tensors, with settings, bands and provenance in its header. Never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from flame.errors import FlameError
from flame.files import write_whole
from flame.models.flame import Flame
from flame.models.settings import FlameSettings
from flame.physics import BandSet, unit_absorption
from flame.records import parse_json

__all__ = ["StoredModel", "WeightsError", "load_model", "save_model"]

FORMATS = ("flame-model-1", "flame-model-2")
"""What can be read; the last is written. The first had the settings of the preparation beside the network's."""


class WeightsError(FlameError):
    """A model file that cannot be read."""


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model read from a file, in evaluation mode, with what the file says about it.

    Attributes:
        model: The network.
        bands: The bands it was trained for.
        provenance: Recipe, seed, validation figures: whatever training wrote.
    """

    model: Flame
    bands: BandSet
    provenance: Mapping[str, Any]


def save_model(
    path: Path, settings: FlameSettings, weights: Mapping[str, Tensor], bands: BandSet, provenance: Mapping[str, Any]
) -> None:
    """Writes a model under a temporary name and renames it."""
    header = {
        "format": FORMATS[-1],
        "settings": settings.to_json(),
        "centres_nm": json.dumps(bands.centres_nm.tolist()),
        "fwhm_nm": json.dumps(bands.fwhm_nm.tolist()),
        "provenance": json.dumps(dict(provenance)),
    }
    write_whole(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, header))


def load_model(path: Path) -> StoredModel:
    """Reads a model; `path` may also be the run folder that training left.

    Raises:
        WeightsError: If the file is missing, damaged, or no FLAME model.
    """
    path = path / "model.safetensors" if path.is_dir() else path
    if not path.is_file():
        raise WeightsError(f"{path}: no such model; give a model.safetensors or the folder of a finished run")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, RuntimeError, OSError) as failure:
        raise WeightsError(f"{path}: not a safetensors file, or damaged ({failure})") from failure
    if header.get("format") not in FORMATS:
        raise WeightsError(f"{path}: a safetensors file, but not of a FLAME model, or of a later flame's")
    if bad := sorted(name for name, tensor in weights.items() if not bool(tensor.isfinite().all())):
        raise WeightsError(f"{path}: NaN or infinity in {bad[0]}; the run that wrote it went astray, or it is damaged")
    try:
        settings = FlameSettings.from_json(header["settings"])
        centres_nm, fwhm_nm, provenance = (
            parse_json(header[name], f"{path}: {name}", "what training wrote", finite=name != "provenance")
            for name in ("centres_nm", "fwhm_nm", "provenance")
        )
        bands = BandSet(np.array(centres_nm), np.array(fwhm_nm))
        longest = max((max(tensor.shape, default=1) for tensor in weights.values()), default=0)
        if max(settings.bands, settings.width, settings.modes) > longest:
            raise WeightsError("larger than any of its tensors")
        model = Flame(settings, unit_absorption(bands))
        model.load_state_dict(weights)
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as failure:
        first = next(iter(str(failure).splitlines()), type(failure).__name__)
        raise WeightsError(f"{path}: its header and its weights do not make a FLAME model ({first})") from failure
    return StoredModel(model.eval(), bands, provenance)
