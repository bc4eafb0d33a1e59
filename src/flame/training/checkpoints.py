"""Checkpoints: one safetensors file with all tensors and, in its header, the rest as JSON; renamed into place."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from flame.errors import FlameError
from flame.files import write_whole
from flame.records import parse_json, record

__all__ = ["CheckpointError", "Progress", "load_checkpoint", "save_checkpoint"]


class CheckpointError(FlameError):
    """A checkpoint that cannot be continued from."""


@dataclass
class Progress:
    """Where a run stands.

    Attributes:
        recipe: The recipe as JSON; a run continues only under the same.
        seed: The run's seed.
        epoch: Epochs finished.
        step: Batches finished in the epoch under way.
        sums: Sums of the losses over those batches.
        history: One row of figures for each finished epoch.
        best_f1: Best validation F1 so far, -1 before the first.
        best_auprc: The AUPRC of that epoch, which decides between equals.
        best_epoch: The epoch it was reached in.
    """

    recipe: str
    seed: int
    epoch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    best_f1: float = -1.0
    best_auprc: float = -1.0
    best_epoch: int = -1


def save_checkpoint(
    path: Path,
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: dict[str, Tensor] | None,
) -> None:
    """Writes everything a run needs to go on as if never interrupted; a crash leaves the file before it whole."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": tensor for name, tensor in state.items()}
    tensors |= {f"average.{name}": tensor for name, tensor in (average or {}).items()}
    tensors["rng"] = torch.get_rng_state()
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"format": "flame-checkpoint-1", "progress": json.dumps(asdict(progress))}
    write_whole(path, save(content, header))


def load_checkpoint(
    path: Path,
    recipe: str,
    seed: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: dict[str, Tensor] | None,
) -> Progress:
    """Restores model, optimiser, average and random state in place and says where the run stood.

    Raises:
        CheckpointError: If the file is damaged or belongs to another recipe or seed.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint; start the run anew without --resume")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, RuntimeError, OSError) as failure:
        raise _damaged(path, failure) from failure
    if header.get("format") != "flame-checkpoint-1":
        raise CheckpointError(f"{path}: not a checkpoint of this version")
    stored = parse_json(header.get("progress", ""), str(path), "the progress of a run", finite=False)
    progress = record(Progress, stored, str(path), finite=False)
    if (progress.recipe, progress.seed) != (recipe, seed):
        raise CheckpointError(
            f"{path}: belongs to a run with another recipe or seed ({progress.seed}); continue with the same, or give "
            "another folder with --out"
        )
    try:
        model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
        state: dict[int, dict[str, Any]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, number, entry = name.split(".")
                state.setdefault(int(number), {})[entry] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        for name, tensor in (average or {}).items():
            tensor.copy_(tensors[f"average.{name}"])
        torch.set_rng_state(tensors["rng"])
    except (RuntimeError, ValueError, KeyError, TypeError) as failure:
        raise _damaged(path, failure) from failure
    return progress


def _damaged(path: Path, failure: Exception) -> CheckpointError:
    first = next(iter(str(failure).splitlines()), type(failure).__name__)
    return CheckpointError(f"{path}: damaged ({first}); start the run anew without --resume")
