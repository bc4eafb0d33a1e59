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
    return np.asarray(ndimage.binary_opening(above, CROSS)) if rule.opening else above
