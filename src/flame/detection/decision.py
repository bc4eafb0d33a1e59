"""From a score map to a plume mask: the one decision rule of the paper, for every method."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy import ndimage

from flame.detection.shapes import box_around, without_lines
from flame.errors import FlameError

__all__ = ["CROSS", "EIGHT_NEIGHBOURS", "DecisionRule", "plume_mask"]

CROSS = ndimage.generate_binary_structure(2, 1)
"""The 3x3 cross, structuring element of the opening."""

EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=np.bool_)
"""Pixels that touch, corners included, belong together."""


@dataclass(frozen=True)
class DecisionRule:
    """When a pixel is called plume.

    Attributes:
        threshold: A score must exceed it; 0.5 for probabilities (app:impl), a filter's own threshold otherwise.
        opening: Whether the mask is opened with the 3x3 cross, as for every learned model in the paper.
        core_sigmas: Pixels that touch, corners included, are kept only if somewhere among them it is as sure as this
            many standard deviations that there is gas, and if they are no line, or part of one: roads that absorb like
            methane have a core too. None, or 0: no such rule.
        fewest_pixels: Smaller pieces are not kept.
    """

    threshold: float = 0.5
    opening: bool = True
    core_sigmas: float | None = None
    fewest_pixels: int = 1

    @property
    def looks_at_pieces(self) -> bool:
        """Whether a pixel's fate depends on the whole piece that it belongs to."""
        return bool(self.core_sigmas) or self.fewest_pixels > 1

    @property
    def of_pixels(self) -> DecisionRule:
        """The part of it by which lines are judged before the end of a plume is seen."""
        return replace(self, core_sigmas=None, fewest_pixels=1)


def plume_mask(
    score: Float[np.ndarray, "row col"],
    valid: Bool[np.ndarray, "row col"],
    rule: DecisionRule | None = None,
    sigmas: Float[np.ndarray, "row col"] | None = None,
) -> Bool[np.ndarray, "row col"]:
    """The plume mask of a score map: above the threshold, opened by a 3x3 cross, valid pixels only.

    Then pieces without a core, lines and pieces that are too small are left out, if the rule says so.

    Invalid pixels and everything beyond the edge count as not plume, so a detection must fit a whole cross of valid
    pixels. The score stored under an invalid pixel has no influence.

    Args:
        score: Probability or filter score.
        valid: Pixels that may be used.
        rule: Threshold and morphology; the paper's rule for probabilities unless given.
        sigmas: How surely there is gas, in standard deviations, for rules that ask for a core.

    Raises:
        FlameError: If the rule asks for a core and there is nothing to tell it by.
    """
    rule = rule or DecisionRule()
    above = (score > rule.threshold) & valid
    mask = _opened(above) if rule.opening else above
    if rule.core_sigmas and sigmas is None:
        raise FlameError("a core is asked for, but this detector does not tell how sure it is of gas; leave it out")
    return _plausible(mask, sigmas, rule) if rule.looks_at_pieces else mask


def _plausible(
    mask: Bool[np.ndarray, "row col"], sigmas: Float[np.ndarray, "row col"] | None, rule: DecisionRule
) -> Bool[np.ndarray, "row col"]:
    box, left = box_around(mask), np.zeros_like(mask)
    pieces, count = ndimage.label(mask[box], EIGHT_NEIGHBOURS)
    kept = np.bincount(pieces.ravel(), minlength=count + 1) >= rule.fewest_pixels
    if sigmas is not None and rule.core_sigmas:
        has_core = np.zeros(count + 1, dtype=np.bool_)
        has_core[pieces[mask[box] & (sigmas[box] > rule.core_sigmas)]] = True
        kept &= has_core
    kept[0] = False
    left[box] = kept[pieces]
    return without_lines(left) if rule.core_sigmas else left


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
