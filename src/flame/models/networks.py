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
        conditioned: What it takes in the second row, with FLAME's conditioning: log-radiance, whitened by the tile, or
            the matched filter in it.
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


def _end_to_end(title: str, body: Callable[[int], nn.Module], rate: float, published: float) -> NetworkEntry:
    return NetworkEntry(title, body, _END_TO_END, ("whitened", "rgb_log_ratio"), rate, published)


def _unet(channels: int) -> nn.Module:
    return UNet(mobilenet_v2(channels))


def _two_stage() -> dict[str, NetworkEntry]:
    """U-Net and LinkNet, each on the map of either filter."""

    filters = {"mag1c": "MAG1C-tile", "mag1c-sas": "MAG1C-SAS"}
    bodies: dict[str, tuple[str, Callable[[int], nn.Module], float]] = {
        "unet": ("UNet", _unet, 6.60),
        "linknet": ("LinkNet", lambda c: LinkNet(mobilenet_v3_small_minimal(c)), 0.85),
    }
    conditioned = ("matched_filter", "rgb_log_ratio")
    return {
        f"{name}-{filtered}": NetworkEntry(
            f"{title}+{shown}", body, (filtered.replace("-", "_"), "rgb_radiance"), conditioned, _UNET_RATE, published
        )
        for name, (title, body, published) in bodies.items()
        for filtered, shown in filters.items()
    }


def _transformers() -> dict[str, NetworkEntry]:
    """SegFormer and EfficientViT, plain, ConvUp and ConvUpStride."""
    kinds = {"base": Adaptations(), "CU": Adaptations(True, True), "CUS": Adaptations(True, True, True)}
    published = {"base": (3.82, 4.81), "CU": (4.30, 4.85), "CUS": (4.30, 4.85)}
    entries = {}
    for kind, adapted in kinds.items():
        suffix = "" if kind == "base" else f"-{kind.lower()}"
        entries[f"segformer{suffix}"] = _end_to_end(
            f"SegFormer ({kind})", partial(SegFormer, adaptations=adapted), _TRANSFORMER_RATE, published[kind][0]
        )
        entries[f"efficientvit{suffix}"] = _end_to_end(
            f"EfficientViT ({kind})", partial(EfficientViT, adaptations=adapted), 1e-3, published[kind][1]
        )
    return dict(sorted(entries.items(), key=lambda item: not item[0].startswith("segformer")))


NETWORKS: dict[str, NetworkEntry] = {
    **_two_stage(),
    "unet": _end_to_end("UNet (MNv2)", _unet, _UNET_RATE, 6.65),
    "unet-r18": _end_to_end("UNet (R18)", lambda c: UNet(resnet18(c)), _UNET_RATE, 14.54),
    **_transformers(),
    "absorption-transformer": NetworkEntry(
        "Absorption transformer (re-creation after MethaneMapper)",
        AbsorptionTransformer,
        (*_END_TO_END, "mag1c_sas"),
        ("whitened", "rgb_log_ratio", "matched_filter"),
        _TRANSFORMER_RATE,
    ),
}
"""tab:main's learned baselines, and one of related work. tab:baseline_hp has no learning rate for LinkNet and the
ResNet U-Net, which have the U-Net's here."""


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
