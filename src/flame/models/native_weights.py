"""A deployed network's weights for `flame.onboard.native`: the folded tensors under their own names, as safetensors."""

from __future__ import annotations

import safetensors.torch
import torch
from torch import Tensor

from flame.models.export import DeployedFlame
from flame.models.flame import per_ppm_m

__all__ = ["native_weights"]

_BACKBONES = {"ufno": 1, "coarse-ufno": 2}
"""Those that the kernels know, and how many pixels a step of their grid is."""

_TILE_STEP = 32
_UNET_STRIDE = 8
_NO_BLOCKS = (1, 2, 3, 6, 7, 11)
_MOST_MODES = 12
_MOST_WIDTH = 32
_MOST_BANDS = 320


def native_weights(deployed: DeployedFlame) -> bytes | None:
    """The file's content, or None for variants that the kernels do not know; these run on the other engines."""
    flame = deployed.flame
    kind = flame.settings
    grid = _BACKBONES.get(kind.backbone)
    known_inputs = {"whitened", "log_radiance", "target", "unwhitening", "statistics", "rgb"}
    if (
        grid is None
        or kind.score == "fixed"
        or kind.score_space == "projected"
        or kind.modes > _MOST_MODES
        or not set(deployed.inputs) <= known_inputs
        or (kind.noise_inputs and "statistics" not in deployed.inputs)
        or deployed.tile % _TILE_STEP
        or deployed.tile % (grid * _UNET_STRIDE)
        or deployed.tile // grid < 2 * kind.modes
        or kind.width in _NO_BLOCKS
        or kind.width > _MOST_WIDTH
        or kind.bands in _NO_BLOCKS
        or kind.bands > _MOST_BANDS
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
            arrays["direction"] = per_ppm_m(flame.unit_spectrum[None], 1.0 / flame.variance.clamp_min(1e-12))[0]
    return bytes(
        safetensors.torch.save({name: tensor.detach().float().contiguous() for name, tensor in arrays.items()})
    )
