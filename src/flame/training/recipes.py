"""Recipes: everything a training run depends on besides its data and its seed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from flame.errors import FlameError
from flame.models import FlameSettings
from flame.models.networks import NETWORKS, NetworkSettings
from flame.models.trained import AnySettings
from flame.prepare import BackgroundSettings, PrepareSettings
from flame.training.batches import BatchSettings
from flame.training.losses import LossSettings

__all__ = ["RECIPES", "OptimizerSettings", "Recipe", "UnknownRecipeError", "on_network", "recipe"]


class UnknownRecipeError(FlameError):
    """A recipe name that is not in the list."""


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW under a cosine schedule; the defaults are the paper's.

    Attributes:
        rate: Initial learning rate.
        last_rate: Learning rate at the end.
        weight_decay: Decoupled weight decay.
        clip_norm: Largest l2 norm of the gradient.
        warmup_steps: Steps of linear warm-up; the paper has none.
        averaging: Decay of the running average of the weights that is validated and kept; 0 keeps the weights.
    """

    rate: float = 2e-3
    last_rate: float = 1e-6
    weight_decay: float = 1e-4
    clip_norm: float = 1.0
    warmup_steps: int = 0
    averaging: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """A training run.

    Attributes:
        name: Its name.
        model: FLAME's architecture, or another network; the number of bands is taken from the data.
        loss: Objective.
        batch: How batches are drawn.
        optimizer: Optimiser and schedule.
        epochs: Passes over the training tiles.
        keep: Which epoch's model is kept: the one with the best F1 on scenes held out of the training split, or the
            last, of a run on the whole training split.
        calibrate: Whether the kept model's logit is shifted to where 0.5 is the best threshold on the validation tiles.
        checkpoint_minutes: Longest time between two checkpoints.
    """

    name: str
    model: AnySettings = field(default_factory=FlameSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    epochs: int = 50
    keep: Literal["best", "last"] = "best"
    calibrate: bool = False
    checkpoint_minutes: float = 5.0

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


PAPER = Recipe("paper")
"""The paper's run, sec:training and app:impl, its lift whitened by training statistics."""

STRICT_PAPER = replace(
    PAPER,
    name="strict-paper",
    model=FlameSettings(conditioning="none", lift_start="random", clamp_leak=0.0, band_variance=False, plume_prior=0.5),
    keep="last",
)
"""The same without anything of ours: no whitening, no head start, no leak through the clip, no choice by validation."""

_NEVER_ENDS = 1e6

PLUS_MODEL = FlameSettings(
    backbone="coarse-ufno",
    conditioning="tile",
    lift_space="training",
    score_space="whitened",
    prepare=PrepareSettings(
        background=BackgroundSettings(passes=2),
        pixel_fields=("matched_filter", "brightness", "anomaly", "coherence", "noise", "enhancement", "clutter"),
        rgb="tile",
    ),
)

CPU = replace(PAPER, name="cpu", batch=BatchSettings(size=8, crop=128), epochs=24)

FLAME_PLUS = replace(
    CPU,
    name="flame-plus",
    model=PLUS_MODEL,
    loss=LossSettings(teacher="truth", teacher_weight=0.5, teacher_epochs=_NEVER_ENDS),
    optimizer=OptimizerSettings(warmup_steps=50, averaging=0.99),
    calibrate=True,
)

TINY = replace(
    FLAME_PLUS,
    name="tiny",
    batch=BatchSettings(size=8, crop=64),
    loss=LossSettings(teacher_epochs=2.0),
    optimizer=OptimizerSettings(warmup_steps=5, averaging=0.9),
    epochs=6,
)

RECIPES: dict[str, Recipe] = {entry.name: entry for entry in (PAPER, STRICT_PAPER, CPU, FLAME_PLUS, TINY)}


def recipe(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        UnknownRecipeError: If the name is not known; the message lists those that are.
    """
    try:
        return RECIPES[name]
    except KeyError:
        raise UnknownRecipeError(f"no recipe '{name}'; known are {', '.join(RECIPES)}") from None


def on_network(base: Recipe, network: str, conditioned: bool = False) -> Recipe:
    """The recipe for another network than FLAME, all else equal but the learning rate, which is the network's own.

    A network has no score, so there is nothing for the teacher to teach, and its logit is left as it is.

    Args:
        base: Data handling, loss, schedule and epochs.
        network: A name in `flame.models.networks.NETWORKS`, an entry point, or `module:Name`.
        conditioned: Whether it is given FLAME's input conditioning instead of its own inputs.

    Raises:
        UnknownRecipeError: If the conditioned inputs of a network are asked for that has none of its own.
    """
    entry = NETWORKS.get(network)
    if conditioned and entry is None:
        raise UnknownRecipeError(f"'{network}' has no conditioned form: a network of your own names its inputs itself")
    inputs = entry.conditioned if entry is not None and conditioned else ()
    rate = base.optimizer.rate if entry is None else entry.rate
    return replace(
        base,
        name=f"{base.name}, {network}",
        model=NetworkSettings(network, inputs=inputs),
        optimizer=replace(base.optimizer, rate=rate),
        calibrate=False,
    )
