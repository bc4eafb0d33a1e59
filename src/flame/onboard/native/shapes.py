"""What shape each weight must have. The kernels do not look: a file that says otherwise must never reach them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from flame.kernels import why_no_network
from flame.kernels.limits import why_no_level
from flame.onboard.manifest import Manifest
from flame.onboard.native.pyramid import levels_of
from flame.prepare.planes import FIELD_NAMES, GRID_NM, WIDTHS_PX
from flame.prepare.planes.wavelengths import WINDOWS_NM

__all__ = ["check_plane_shapes", "check_shapes"]

Shape = tuple[int, ...]

MOST_LEVELS = 5
"""Halvings of a side that is a multiple of what the kernels take at a time."""


def check_shapes(arrays: Mapping[str, np.ndarray], manifest: Manifest) -> None:
    """Refuses weights of other names, shapes or types than the manifest's network has, and those that are no numbers.

    Raises:
        ValueError: The message names the array.
    """
    if "lift.weight" not in arrays or "segmentation.layers.0.weight" not in arrays:
        raise ValueError("lift.weight or segmentation.layers.0.weight is missing")
    _check_limits(arrays, manifest)
    _check_all(arrays, _expected(arrays, manifest))


def check_plane_shapes(arrays: Mapping[str, np.ndarray], manifest: Manifest) -> None:
    """The same for a network of planes.

    Raises:
        ValueError: The message names the array.
    """
    facts = manifest.plane_facts
    assert facts is not None
    needed = ("lift.weight", "functions", "segmentation.0.weight", "segmentation.2.weight", "backbone.beside.weight")
    if missing := [name for name in needed if name not in arrays or arrays[name].ndim < 2]:
        raise ValueError(f"{missing[0]} is missing")
    width, functions = len(arrays["lift.weight"]), len(arrays["functions"])
    hidden, last = (len(arrays[f"segmentation.{layer}.weight"]) for layer in (0, 2))
    windows, fields = len(WINDOWS_NM), len(FIELD_NAMES)
    why = why_no_network(
        tile=manifest.tile,
        grid=1,
        bands=windows,
        fields=functions + fields,
        width=width,
        hidden=hidden,
        last=last,
        modes=1,
    )
    if why is not None:
        raise ValueError(why)
    outputs = len(facts.levels_ppm_m) + 3 + len(WIDTHS_PX)
    shapes: dict[str, Shape] = {
        "functions": (functions, len(GRID_NM)),
        "lift.weight": (width, functions + fields + windows, 1, 1),
        "lift.bias": (width,),
        "of_fields.weight": (hidden, fields, 1, 1),
        "segmentation.0.weight": (hidden, width + 2, 3, 3),
        "segmentation.0.bias": (hidden,),
        "segmentation.2.weight": (last, hidden, 3, 3),
        "segmentation.2.bias": (last,),
        "project.weight": (outputs, last, 1, 1),
        "project.bias": (outputs,),
    }
    for head in ("weight_head", "background_head"):
        shapes |= {f"{head}.weight": (windows, width, 1, 1), f"{head}.bias": (windows,)}
    _check_all(arrays, shapes | _pyramid(arrays, width))


def _pyramid(arrays: Mapping[str, np.ndarray], width: int) -> dict[str, Shape]:
    """Weights of the U-Net; the number of channels of each level is the file's own, within what the kernels take."""
    levels = levels_of(arrays)
    if not 1 <= levels <= MOST_LEVELS:
        raise ValueError(f"the network has {levels} levels; the kernels take 1 to {MOST_LEVELS}")
    widths = [width, *(len(arrays[f"backbone.down.{level}.0.weight"]) for level in range(levels))]
    if why := next((why for own in widths if (why := why_no_level(own))), None):
        raise ValueError(why)
    shapes: dict[str, Shape] = {"backbone.beside.weight": (width, width, 1, 1)}
    for level in range(levels):
        above, own = widths[level], widths[level + 1]
        joined = own * (1 if level == levels - 1 else 2)
        down, up = f"backbone.down.{level}", f"backbone.up.{levels - 1 - level}"
        shapes |= {f"{down}.0.weight": (own, above, 3, 3), f"{down}.0.bias": (own,)}
        shapes |= {f"{down}.3.weight": (own, own, 3, 3), f"{down}.3.bias": (own,)}
        shapes |= {f"{up}.weight": (joined, above, 4, 4), f"{up}.bias": (above,)}
    return shapes


def _check_all(arrays: Mapping[str, np.ndarray], expected: Mapping[str, Shape]) -> None:
    if odd := sorted(expected.keys() ^ arrays.keys()):
        raise ValueError(f"{odd[0]} is {'missing' if odd[0] in expected else 'not known'}")
    for name, shape in expected.items():
        found = arrays[name]
        if found.shape != shape or found.dtype != np.float32 or not found.flags.c_contiguous:
            raise ValueError(f"{name} is {found.dtype} of shape {found.shape}, expected float32 of {shape}")
        if not np.isfinite(found).all():
            raise ValueError(f"{name} holds NaN or infinity")


def _check_limits(arrays: Mapping[str, np.ndarray], manifest: Manifest) -> None:
    """The sizes that the kernels have room for."""
    spectral = [array for name, array in arrays.items() if name.endswith("spectral.weight") and array.ndim == 4]
    why = why_no_network(
        tile=manifest.tile,
        grid=2 if "backbone.beside.weight" in arrays else 1,
        bands=len(manifest.band_centres_nm),
        fields=_fields(manifest),
        width=len(arrays["lift.weight"]),
        hidden=len(arrays["segmentation.layers.0.weight"]),
        last=len(arrays.get("segmentation.layers.3.weight", ())),
        modes=max((_modes(array) for array in spectral), default=1),
    )
    if why is not None:
        raise ValueError(why)


def _fields(manifest: Manifest) -> int:
    return len(manifest.prepare.pixel_fields) if "pixel_fields" in manifest.inputs else 0


def _modes(spectral: np.ndarray) -> int:
    return round(math.sqrt(spectral.shape[1] / 2))


def _expected(arrays: Mapping[str, np.ndarray], manifest: Manifest) -> dict[str, Shape]:
    bands, width = len(manifest.band_centres_nm), len(arrays["lift.weight"])
    scored, coloured = "heads.w_sw" in arrays, "rgb" in manifest.inputs
    hidden = len(arrays["segmentation.layers.0.weight"])
    last = len(arrays.get("segmentation.layers.3.weight", ()))
    shapes: dict[str, Shape] = {
        "lift.weight": (width, bands + _fields(manifest)),
        "lift.bias": (width,),
        "segmentation.layers.0.weight": (hidden, width + scored + 3 * coloured, 3, 3),
        "segmentation.layers.0.bias": (hidden,),
        "segmentation.layers.3.weight": (last, hidden, 3, 3),
        "segmentation.layers.3.bias": (last,),
        "segmentation.project.weight": (1, last, 1, 1),
        "segmentation.project.bias": (1,),
    }
    if "unwhitening" in manifest.inputs:
        shapes["whitening"] = (bands, bands)
    if scored:
        shapes |= {f"heads.w_{head}": (bands, width) for head in ("sw", "bg")}
        shapes |= {f"heads.b_{head}": (bands,) for head in ("sw", "bg")}
        if "target" not in manifest.inputs:
            shapes["direction"] = (bands,)
    return shapes | _backbone(arrays, width)


def _backbone(arrays: Mapping[str, np.ndarray], width: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    coarse = "backbone.beside.weight" in arrays
    prefix = "backbone.operator." if coarse else "backbone."
    if coarse:
        shapes |= {f"backbone.{way}.weight": (width, width, 2, 2) for way in ("down", "up")}
        shapes |= {f"backbone.{way}.bias": (width,) for way in ("down", "up")}
        shapes["backbone.beside.weight"] = (width, width, 1, 1)
    within = f"{prefix}blocks."
    numbers = {name.removeprefix(within).split(".")[0] for name in arrays if name.startswith(within)}
    for number in range(len(numbers)):
        block = f"{prefix}blocks.{number}."
        local = f"{block}unet.out.weight" in arrays
        shapes |= {block + name: shape for name, shape in _block(arrays, block, width, local).items()}
    return shapes


def _block(arrays: Mapping[str, np.ndarray], block: str, width: int, local: bool) -> dict[str, Shape]:
    """Weights of one operator block; the number of modes and of the gate's hidden channels are the file's own."""
    spectral, squeeze = arrays.get(f"{block}spectral.weight"), arrays.get(f"{block}gate.squeeze.bias")
    modes = 0 if spectral is None or spectral.ndim != 4 else _modes(spectral)
    hidden = 0 if squeeze is None else squeeze.size
    shapes: dict[str, Shape] = {
        "spectral.weight": (2, 2 * modes * modes, width, width),
        "gate.squeeze.weight": (hidden, width),
        "gate.squeeze.bias": (hidden,),
        "gate.excite.weight": (width, hidden),
        "gate.excite.bias": (width,),
    }
    if not local:
        return shapes | {"pointwise.weight": (width, width, 1, 1), "pointwise.bias": (width,)}
    for layer in ("down1.0", "down2.0.0", "down2.1.0", "down3.0.0", "down3.1.0"):
        shapes[f"unet.{layer}.weight"] = (width, width, 3, 3)
    for layer, inputs in (("up3.0", width), ("up2.0", 2 * width), ("up1.0", 2 * width)):
        shapes[f"unet.{layer}.weight"] = (inputs, width, 4, 4)
    shapes["unet.out.weight"] = (width, 2 * width, 3, 3)
    shapes |= {name.replace(".weight", ".bias"): (width,) for name in shapes if name.startswith("unet.")}
    return shapes
