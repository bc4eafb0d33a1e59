"""The adaptive coherence/cosine estimator (ACE)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters.background import usable_background
from flame.filters.pixels import Block, pixels_of
from flame.filters.target import LinearSettings, target_spectrum
from flame.physics import BandSet

__all__ = ["score"]

_PRODUCTS_ON_ONE_THREAD = 260_000
"""Above this BLAS wakes threads of its own, which get in the way of those that share out the blocks."""


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: LinearSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """Squared cosine between pixel and target after whitening.

    `(t^T C^-1 z)^2 / ((t^T C^-1 t) (z^T C^-1 z))` with `z = x - mean`; it does not tell more methane from less. Kraut,
    Scharf and McWhorter, "Adaptive subspace detectors", IEEE Transactions on Signal Processing 49 (2001).

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Target and background; defaults if None.

    Returns:
        Statistic between 0 and 1. 0 where invalid.
    """
    settings = settings or LinearSettings()
    usable, background = usable_background(pixels_of(radiance, bands, valid), settings.background)
    pixels = usable.pixels
    target = target_spectrum(settings.target, background, bands, centred=True)
    whitener = background.whitening().matrix
    direction = whitener @ target
    direction /= np.linalg.norm(direction)
    # The cosine's numerator rides along as one more row of the product.
    rows = np.vstack([whitener, direction @ whitener]).astype(np.float32)
    mean32 = background.mean.astype(np.float32)[:, None]
    out = np.zeros(pixels.usable.size, dtype=np.float32)

    step = max(16, _PRODUCTS_ON_ONE_THREAD // rows.size)

    def fill(block: Block) -> None:
        centred = block.spectra - mean32
        cosine = np.empty(centred.shape[1], dtype=np.float32)
        for start in range(0, cosine.size, step):
            whitened = rows @ centred[:, start : start + step]
            np.square(whitened, out=whitened)
            energy = np.maximum(whitened[:-1].sum(axis=0), np.finfo(np.float32).tiny)
            np.divide(whitened[-1], energy, out=cosine[start : start + step])
        out[block.where] = np.minimum(cosine, 1.0)

    pixels.map(fill)
    return pixels.as_image(out)
