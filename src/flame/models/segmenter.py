"""What every network of the comparison is: named fields of a tile in, one logit a pixel out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.network_inputs import Normalise, UnknownInputError, channels_of

__all__ = ["SegmentationNetwork", "Segmenter"]


@runtime_checkable
class SegmentationNetwork(Protocol):
    """A network that the trainer, the bench and the exporter can work with; any `nn.Module` of this shape is one.

    Attributes:
        inputs: Names in `flame.models.network_inputs.INPUT_FIELDS`, in the order of an exported graph's inputs.
    """

    inputs: tuple[str, ...]

    def __call__(self, **fields: Tensor) -> Tensor:
        """Plume logit (batch, row, col) from the fields of `inputs`, each (batch, channel, row, col), of any size."""
        ...


class Segmenter(nn.Module):
    """A `SegmentationNetwork` made of a body that maps channels to a logit.

    Fields are normalised, joined, and edge-padded to a multiple of the body's stride; the logit is cut back.

    Args:
        body: Maps (batch, channel, row, col) to a logit (batch, 1, row, col) of the same size.
        inputs: Names of the fields, in order.
        bands: SWIR bands.
        stride: What the body needs sizes to be multiples of.
    """

    def __init__(self, body: nn.Module, inputs: Sequence[str], bands: int, stride: int = 1) -> None:
        super().__init__()
        channels_of(inputs, bands)
        self.inputs = tuple(inputs)
        self.bands = bands
        self.stride = stride
        self.normalise = nn.ModuleDict({name: Normalise(name, bands) for name in self.inputs})
        self.body = body

    def to_fit(self) -> dict[str, Normalise]:
        """The normalisations whose mean and spread are the training set's, by field."""
        found = {name: layer for name, layer in self.normalise.items() if isinstance(layer, Normalise)}
        return {name: layer for name, layer in found.items() if layer.field.standardised}

    def forward(self, **fields: Float[Tensor, "batch _ row col"]) -> Float[Tensor, "batch row col"]:
        """Plume logit of each pixel.

        Raises:
            UnknownInputError: If other fields are given than the network takes.
        """
        if set(fields) != set(self.inputs):
            raise UnknownInputError(
                f"this network takes {', '.join(self.inputs)}, but was given {', '.join(fields) or 'nothing'}"
            )
        joined = torch.cat([self.normalise[name](fields[name]) for name in self.inputs], 1)
        rows, cols = (int(side) for side in joined.shape[-2:])
        pad_rows, pad_cols = -rows % self.stride, -cols % self.stride
        if pad_rows or pad_cols:
            joined = F.pad(joined, (0, pad_cols, 0, pad_rows), mode="replicate")
        logit: Tensor = self.body(joined)
        return logit[:, 0, :rows, :cols]
