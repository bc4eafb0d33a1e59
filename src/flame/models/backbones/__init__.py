"""Neural-operator backbones by name: each maps a (channel, row, col) field to `width` features of the same size."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from flame.errors import FlameError
from flame.models.backbones.coarse_ufno import CoarseUFno
from flame.models.backbones.ufno import UFno

__all__ = ["BACKBONES", "CoarseUFno", "UFno", "UnknownBackboneError", "make_backbone"]

BACKBONES: dict[str, Callable[..., nn.Module]] = {"ufno": UFno, "coarse-ufno": CoarseUFno}
"""Constructors taking `channels` (of the lifted field) and `modes`."""


class UnknownBackboneError(FlameError):
    """A backbone name that is not in the list."""


def make_backbone(name: str, channels: int, modes: int) -> nn.Module:
    """The backbone of that name, on a field already lifted to `channels`.

    Raises:
        UnknownBackboneError: If the name is not known; the message lists those that are.
    """
    if name not in BACKBONES:
        raise UnknownBackboneError(f"no backbone '{name}'; known are {', '.join(BACKBONES)}")
    return BACKBONES[name](channels=channels, modes=modes)
