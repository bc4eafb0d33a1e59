"""The network as an ONNX graph and as weights for the native runtime, from the planes on."""

from __future__ import annotations

import copy

import safetensors.torch
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from flame.models.export import OPSET, fold_batch_norms, shared_constants
from flame.models.onnx_graph import GraphError, traced
from flame.models.plus.network import FlamePlus
from flame.prepare.planes import FIELD_NAMES, PLANE_INPUTS
from flame.prepare.planes.wavelengths import WINDOWS_NM

_FLOWN_BACKBONE = "unet"
_FLOWN = ("lift.", "backbone.", "weight_head.", "background_head.", "of_fields.", "segmentation.", "project.")

__all__ = ["DeployedPlus", "plus_to_onnx", "plus_weights"]


class DeployedPlus(nn.Module):
    """The second flame-plus from the planes on, for one tile.

    Args:
        model: A trained network; it is copied.
        tile: Side of the tile, in pixels.
    """

    def __init__(self, model: FlamePlus, tile: int) -> None:
        super().__init__()
        self.plus = copy.deepcopy(model).eval().requires_grad_(False)
        fold_batch_norms(self.plus)
        self.tile = tile

    def forward(
        self, planes: Tensor, windows: Tensor, significance: Tensor, sigma: Tensor
    ) -> tuple[Float[Tensor, "1 output row col"], Float[Tensor, "1 row col"]]:
        """All outputs of the network, and the score in standard deviations."""
        first = self.plus.settings.functions
        fields = planes[:, first : first + len(FIELD_NAMES)]
        z = self.plus.features(planes)
        score = self.plus.score(z, windows, significance)
        return self.plus.judge(z, fields, score, score * sigma), score

    def example(self) -> tuple[Tensor, ...]:
        """Inputs of the right shapes."""
        windows = len(WINDOWS_NM)
        channels = self.plus.settings.functions + len(FIELD_NAMES) + windows
        tile = self.tile
        return tuple(
            torch.zeros(shape)
            for shape in ((1, channels, tile, tile), (1, windows, tile, tile), (1, tile, tile), (1, tile, tile))
        )


def plus_to_onnx(model: FlamePlus, tile: int) -> tuple[bytes, DeployedPlus]:
    """The graph for tiles of any size, its outputs `maps` and `score`, and the network it was traced from.

    Sides must be multiples of the backbone's stride.

    Raises:
        GraphError: If the backbone is another than the U-Net: it would mean something else on another size.
    """
    if model.settings.backbone != _FLOWN_BACKBONE:
        raise GraphError(f"only networks on the backbone '{_FLOWN_BACKBONE}' fly, not '{model.settings.backbone}'")
    deployed = DeployedPlus(model, tile)
    graph = traced(deployed, deployed.example(), PLANE_INPUTS, ("maps", "score"), OPSET, any_size=True)
    return shared_constants(graph), deployed


def plus_weights(deployed: DeployedPlus) -> bytes:
    """The folded weights under their own names, with the functions of wavelength as the preparation takes them."""
    plus = deployed.plus
    arrays = {name: tensor for name, tensor in plus.state_dict().items() if name.startswith(_FLOWN)}
    arrays["functions"] = F.normalize(plus.functions, dim=1) @ plus.conditioning
    return bytes(
        safetensors.torch.save({name: tensor.detach().float().contiguous() for name, tensor in arrays.items()})
    )
