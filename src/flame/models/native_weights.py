"""A deployed network's weights for `flame.onboard.native`: the folded tensors under their own names, as safetensors."""

from __future__ import annotations

import safetensors.torch
import torch
from torch import Tensor

from flame.kernels import why_no_network
from flame.models.export import DeployedFlame

__all__ = ["native_weights"]

_BACKBONES = {"ufno": 1, "coarse-ufno": 2}
"""Those that the kernels know, and how many pixels a step of their grid is."""

_KNOWN_INPUTS = {"whitened", "log_radiance", "target", "unwhitening", "pixel_fields", "rgb"}


def native_weights(deployed: DeployedFlame) -> bytes | None:
    """The file's content, or None for variants that the kernels do not know; these run on the other engines."""
    flame = deployed.flame
    kind = flame.settings
    grid = _BACKBONES.get(kind.backbone)
    if grid is None or kind.score == "fixed" or not set(deployed.inputs) <= _KNOWN_INPUTS:
        return None
    if kind.spectra == "log_radiance" and kind.score != "none" and kind.score_space != "log":
        return None  # whitened or projected inside the graph
    if why_no_network(
        tile=deployed.tile,
        grid=grid,
        bands=kind.bands,
        fields=len(kind.prepare.pixel_fields),
        width=kind.width,
        hidden=flame.segmentation.hidden[0],
        last=flame.segmentation.hidden[1],
        modes=kind.modes,
    ):
        return None
    arrays: dict[str, Tensor] = {
        name: tensor for name, tensor in flame.state_dict().items() if name.startswith(("backbone.", "segmentation."))
    }
    arrays["lift.weight"], arrays["lift.bias"] = flame.folded_lift()
    if "unwhitening" in deployed.inputs:
        arrays["whitening"] = flame.whitening
    if flame.heads is not None:
        heads = flame.heads
        background = torch.zeros_like(heads.w_sw) if heads.w_bg is None else heads.w_bg
        arrays |= {
            "heads.w_sw": heads.w_sw,
            "heads.b_sw": heads.b_sw,
            "heads.w_bg": background,
            "heads.b_bg": heads.b_bg,
        }
        if kind.score_space == "log":
            arrays["direction"] = flame.log_direction()[0]
    return bytes(
        safetensors.torch.save({name: tensor.detach().float().contiguous() for name, tensor in arrays.items()})
    )
