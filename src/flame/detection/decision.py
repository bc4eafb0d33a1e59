"""From a score map to a plume mask: the one decision rule of the paper, for every method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy import ndimage

__all__ = ["CROSS", "DecisionRule", "plume_mask"]

CROSS = ndimage.generate_binary_structure(2, 1)
"""The 3x3 cross, structuring element of the opening."""


@dataclass(frozen=True)
class DecisionRule:
    """When a pixel is called plume.

    Attributes:
        threshold: A score must exceed it; 0.5 for probabilities (app:impl), a filter's own threshold otherwise.
        opening: Whether the mask is opened with the 3x3 cross, as for every learned model in the paper.
    """

    threshold: float = 0.5
    opening: bool = True


def plume_mask(
    score: Float[np.ndarray, "row col"],
    valid: Bool[np.ndarray, "row col"],
    rule: DecisionRule | None = None,
) -> Bool[np.ndarray, "row col"]:
    """The plume mask of a score map: above the threshold, opened by a 3x3 cross, valid pixels only.

    Invalid pixels and everything beyond the edge count as not plume, so a detection must fit a whole cross of valid
    pixels. The score stored under an invalid pixel has no influence.

    Args:
        score: Probability or filter score.
        valid: Pixels that may be used.
        rule: Threshold and morphology; the paper's rule for probabilities unless given.
    """
    rule = rule or DecisionRule()
    above = (score > rule.threshold) & valid
    return _opened(above) if rule.opening else above


def _opened(mask: Bool[np.ndarray, "row col"]) -> Bool[np.ndarray, "row col"]:
    """The opening by `CROSS`, equal to SciPy's, in ten passes over the bytes: SciPy's own takes long in flight."""
    padded = np.pad(mask, 1)
    middle, neighbours = _cross(padded)
    for neighbour in neighbours:
        middle = middle & neighbour
    padded[1:-1, 1:-1] = middle
    opened, neighbours = _cross(padded)
    for neighbour in neighbours:
        opened = opened | neighbour
    return opened


def _cross(padded: Bool[np.ndarray, "_row _col"]) -> tuple[np.ndarray, list[np.ndarray]]:
    """A padded mask's middle, and the same moved by one up, down, left and right."""
    inner = slice(1, -1)
    shifted = ((slice(2, None), inner), (slice(0, -2), inner), (inner, slice(2, None)), (inner, slice(0, -2)))
    return padded[inner, inner], [padded[where] for where in shifted]
