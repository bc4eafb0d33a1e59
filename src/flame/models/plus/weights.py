"""A trained second flame-plus on disk: one safetensors file with its settings inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from flame.errors import FlameError
from flame.files import write_whole
from flame.models.plus.network import FlamePlus
from flame.models.plus.settings import PlusSettings

__all__ = ["StoredPlus", "load_plus", "save_plus"]

FILE = "model.safetensors"


@dataclass(frozen=True, eq=False)
class StoredPlus:
    """A trained network and what it was trained on."""

    model: FlamePlus
    facts: Mapping[str, Any]


def save_plus(path: Path, settings: PlusSettings, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Writes weights with their settings and facts."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_whole(path, save(tensors, metadata={"settings": settings.to_json(), "facts": json.dumps(dict(facts))}))


def load_plus(path: Path) -> StoredPlus:
    """Reads a network, from its file or the folder of its run.

    Raises:
        FlameError: If there is none, or the file holds something else.
    """
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise FlameError(f"{path}: no such file; train one with tools/train_flame_plus.py")
    try:
        with safe_open(path, "pt") as stored:
            told = stored.metadata() or {}
            model = FlamePlus(PlusSettings.from_json(told["settings"]))
            model.load_state_dict({name: stored.get_tensor(name) for name in stored.keys()})  # noqa: SIM118
            return StoredPlus(model.eval(), json.loads(told["facts"]))
    except (KeyError, RuntimeError, ValueError, safetensors.SafetensorError) as mistake:
        raise FlameError(f"{path}: holds no second flame-plus ({mistake})") from mistake
