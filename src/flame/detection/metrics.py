"""How good masks are: pixel counts and everything the paper's tables say, accumulated tile by tile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float

from flame.detection.histogram import ScoreHistogram

__all__ = ["PLUME_SIZE_EDGES", "STRONG_EMISSION_KG_H", "Evaluation", "Metrics", "PixelCounts", "logit"]

STRONG_EMISSION_KG_H = 1000.0
"""Plumes from this emission rate on are strong, the others weak (STARCOP's split)."""

PLUME_SIZE_EDGES = (1, 100, 300, 1000, 3000)
"""First pixel count of each plume-size bin of a 512 x 512 tile (fig:plume_analysis_a); the last bin is open.

The figure's own edges are not printed except for "fewer than 100 plume pixels", which is kept. For tiles of other
sizes the edges scale with the tile's side: a plume is cut by the tile along its length and not across its width.
"""

_REFERENCE_SIDE = 512


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


@dataclass(frozen=True)
class PixelCounts:
    """True and false positives and negatives over valid pixels. Ratios without a denominator are NaN."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    @classmethod
    def of(
        cls,
        mask: Bool[np.ndarray, "row col"],
        label: Bool[np.ndarray, "row col"],
        valid: Bool[np.ndarray, "row col"],
    ) -> PixelCounts:
        """Counts of one tile; invalid pixels are in none of them."""
        tp = int((mask & label & valid).sum())
        fp = int((mask & ~label & valid).sum())
        fn = int((~mask & label & valid).sum())
        return cls(tp, fp, fn, int(valid.sum()) - tp - fp - fn)

    def __add__(self, other: PixelCounts) -> PixelCounts:
        return PixelCounts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn, self.tn + other.tn)

    @property
    def precision(self) -> float:
        """Share of detected pixels that are plume."""
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """Share of plume pixels that were detected."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    @property
    def iou(self) -> float:
        """Intersection over union of detected and labelled pixels."""
        return _ratio(self.tp, self.tp + self.fp + self.fn)

    @property
    def pixel_fpr(self) -> float:
        """Share of all valid background pixels that were detected."""
        return _ratio(self.fp, self.fp + self.tn)

    def summary(self) -> dict[str, float | int]:
        """Ratios and counts by name."""
        ratios = {name: getattr(self, name) for name in ("f1", "iou", "precision", "recall", "pixel_fpr")}
        return ratios | asdict(self)


@dataclass(frozen=True)
class Metrics:
    """The figures of `metrics.json`.

    Attributes:
        f1: Harmonic mean of precision and recall over all valid pixels of all tiles, as are the next four.
        iou: Intersection over union.
        precision: Share of detected pixels that are plume.
        recall: Share of plume pixels that were detected.
        pixel_fpr: Share of all valid background pixels that were detected.
        tile_fpr: Share of plume-free tiles with at least one detected pixel.
        auprc: Average precision of the score over all valid pixels, before any opening.
        by_plume_size: Counts of the tiles in each plume-size bin, named by the pixel counts of a 512 x 512 tile.
        strong: Counts of tiles whose plume emits at least 1000 kg/h.
        weak: Counts of tiles whose plume emits less.
        counts: Counts of all tiles.
        tiles: Number of tiles.
        plume_free_tiles: Number of tiles without a labelled pixel.
    """

    f1: float
    iou: float
    precision: float
    recall: float
    pixel_fpr: float
    tile_fpr: float
    auprc: float
    by_plume_size: Mapping[str, PixelCounts]
    strong: PixelCounts
    weak: PixelCounts
    counts: PixelCounts
    tiles: int
    plume_free_tiles: int

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON: undefined ratios are None, groups carry their ratios and counts."""
        plain: dict[str, object] = {}
        for name, value in vars(self).items():
            if isinstance(value, PixelCounts):
                plain[name] = _json_ready(value.summary())
            elif isinstance(value, Mapping):
                plain[name] = {key: _json_ready(counts.summary()) for key, counts in value.items()}
            else:
                plain[name] = None if isinstance(value, float) and math.isnan(value) else value
        return plain


def _json_ready(values: Mapping[str, float | int]) -> dict[str, float | int | None]:
    return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in values.items()}


def _bin_names() -> tuple[str, ...]:
    closed = [f"{low}-{high - 1}" for low, high in pairwise(PLUME_SIZE_EDGES)]
    return ("0", *closed, f"{PLUME_SIZE_EDGES[-1]}+")


def plume_size_bin(plume_pixels: int, tile_shape: tuple[int, int]) -> str:
    """Name of the plume-size bin of a tile, "0" for plume-free tiles."""
    if plume_pixels == 0:
        return "0"
    scale = _REFERENCE_SIDE / math.sqrt(tile_shape[0] * tile_shape[1])
    # At least the first bin: one pixel of a large mosaic may scale to less than one.
    return _bin_names()[max(1, int(np.searchsorted(PLUME_SIZE_EDGES, plume_pixels * scale, side="right")))]


class Evaluation:
    """Accumulates tiles and gives `Metrics`; nothing of a tile is kept but counts.

    Args:
        probabilities: Whether scores are probabilities. They are then ranked by their logit, which keeps the
            resolution of the histogram near 1.
    """

    def __init__(self, probabilities: bool = True) -> None:
        self._probabilities = probabilities
        self._counts = PixelCounts()
        self._histogram = ScoreHistogram()
        self._sizes = {name: PixelCounts() for name in _bin_names()}
        self._strong = PixelCounts()
        self._weak = PixelCounts()
        self._tiles = 0
        self._plume_free = 0
        self._alarmed = 0

    @property
    def histogram(self) -> ScoreHistogram:
        """Scores of all tiles so far, as logits if they are probabilities; `best_threshold` is for filters."""
        return self._histogram

    def add(
        self,
        score: Float[np.ndarray, "row col"],
        mask: Bool[np.ndarray, "row col"],
        label: Bool[np.ndarray, "row col"],
        valid: Bool[np.ndarray, "row col"],
        emission_kg_h: float | None = None,
    ) -> PixelCounts:
        """Adds one tile.

        Args:
            score: Probability or filter score, for the AUPRC.
            mask: What the decision rule made of the score.
            label: The truth.
            valid: Pixels that count.
            emission_kg_h: Emission rate behind the tile's plume if known; the tile then joins strong or weak.

        Returns:
            The tile's own counts.
        """
        counts = PixelCounts.of(mask, label, valid)
        self._counts += counts
        self._histogram.include(logit(score) if self._probabilities else score, label, valid)
        plume_pixels = counts.tp + counts.fn
        self._sizes[plume_size_bin(plume_pixels, label.shape)] += counts
        self._tiles += 1
        if plume_pixels == 0:
            self._plume_free += 1
            self._alarmed += counts.fp > 0
        elif emission_kg_h is not None and emission_kg_h >= STRONG_EMISSION_KG_H:
            self._strong += counts
        elif emission_kg_h is not None and emission_kg_h > 0:
            self._weak += counts
        return counts

    def metrics(self) -> Metrics:
        """Everything so far."""
        c = self._counts
        return Metrics(
            f1=c.f1,
            iou=c.iou,
            precision=c.precision,
            recall=c.recall,
            pixel_fpr=c.pixel_fpr,
            tile_fpr=_ratio(self._alarmed, self._plume_free),
            auprc=self._histogram.auprc(),
            by_plume_size=MappingProxyType(dict(self._sizes)),
            strong=self._strong,
            weak=self._weak,
            counts=c,
            tiles=self._tiles,
            plume_free_tiles=self._plume_free,
        )


def logit(probability: Float[np.ndarray, "row col"]) -> Float[np.ndarray, "row col"]:
    """Logit of probabilities, with 0 and 1 moved to the nearest that float32 tells apart; NaN stays NaN."""
    tiny = 2.0**-30
    p = np.clip(probability.astype(np.float64), tiny, 1.0 - tiny)
    return np.asarray(np.log(p) - np.log1p(-p))
