"""What stands in for unusable pixels before anything mixes pixels: the mean of the usable ones around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Bool, Float32

__all__ = ["block_counts", "block_means", "fill_unusable"]

Work = Callable[..., Iterable[object]]


def fill_unusable(
    field: Float32[np.ndarray, layer * image],
    usable: Bool[np.ndarray, "row col"],
    block: int,
    run: Work = map,
) -> None:
    """Replaces unusable pixels in place by the mean of the usable ones in their block, or in the tile if it has none.

    What is stored under an unusable pixel is never read into a result.

    Args:
        field: What to fill; each layer by itself. A layer may be the image's rows in blocks.
        usable: Pixels to keep.
        block: Side of the blocks.
        run: `map`, or that of a pool of threads to share the layers among.
    """
    if usable.all():
        return
    bad_row, bad_col = np.nonzero(~usable)
    count = block_counts(usable, block)

    def fill(layer: Float32[np.ndarray, ...]) -> None:
        image = layer.reshape(usable.shape)  # a copy if in blocks
        image[bad_row, bad_col] = 0.0
        mean = block_means(_block_sums(image, block), count)
        image[bad_row, bad_col] = mean[bad_row // block, bad_col // block]
        if not np.may_share_memory(image, layer):
            layer[...] = image.reshape(layer.shape)

    for _ in run(fill, field):
        pass


def block_counts(usable: Bool[np.ndarray, "row col"], block: int) -> Float32[np.ndarray, "down across"]:
    """How many pixels of each square block are usable."""
    return _block_sums(usable.astype(np.float32), block)


def block_means(
    sums: Float32[np.ndarray, "down across"], count: Float32[np.ndarray, "down across"]
) -> Float32[np.ndarray, "down across"]:
    """Mean of each block's usable pixels; where it has none, that of the whole image."""
    share = np.float32(1.0) / np.maximum(count, 1)
    everywhere = np.float32(sums.sum(dtype=np.float64) / max(float(count.sum(dtype=np.float64)), 1.0))
    return np.where(count > 0, sums * share, everywhere)


def _block_sums(layer: Float32[np.ndarray, "row col"], block: int) -> Float32[np.ndarray, "down across"]:
    """Sums over square blocks; those at the lower and right edge may be smaller."""
    rows, cols = layer.shape
    if rows % block or cols % block:
        layer = np.pad(layer, ((0, -rows % block), (0, -cols % block)))
    parts = layer.reshape(layer.shape[0] // block, block, layer.shape[1] // block, block)
    return np.asarray(parts.sum(axis=3).sum(axis=1))
