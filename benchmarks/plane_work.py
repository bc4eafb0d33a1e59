"""How much arithmetic and traffic a network of planes asks for, by part, from the shapes of its weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

LIFT, TRUNK, SCORE, SEGMENTATION = "lift", "U-Net", "heads and score", "segmentation"
_FULL = {"lift": LIFT, "weight_head": SCORE, "background_head": SCORE, "of_fields": SEGMENTATION}
_FULL |= {"segmentation": SEGMENTATION, "project": SEGMENTATION}


def plane_work(arrays: Mapping[str, np.ndarray], side: int) -> tuple[Counter[str], Counter[str]]:
    """GFLOP (a multiply-add is two) and GB of images read and written once, of all convolutions.

    Args:
        arrays: Folded weights by name.
        side: Rows and columns of the tile.
    """
    giga_flop, giga_bytes = Counter[str](), Counter[str]()
    levels = sum(name.startswith("backbone.up.") and name.endswith("weight") for name in arrays)
    for name, weight in arrays.items():
        if not name.endswith(".weight"):
            continue
        part, number = _FULL.get(name.split(".")[0], TRUNK), name.split(".")
        given, made, pixels = weight.shape[1], weight.shape[0], side * side
        read = pixels
        if name.startswith("backbone.down."):
            pixels //= 4 ** (int(number[2]) + 1)
            read = pixels * (4 if number[3] == "0" else 1)
        elif name.startswith("backbone.up."):  # (in, out, 4, 4): each input pixel meets all sixteen
            given, made = weight.shape[:2]
            pixels //= 4 ** (levels - 1 - int(number[2]))
            read = pixels // 4
        work = 2.0 * weight.size * (read if name.startswith("backbone.up.") else pixels)
        giga_flop[part] += 1e-9 * work
        giga_bytes[part] += 4e-9 * (given * read + made * pixels)
    return giga_flop, giga_bytes
