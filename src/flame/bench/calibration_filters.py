"""Classical filters on simulated tiles beside what is published of them on STARCOP's test tiles.

A filter sees what matters about a scene at once: how noisy it is, how much of its clutter looks like methane, how
strong its plumes are and how generously they were outlined. A simulator that gives every filter its published
precision, recall and false alarms is like the real thing in all of these.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Int

from flame.detection import DecisionRule, PixelCounts, ScoreHistogram, plume_mask
from flame.filters import filter_named
from flame.tile import LabelledTile

__all__ = [
    "AIMS",
    "PARTS",
    "Aim",
    "FilterFigures",
    "FilterTable",
    "Probe",
    "TileResponse",
    "as_json",
    "filter_figures",
    "met_aims",
    "probes",
    "respond_to",
]

FilterTable = Mapping[str, "tuple[FilterFigures | None, ...]"]
"""Figures by part, in the order of `probes`."""

PARTS = ("all", "strong", "weak")
_STRONG_PIXELS = 1000


@dataclass(frozen=True)
class Aim:
    """How near a simulated figure should be: by at most `difference`, or within a `factor`."""

    difference: float | None = None
    factor: float | None = None

    def met(self, ours: float, theirs: float) -> bool:
        """Whether a figure is near enough; one that could not be measured is not."""
        if self.factor is not None:
            return ours > 0 and max(ours / theirs, theirs / ours) <= self.factor
        return self.difference is not None and abs(ours - theirs) <= self.difference


@dataclass(frozen=True)
class FilterFigures:
    """What one filter reaches on a set of tiles.

    Attributes:
        precision, recall, pixel_fpr: Of the mask at the canonical threshold, opened by the 3x3 cross.
        auprc, best_threshold, best_f1: Of the score itself, without opening.
    """

    precision: float
    recall: float
    pixel_fpr: float
    auprc: float
    best_threshold: float
    best_f1: float


AIMS: Mapping[str, Aim] = {
    "precision": Aim(difference=0.12),
    "recall": Aim(difference=0.12),
    "pixel_fpr": Aim(factor=2.0),
    "auprc": Aim(difference=0.06),
    "best_threshold": Aim(factor=1.5),
}


@dataclass(frozen=True)
class Probe:
    """A filter with its published figures.

    Attributes:
        filter: Name in `flame.filters`.
        threshold: Canonical threshold.
        published: Figures on STARCOP's test tiles, by part.
    """

    filter: str
    threshold: float
    published: Mapping[str, FilterFigures]

    @property
    def title(self) -> str:
        """Name for a table."""
        return filter_named(self.filter).title


@lru_cache(maxsize=1)
def probes() -> tuple[Probe, ...]:
    """The filters whose figures on STARCOP are published, packaged with their source."""
    stored = json.loads((files("flame.bench") / "data" / "starcop_filters.json").read_text(encoding="utf-8"))

    def figures(row: dict[str, Any], part: str) -> FilterFigures:
        opened = PixelCounts(**row["canonical_opened"][part])
        return FilterFigures(opened.precision, opened.recall, opened.pixel_fpr, **row["plain"][part])

    return tuple(
        Probe(name, row["threshold"], {part: figures(row, part) for part in PARTS})
        for name, row in stored["filters"].items()
    )


@dataclass(frozen=True, eq=False)
class _Response:
    """One filter on one tile; of the score histogram only the occupied bins, since most are empty."""

    counts: PixelCounts
    bins: Int[np.ndarray, " occupied"]
    plume: Int[np.ndarray, " occupied"]
    background: Int[np.ndarray, " occupied"]


@dataclass(frozen=True, eq=False)
class TileResponse:
    """All filters on one tile.

    Attributes:
        part: `strong`, `weak` or `none`, by the number of label pixels.
        responses: In the order of `probes`.
    """

    part: str
    responses: tuple[_Response, ...]


def respond_to(tile: LabelledTile) -> TileResponse:
    """Runs every published filter on one tile.

    Radiance is put into STARCOP's unit first, pi L / cos(sun): the additive target is a radiance of its own and depends
    on it.
    """
    scene = tile.scene.methane()
    cosine = np.cos(np.deg2rad(scene.acquisition.solar_zenith_deg or 0.0))
    radiance = scene.radiance * np.float32(np.pi / cosine)
    responses = []
    for probe in probes():
        score = filter_named(probe.filter).score(radiance, scene.bands, scene.valid)
        mask = plume_mask(score, scene.valid, DecisionRule(probe.threshold))
        histogram = ScoreHistogram.of(score, tile.label, scene.valid)
        occupied = np.flatnonzero(histogram.plume + histogram.background)
        responses.append(
            _Response(
                PixelCounts.of(mask, tile.label, scene.valid),
                occupied,
                histogram.plume[occupied],
                histogram.background[occupied],
            )
        )
    labelled = int((tile.label & scene.valid).sum())
    part = "none" if labelled == 0 else "strong" if labelled > _STRONG_PIXELS else "weak"
    return TileResponse(part, tuple(responses))


def filter_figures(tiles: Iterable[TileResponse]) -> FilterTable:
    """Figures of every filter for all, strong and weak tiles, in the order of `probes`; None without plume pixels."""
    tiles = list(tiles)
    result = {}
    for part in PARTS:
        members = [tile for tile in tiles if part in ("all", tile.part)]
        result[part] = tuple(_pooled([tile.responses[index] for tile in members]) for index in range(len(probes())))
    return result


def _pooled(responses: list[_Response]) -> FilterFigures | None:
    counts = sum((response.counts for response in responses), PixelCounts())
    if counts.tp + counts.fn == 0:
        return None
    total = ScoreHistogram()
    for response in responses:
        total.plume[response.bins] += response.plume
        total.background[response.bins] += response.background
    best = total.best_threshold()
    pixel_fpr = counts.fp / max(counts.fp + counts.tn, 1)
    found = counts.tp + counts.fp
    precision = counts.tp / found if found else 0.0
    return FilterFigures(
        precision, counts.tp / (counts.tp + counts.fn), pixel_fpr, total.auprc(), best.threshold, best.f1
    )


def met_aims(ours: FilterTable, theirs: FilterTable) -> tuple[int, int]:
    """How many figures are as near as they should be, and how many there are."""
    checks = [
        mine is not None and aim.met(getattr(mine, name), getattr(real, name))
        for part in PARTS
        for mine, real in zip(ours[part], theirs[part], strict=True)
        if real is not None
        for name, aim in AIMS.items()
    ]
    return sum(checks), len(checks)


def as_json(ours: FilterTable, theirs: FilterTable) -> list[dict[str, object]]:
    """The rows for `--json`, each beside the reference's."""
    return [
        {
            "filter": probe.title,
            "tiles": part,
            "simulated": None if mine is None else asdict(mine),
            "reference": None if real is None else asdict(real),
        }
        for part in PARTS
        for probe, mine, real in zip(probes(), ours[part], theirs[part], strict=True)
    ]
