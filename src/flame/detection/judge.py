"""One judgement for every method: the same thresholds, opening and smoothing for filters and networks.

A score map says little until it is cut at a threshold, and much depends on what is done around the cut. A network that
is opened beside a filter that is not is no comparison. Here every score map is judged in five ways:

    canonical         above the method's published threshold, nothing else
    canonical_opened  the same, then opened by the 3x3 cross: the rule of the paper's tables
    best              above the threshold with the best F1 on these very tiles
    best_opened       the same, with the best threshold after opening
    best_smoothed     above the best threshold of the map averaged by a Gaussian, with the best of a few widths

The last three choose on the tiles they are judged on: they say what a method could reach if its threshold were right,
and they favour the method. Only the first two need no knowledge of the tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import ndimage

from flame.detection.decision import CROSS, DecisionRule, plume_mask
from flame.detection.histogram import ScoreHistogram
from flame.detection.metrics import PixelCounts, logit

__all__ = ["RULES", "SMOOTHING_PX", "JudgedRow", "ScoreJudge", "judge_scores", "opened_score", "smoothed_score"]

SMOOTHING_PX = (0.7, 1.0, 1.5, 2.0, 3.0, 4.5)
"""Standard deviations of the Gaussians that are tried. A wider one blurs plumes of a few pixels away."""

RULES = {
    "canonical": "threshold {threshold}",
    "canonical_opened": "threshold {threshold}, opened",
    "best": "best threshold",
    "best_opened": "best threshold, opened",
    "best_smoothed": "best threshold, smoothed",
}
"""Every rule by name, with the words for a table."""

_LEAST = float(np.finfo(np.float32).min)


def opened_score(
    score: Float[np.ndarray, "row col"], valid: Bool[np.ndarray, "row col"]
) -> Float32[np.ndarray, "row col"]:
    """The grey opening by the 3x3 cross: above any threshold it is the opened mask of the score above that threshold.

    So one map holds the opened masks of all thresholds, and the best of them is found exactly. As in `plume_mask`,
    invalid pixels and everything beyond the edge are not plume; pixels in no whole cross of valid ones get the lowest
    float.
    """
    seen = np.where(valid, score, _LEAST).astype(np.float32)
    eroded = ndimage.grey_erosion(seen, footprint=CROSS, mode="constant", cval=_LEAST)
    return np.asarray(ndimage.grey_dilation(eroded, footprint=CROSS, mode="constant", cval=_LEAST))


def smoothed_score(
    score: Float[np.ndarray, "row col"], valid: Bool[np.ndarray, "row col"], sigma_px: float
) -> Float32[np.ndarray, "row col"]:
    """The Gaussian average of the valid pixels around each valid pixel, all weighing the same; 0 where invalid."""
    weight = ndimage.gaussian_filter(valid.astype(np.float32), sigma_px, mode="constant")
    total = ndimage.gaussian_filter(np.where(valid, score, 0.0).astype(np.float32), sigma_px, mode="constant")
    return np.where(valid, total / np.where(valid, weight, 1.0), 0.0).astype(np.float32)


@dataclass(frozen=True)
class JudgedRow:
    """What a method reaches under one rule.

    Attributes:
        threshold: A score must exceed it to be plume; a probability for methods that give one.
        counts: Pixels of all tiles.
        auprc: Area under the precision-recall curve of the map that is cut: the score, opened or smoothed.
        smoothing_px: Width of the Gaussian, if there was one.
    """

    threshold: float
    counts: PixelCounts
    auprc: float
    smoothing_px: float | None = None

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return self.counts.f1

    def to_dict(self) -> dict[str, float | int | None]:
        """Ready for JSON: undefined ratios are None."""
        figures: dict[str, float | int | None] = {"threshold": self.threshold}
        if self.smoothing_px is not None:
            figures["smoothing_px"] = self.smoothing_px
        figures |= {**self.counts.summary(), "auprc": self.auprc}
        return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in figures.items()}


class ScoreJudge:
    """Accumulates the score maps of one method, tile by tile, and gives its rows; only histograms are kept.

    Args:
        threshold: The method's canonical threshold; without one it has no canonical rows.
        probabilities: Whether scores are probabilities. They are then ranked and smoothed as logits, and thresholds
            are given back as probabilities.
        smoothing_px: Widths of the Gaussians to try.
    """

    def __init__(
        self,
        threshold: float | None = None,
        probabilities: bool = False,
        smoothing_px: tuple[float, ...] = SMOOTHING_PX,
    ) -> None:
        self._threshold, self._probabilities = threshold, probabilities
        self._canonical, self._canonical_opened = PixelCounts(), PixelCounts()
        self._plain, self._opened = ScoreHistogram(), ScoreHistogram()
        self._smoothed = {sigma_px: ScoreHistogram() for sigma_px in smoothing_px}

    def add(
        self,
        score: Float[np.ndarray, "row col"],
        label: Bool[np.ndarray, "row col"],
        valid: Bool[np.ndarray, "row col"],
    ) -> None:
        """Adds one tile.

        Raises:
            ScoreError: If the score of a valid pixel is not finite.
        """
        ranked = logit(score) if self._probabilities else score
        self._plain.include(ranked, label, valid)
        self._opened.include(opened_score(ranked, valid), label, valid)
        for sigma_px, histogram in self._smoothed.items():
            histogram.include(smoothed_score(ranked, valid, sigma_px), label, valid)
        if self._threshold is not None:
            above = plume_mask(score, valid, DecisionRule(self._threshold, opening=False))
            opened = plume_mask(score, valid, DecisionRule(self._threshold))
            self._canonical += PixelCounts.of(above, label, valid)
            self._canonical_opened += PixelCounts.of(opened, label, valid)

    def rows(self) -> dict[str, JudgedRow]:
        """The rows of `RULES`; those of the canonical threshold only if there is one.

        Raises:
            ScoreError: If no plume pixel was counted.
        """
        rows = {}
        if self._threshold is not None:
            rows["canonical"] = JudgedRow(self._threshold, self._canonical, self._plain.auprc())
            rows["canonical_opened"] = JudgedRow(self._threshold, self._canonical_opened, self._opened.auprc())
        rows["best"] = self._best(self._plain)
        rows["best_opened"] = self._best(self._opened)
        if self._smoothed:
            tried = [self._best(histogram, sigma_px) for sigma_px, histogram in self._smoothed.items()]
            rows["best_smoothed"] = max(tried, key=lambda row: row.f1)
        return rows

    def _best(self, histogram: ScoreHistogram, smoothing_px: float | None = None) -> JudgedRow:
        cut = histogram.best_threshold().threshold
        shown = 1.0 / (1.0 + math.exp(-cut)) if self._probabilities else cut
        return JudgedRow(shown, PixelCounts(*histogram.counts(cut)), histogram.auprc(), smoothing_px)


def judge_scores(
    tiles: Iterable[
        tuple[Float[np.ndarray, "_row _col"], Bool[np.ndarray, "_row _col"], Bool[np.ndarray, "_row _col"]]
    ],
    threshold: float | None = None,
    probabilities: bool = False,
) -> Mapping[str, JudgedRow]:
    """The rows of a method whose score maps are in memory.

    Args:
        tiles: Score, label and valid mask of each tile; tiles may differ in size.
        threshold: The method's canonical threshold, if it has one.
        probabilities: Whether scores are probabilities.
    """
    judge = ScoreJudge(threshold, probabilities)
    for score, label, valid in tiles:
        judge.add(score, label, valid)
    return judge.rows()
