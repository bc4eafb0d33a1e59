"""A tile's own background: mean and covariance of its log-radiance.

The log-radiance of a tile has a condition number near 1e5 (brightness varies by 1, methane by 0.01). Whitened,
`y = C^-1/2 (l - mu)` and `t = C^-1/2 s`, every direction counts by what it stands out from the background, and
`t.y / t.t` is the log-domain matched filter with full covariance.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32

from flame.prepare.settings import BackgroundSettings

__all__ = ["inverse_root", "tile_background"]


def tile_background(
    log: Float32[np.ndarray, "block band rows col"],
    usable: Bool[np.ndarray, "row col"],
    unit_spectrum: Float[np.ndarray, " band"],
    settings: BackgroundSettings,
) -> tuple[Float[np.ndarray, " band"], Float[np.ndarray, "band band"]]:
    """Mean log-spectrum of a tile and `C^-1/2`, from a regular sample of its usable pixels, in float64.

    A coarse grid may miss the few usable pixels of a tile; then all of them are looked at.

    Args:
        log: Log-radiance in blocks of rows.
        usable: Pixels that may be used.
        unit_spectrum: Unit absorption spectrum.
        settings: How the background is estimated.
    """
    rows, cols = usable.shape
    step = max(1, int((rows * cols / settings.samples) ** 0.5))
    seen = usable[::step, ::step]
    if step > 1 and int(seen.sum()) < 2 * log.shape[1]:
        step, seen = 1, usable
    block, row = np.divmod(np.arange(0, rows, step), log.shape[2])
    sample = np.moveaxis(log[block, :, row, ::step].astype(np.float64), 1, 0)
    sample = sample.reshape(len(sample), -1) if seen.all() else sample[:, seen]
    weight = np.ones(sample.shape[1])
    mean, whitening = _weighted_whitening(sample, weight, settings.floor)
    for _ in range(settings.passes - 1):
        white = whitening @ (sample - mean[:, None])
        target = whitening @ unit_spectrum
        response = target @ white / max(float(np.linalg.norm(target)), 1e-12)
        power = np.einsum("bp,bp->p", white, white) / len(white)
        near = np.minimum(1.0 / np.maximum(power, 1e-12), 1.0)
        weight = near * (response < settings.plume_sigma)
        mean, whitening = _weighted_whitening(sample, weight, settings.floor)
    return mean, whitening


def _weighted_whitening(
    sample: Float[np.ndarray, "band pixel"], weight: Float[np.ndarray, " pixel"], floor: float
) -> tuple[Float[np.ndarray, " band"], Float[np.ndarray, "band band"]]:
    """Weighted mean, and inverse root of the covariance about it."""
    total = max(float(weight.sum()), 1.0)
    mean = sample @ weight / total
    centred = sample - mean[:, None]
    covariance = (centred * weight) @ centred.T / total
    return mean, inverse_root(covariance, total, floor)


def inverse_root(
    covariance: Float[np.ndarray, "band band"], count: float, floor: float
) -> Float[np.ndarray, "band band"]:
    """`C^-1/2` of a sample covariance, its eigenvalues raised by what so few samples leave unknown.

    Each eigenvalue gains `bands / count` of the median one (the noise level) and `floor`, so a tile with fewer pixels
    than bands, or with one constant value, still has a finite inverse.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    noise = values[(values.size - 1) // 2]  # the lower median
    raised = values + noise * (values.size / count) + floor
    return np.asarray((vectors / np.sqrt(raised)) @ vectors.T)
