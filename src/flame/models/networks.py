"""Segmentation networks by name: the paper's learned baselines, and a user's own.

All are compared with FLAME on the same tiles, losses, threshold and seeds (tab:main); what is listed here is what a
method brings of its own: its body, the fields it takes and its learning rate (tab:baseline_hp).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from flame.errors import FlameError
from flame.models.baselines.absorption_transformer import AbsorptionTransformer
from flame.models.baselines.efficientvit import EfficientViT
from flame.models.baselines.linknet import LinkNet
from flame.models.baselines.mobilenet import mobilenet_v2, mobilenet_v3_small_minimal
from flame.models.baselines.resnet import resnet18
from flame.models.baselines.segformer import Adaptations, SegFormer
from flame.models.baselines.unet import UNet
from flame.models.network_inputs import channels_of
from flame.models.plugins import MODEL_GROUP, PluginError, find_plugin, plugin_names
from flame.models.segmenter import SegmentationNetwork, Segmenter

__all__ = ["NETWORKS", "NetworkEntry", "NetworkSettings", "UnknownNetworkError", "make_network"]

_UNET_RATE = 2e-3
_TRANSFORMER_RATE = 1.2e-4
_FILTER_MAP = ("filter_ppm_m", "rgb_radiance")
_END_TO_END = ("radiance", "rgb_radiance")


class UnknownNetworkError(FlameError):
    """A network name that is not in the list."""


@dataclass(frozen=True)
class NetworkEntry:
    """A network of the comparison.

    Attributes:
        title: Its name in tables.
        body: Makes the body from the number of its input channels; its `stride` is what sizes are padded to.
        inputs: What it takes in the paper's comparison.
        conditioned: What it takes in the second row, with FLAME's conditioning: log-radiance, whitened by the tile.
        rate: Initial learning rate.
        published_parameters: Millions of parameters in tab:main; None if it is not there.
    """

    title: str
    body: Callable[[int], nn.Module]
    inputs: tuple[str, ...]
    conditioned: tuple[str, ...]
    rate: float
    published_parameters: float | None = None


@dataclass(frozen=True)
class NetworkSettings:
    """Which network, for which bands.

    Attributes:
        name: One of `NETWORKS`, an entry point of the group `flame.models`, or `module:Name`.
        bands: SWIR bands.
        inputs: Names in `flame.models.network_inputs.INPUT_FIELDS`; empty for the network's own.
    """

    name: str
    bands: int = 72
    inputs: tuple[str, ...] = ()


def _entry(
    title: str, body: Callable[[int], nn.Module], rate: float, published: float, filtered: bool = False
) -> NetworkEntry:
    inputs = _FILTER_MAP if filtered else _END_TO_END
    conditioned = ("filter_sigma", "rgb_log_ratio") if filtered else ("whitened", "rgb_log_ratio")
    return NetworkEntry(title, body, inputs, conditioned, rate, published)


def _transformers() -> dict[str, NetworkEntry]:
    """SegFormer and EfficientViT, plain, ConvUp and ConvUpStride."""
    kinds = {"base": Adaptations(), "CU": Adaptations(True, True), "CUS": Adaptations(True, True, True)}
    published = {"base": (3.82, 4.81), "CU": (4.30, 4.85), "CUS": (4.30, 4.85)}
    entries = {}
    for kind, adapted in kinds.items():
        suffix = "" if kind == "base" else f"-{kind.lower()}"
        entries[f"segformer{suffix}"] = _entry(
            f"SegFormer ({kind})", partial(SegFormer, adaptations=adapted), _TRANSFORMER_RATE, published[kind][0]
        )
        entries[f"efficientvit{suffix}"] = _entry(
            f"EfficientViT ({kind})", partial(EfficientViT, adaptations=adapted), 1e-3, published[kind][1]
        )
    return dict(sorted(entries.items(), key=lambda item: not item[0].startswith("segformer")))


NETWORKS: dict[str, NetworkEntry] = {
    "unet-filter": _entry("UNet + filter", lambda c: UNet(mobilenet_v2(c)), _UNET_RATE, 6.60, filtered=True),
    "linknet-filter": _entry(
        "LinkNet + filter", lambda c: LinkNet(mobilenet_v3_small_minimal(c)), _UNET_RATE, 0.85, filtered=True
    ),
    "unet": _entry("UNet (MNv2)", lambda c: UNet(mobilenet_v2(c)), _UNET_RATE, 6.65),
    "unet-r18": _entry("UNet (R18)", lambda c: UNet(resnet18(c)), _UNET_RATE, 14.54),
    **_transformers(),
    "absorption-transformer": NetworkEntry(
        "Absorption transformer (re-creation after MethaneMapper)",
        AbsorptionTransformer,
        (*_END_TO_END, "filter_ppm_m"),
        ("whitened", "rgb_log_ratio", "filter_sigma"),
        _TRANSFORMER_RATE,
    ),
}
"""tab:main's learned baselines, and one of related work. The two-stage ones take the map of either filter, MAG1C or
MAG1C-SAS; tab:baseline_hp has no learning rate for LinkNet and the ResNet U-Net, which have the U-Net's here."""


def make_network(settings: NetworkSettings) -> nn.Module:
    """The network, untrained; it is a `SegmentationNetwork`.

    A network of a user's own is called with `bands` and, if inputs are asked for, `inputs`.

    Raises:
        UnknownNetworkError: If the name is not known; the message lists those that are.
        PluginError: If a network of a user's own is not a `SegmentationNetwork`.
    """
    entry = NETWORKS.get(settings.name)
    if entry is not None:
        inputs = settings.inputs or entry.inputs
        body = entry.body(channels_of(inputs, settings.bands))
        return Segmenter(body, inputs, settings.bands, getattr(body, "stride", 1))
    constructor = find_plugin(MODEL_GROUP, settings.name)
    if constructor is None:
        known = ", ".join([*NETWORKS, *plugin_names(MODEL_GROUP)])
        raise UnknownNetworkError(f"no network '{settings.name}'; known are {known}, or give module:Name")
    return _made(constructor, settings)


def _made(constructor: Callable[..., object], settings: NetworkSettings) -> nn.Module:
    chosen = {"inputs": settings.inputs} if settings.inputs else {}
    try:
        inspect.signature(constructor).bind(bands=settings.bands, **chosen)
    except TypeError as failure:
        raise PluginError(
            f"'{settings.name}' has to take bands={settings.bands}{', inputs' if chosen else ''}: {failure}"
        ) from None
    network = constructor(bands=settings.bands, **chosen)
    if not isinstance(network, nn.Module) or not isinstance(network, SegmentationNetwork):
        raise PluginError(f"'{settings.name}' makes no torch module with `inputs`, the names of the fields it takes")
    channels_of(network.inputs, settings.bands)
    return network
