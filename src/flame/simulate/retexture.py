"""The pattern of one ground in the colours of another: its map of materials with the other's spectra.

There are few real scenes. What they have and simulated ground has not, the way things lie beside each other in space on
one side and how spectra vary on the other, need not be learned together: each pattern can wear the spectra of every
other ground.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32, Float64

__all__ = ["retextured"]

_LEAST = np.float32(1e-6)
_LEAST_SHARE = 1e-9
"""Directions with less of the variance of the strongest hold rounding, not ground; noise takes their place."""
_MOST_SIGMAS = np.float32(12.0)
_MIXED = 4
"""So many neighbouring components are turned into each other."""


def retextured(
    rng: np.random.Generator,
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
    donor: Float32[np.ndarray, "band pixel"],
) -> Float32[np.ndarray, "band row col"]:
    """A ground whose pattern stays and whose log-spectra have the mean and covariance of another's.

    Principal components go over by rank, brightness to brightness; those behind it are mixed with their neighbours at
    random, so that no two draws are the same materials.

    Args:
        rng: Source of randomness.
        radiance: Plume-free ground without noise.
        valid: Pixels that count.
        donor: Spectra of the other ground, in the same bands.
    """
    logs = np.log(np.maximum(radiance, _LEAST)).reshape(len(radiance), -1)
    mean, values, vectors = _components(logs[:, valid.ravel()])
    other_mean, other_values, other_vectors = _components(np.log(np.maximum(donor, _LEAST)))
    known = values > _LEAST_SHARE * values[0]
    scale = np.where(known, 1.0 / np.sqrt(np.where(known, values, 1.0)), 0.0)
    white = (scale[:, None] * vectors.T).astype(np.float32) @ (logs - mean.astype(np.float32)[:, None])
    np.clip(white, -_MOST_SIGMAS, _MOST_SIGMAS, out=white)
    white[~known] = rng.standard_normal((int((~known).sum()), white.shape[1]), dtype=np.float32)
    root = other_vectors * np.sqrt(np.maximum(other_values, 0.0)) @ _mixing(rng, len(values))
    changed = root.astype(np.float32) @ white + other_mean.astype(np.float32)[:, None]
    return np.asarray(np.exp(changed).reshape(radiance.shape), dtype=np.float32)


def _components(
    logs: Float32[np.ndarray, "band pixel"],
) -> tuple[Float64[np.ndarray, " band"], Float64[np.ndarray, " band"], Float64[np.ndarray, "band band"]]:
    """Mean, and variances and directions of the principal components, the strongest first and brightening."""
    exact = logs.astype(np.float64)
    values, vectors = np.linalg.eigh(np.cov(exact))
    values, vectors = values[::-1], vectors[:, ::-1]
    return exact.mean(axis=1), values, vectors * np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)


def _mixing(rng: np.random.Generator, count: int) -> Float64[np.ndarray, "component component"]:
    """A rotation that leaves the first component and turns the others within groups of neighbours."""
    whole = np.eye(count)
    first = 1
    while first < count:
        size = min(_MIXED, count - first)
        turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
        whole[first : first + size, first : first + size] = turn
        first += size
    return whole
