"""Neural-operator backbones by name: each maps a (channel, row, col) field to `width` features of the same size."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from torch import nn

from flame.errors import FlameError
from flame.models.backbones.coarse_ufno import CoarseUFno
from flame.models.backbones.ffno import FFno
from flame.models.backbones.fno import Fno, TuckerFno
from flame.models.backbones.ufno import UFno
from flame.models.backbones.unet import UNet
from flame.models.backbones.uno import Uno
from flame.models.backbones.wno import Wno
from flame.models.plugins import BACKBONE_GROUP, find_plugin, plugin_names

__all__ = [
    "BACKBONES",
    "DEFAULT_MODES",
    "CoarseUFno",
    "FFno",
    "Fno",
    "TuckerFno",
    "UFno",
    "UNet",
    "UnknownBackboneError",
    "Uno",
    "Wno",
    "make_backbone",
]

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "ufno": UFno,
    "coarse-ufno": CoarseUFno,
    "fno": Fno,
    "f-fno": FFno,
    "tucker-fno": TuckerFno,
    "uno": Uno,
    "wno": Wno,
    "unet": UNet,
}
"""Constructors taking `channels` (of the lifted field) and, the U-FNOs alone, `modes`: those of the paper's comparison
(tab:backbone_arch) have modes of their own."""

DEFAULT_MODES = 12


class UnknownBackboneError(FlameError):
    """A backbone name that is not in the list, or modes for one that has its own."""


def make_backbone(name: str, channels: int, modes: int) -> nn.Module:
    """The backbone of that name, on a field already lifted to `channels`.

    Args:
        name: One of `BACKBONES`, an entry point of the group `flame.backbones`, or `module:Name`.
        channels: Channels in and out.
        modes: Fourier modes a side, for backbones that take them.

    Raises:
        UnknownBackboneError: If the name is not known; the message lists those that are.
    """
    constructor = BACKBONES.get(name) or find_plugin(BACKBONE_GROUP, name)
    if constructor is None:
        known = ", ".join([*BACKBONES, *plugin_names(BACKBONE_GROUP)])
        raise UnknownBackboneError(f"no backbone '{name}'; known are {known}, or give module:Name")
    if "modes" in inspect.signature(constructor).parameters:
        return constructor(channels=channels, modes=modes)
    if modes != DEFAULT_MODES:
        raise UnknownBackboneError(f"backbone '{name}' has modes of its own; leave model.modes at {DEFAULT_MODES}")
    return constructor(channels=channels)
