"""Score histograms of plume and background pixels: precision-recall figures without keeping every pixel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, UInt32

from flame.errors import FlameError

__all__ = ["ScoreError", "ScoreHistogram", "ThresholdChoice"]

_KEPT_BITS = 18
_BINS = 1 << _KEPT_BITS
_SIGN = np.uint32(1 << 31)


class ScoreError(FlameError):
    """A score map that cannot be judged."""


def _ordered(score: Float32[np.ndarray, " pixel"]) -> UInt32[np.ndarray, " pixel"]:
    """Unsigned integers in the same order as the floats."""
    bits = score.view(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _lower_edges() -> Float32[np.ndarray, " bin"]:
    """Smallest float of each bin; bins beyond the finite floats get infinities or NaN and stay empty."""
    keys = np.arange(_BINS, dtype=np.uint32) << np.uint32(32 - _KEPT_BITS)
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float32)


@dataclass(frozen=True)
class ThresholdChoice:
    """A threshold and what it reaches on the pixels it was chosen from, before any opening."""

    threshold: float
    f1: float


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Counts of plume and background pixels by score, addable over tiles.

    A bin is the leading 18 bits of a float32 (sign, exponent, nine bits of mantissa), so scores of any unit and sign
    keep a relative resolution of 0.2 % or better without a range being chosen beforehand.

    Attributes:
        plume: Labelled plume pixels in each bin, by increasing score.
        background: All other valid pixels in each bin.
    """

    plume: Int[np.ndarray, " bin"] = field(default_factory=lambda: np.zeros(_BINS, dtype=np.int64))
    background: Int[np.ndarray, " bin"] = field(default_factory=lambda: np.zeros(_BINS, dtype=np.int64))

    @classmethod
    def of(
        cls,
        score: Float[np.ndarray, "row col"],
        label: Bool[np.ndarray, "row col"],
        valid: Bool[np.ndarray, "row col"],
    ) -> ScoreHistogram:
        """Histogram of one tile's valid pixels.

        Raises:
            ScoreError: If the score of a valid pixel is not finite.
        """
        histogram = cls()
        histogram.include(score, label, valid)
        return histogram

    def include(
        self,
        score: Float[np.ndarray, "row col"],
        label: Bool[np.ndarray, "row col"],
        valid: Bool[np.ndarray, "row col"],
    ) -> None:
        """Counts one more tile's valid pixels in place, which costs less than a histogram of its own.

        Raises:
            ScoreError: If the score of a valid pixel is not finite.
        """
        seen = np.ascontiguousarray(score[valid], dtype=np.float32)
        if not np.isfinite(seen).all():
            raise ScoreError(f"{int((~np.isfinite(seen)).sum())} valid pixels have a NaN or infinite score")
        bins = _ordered(seen + np.float32(0.0)) >> np.uint32(32 - _KEPT_BITS)  # + 0 turns -0 into 0
        marked = label[valid]
        np.add.at(self.plume, bins[marked], 1)
        np.add.at(self.background, bins[~marked], 1)

    def __add__(self, other: ScoreHistogram) -> ScoreHistogram:
        return ScoreHistogram(self.plume + other.plume, self.background + other.background)

    def _curve(
        self,
    ) -> tuple[Int[np.ndarray, " step"], Float[np.ndarray, " step"], Float[np.ndarray, " step"]]:
        """Occupied bins by falling score, with the true and false positives of everything at or above each."""
        occupied = np.flatnonzero(self.plume + self.background)[::-1]
        tp = np.cumsum(self.plume[occupied]).astype(np.float64)
        return occupied, tp, np.cumsum(self.background[occupied]).astype(np.float64)

    def auprc(self) -> float:
        """Area under the precision-recall curve as average precision; NaN without plume pixels."""
        total = int(self.plume.sum())
        if total == 0:
            return float("nan")
        _, tp, fp = self._curve()
        recall_steps = np.diff(tp, prepend=0.0) / total
        return float((recall_steps * tp / (tp + fp)).sum())

    def counts(self, threshold: float) -> tuple[int, int, int, int]:
        """True and false positives, false and true negatives of `score > threshold`, to the resolution of a bin."""
        above = _lower_edges() > np.float32(threshold)
        tp, fp = int(self.plume[above].sum()), int(self.background[above].sum())
        return tp, fp, int(self.plume.sum()) - tp, int(self.background.sum()) - fp

    def best_threshold(self) -> ThresholdChoice:
        """The threshold with the highest pixel F1; `score > threshold` is then called plume.

        Raises:
            ScoreError: If no plume pixel was counted.
        """
        total = int(self.plume.sum())
        if total == 0:
            raise ScoreError("no labelled plume pixel was counted, so no threshold can be chosen")
        occupied, tp, fp = self._curve()
        f1 = 2.0 * tp / (tp + fp + total)
        best = int(np.argmax(f1))
        edge = _lower_edges()[occupied[best]]
        return ThresholdChoice(float(np.nextafter(edge, np.float32(-np.inf))), float(f1[best]))
