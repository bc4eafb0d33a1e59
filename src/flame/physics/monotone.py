"""Monotone cubic interpolation (Fritsch and Butland 1984), equal to SciPy's PchipInterpolator.

SciPy's own brings 26 MB of other interpolators with it, which a runtime in flight would carry for this one table.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["monotone_cubic"]


def monotone_cubic(
    x: Float[np.ndarray, " node"], y: Float[np.ndarray, node * any], at: Float[np.ndarray, " point"]
) -> Float[np.ndarray, point * any]:
    """Values between nodes, without overshoot: where `y` rises from node to node, so does the curve.

    Args:
        x: At least three nodes, rising.
        y: Values there, along the first axis.
        at: Where to interpolate, between the first and the last node.
    """
    width = np.diff(x).reshape(-1, *[1] * (y.ndim - 1))
    secant = np.diff(y, axis=0) / width
    slope = _slopes(width, secant)
    bend = 3.0 * secant - 2.0 * slope[:-1] - slope[1:]
    twist = slope[:-1] + slope[1:] - 2.0 * secant
    out = np.empty((len(at), *y.shape[1:]))
    intervals = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    for place, (point, k) in enumerate(zip(at, intervals, strict=True)):  # one by one: few points, many values
        step = float(x[k + 1] - x[k])
        t = float(point - x[k]) / step
        out[place] = y[k] + step * t * (slope[k] + t * (bend[k] + t * twist[k]))
    return out


def _slopes(
    width: Float[np.ndarray, interval * any], secant: Float[np.ndarray, interval * any]
) -> Float[np.ndarray, node * any]:
    """Slopes at the nodes: weighted harmonic means of the neighbouring secants, zero at an extremum."""
    before, after = width[:-1], width[1:]
    weights = 2.0 * after + before, after + 2.0 * before
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (weights[0] + weights[1]) / (weights[0] / secant[:-1] + weights[1] / secant[1:])
    inner = np.where(secant[:-1] * secant[1:] > 0, mean, 0.0)
    first, last = _end(width[0], width[1], secant[0], secant[1]), _end(width[-1], width[-2], secant[-1], secant[-2])
    return np.concatenate([first[None], inner, last[None]])


def _end(
    width: Float[np.ndarray, "*any"],
    next_width: Float[np.ndarray, "*any"],
    secant: Float[np.ndarray, "*other"],
    next_secant: Float[np.ndarray, "*other"],
) -> Float[np.ndarray, "*other"]:
    """The slope at an end by three points, held where it would overshoot."""
    slope = ((2.0 * width + next_width) * secant - width * next_secant) / (width + next_width)
    held = np.where((secant * next_secant < 0) & (np.abs(slope) > 3.0 * np.abs(secant)), 3.0 * secant, slope)
    return np.where(np.sign(slope) != np.sign(secant), 0.0, held)
