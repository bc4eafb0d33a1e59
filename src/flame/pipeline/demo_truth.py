"""The truth of a simulated scene beside what was found in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int32
from scipy import ndimage

from flame.physics import Wind
from flame.pipeline.scene_products import SceneTruth
from flame.plumes import PlumeRecord, plume_letters
from flame.products import digits
from flame.products.plume_section import Truth, headline
from flame.tile import LabelledTile

__all__ = ["compare_with_truth", "true_wind"]

_EIGHT_NEIGHBOURS = np.ones((3, 3))
_FARTHEST_PX = 20.0
"""A label begins at most so far from its source: close to it the plume is a pixel wide, or hidden in noise."""


def true_wind(tile: LabelledTile) -> tuple[Wind, ...]:
    """The wind that a tile was simulated with, with the error that a weather model's wind has; none without a plume."""
    return tuple(
        Wind(source.wind_m_s, (source.wind_to_deg + 180.0) % 360.0, source="the simulation's own wind")
        for source in tile.sources[:1]
    )


def compare_with_truth(tile: LabelledTile, records: Sequence[PlumeRecord]) -> SceneTruth:
    """Which sources each plume is of, and what was found of each source.

    A source belongs to the labelled plume nearest to it, and to each found plume that shares a pixel with that. A label
    that no source is nearest to is a piece of some plume: the source nearest to it is its own too.
    """
    labels, _ = ndimage.label(tile.label, _EIGHT_NEIGHBOURS)
    own = [_label_of(labels, source.row, source.col) for source in tile.sources]
    found = [_labels_under(labels, record) for record in records]
    truths = []
    for record, under in zip(records, found, strict=True):
        belonging = {number for number, label in enumerate(own) if label in under}
        belonging |= {_nearest_source(tile, labels == label) for label in under - set(own) if tile.sources}
        sources = [tile.sources[number] for number in sorted(belonging)]
        truths.append(_truth(record, sum((source.emission_kg_h for source in sources), 0.0), len(sources)))
    rows = []
    for number, (source, label) in enumerate(zip(tile.sources, own, strict=True), start=1):
        hits = [record for record, under in zip(records, found, strict=True) if label is not None and label in under]
        rate = digits.amount(source.emission_kg_h, "kg/h")
        rows.append((f"source {number}", rate, _found(hits, label)))
    return SceneTruth(tile.label, truths, rows)


def _nearest_source(tile: LabelledTile, piece: Bool[np.ndarray, "row col"]) -> int:
    rows, cols = np.nonzero(piece)
    apart = [float(np.hypot(rows + 0.5 - s.row, cols + 0.5 - s.col).min()) for s in tile.sources]
    return int(np.argmin(apart))


def _found(hits: Sequence[PlumeRecord], label: int | None) -> str:
    if label is None:
        return "its plume is too faint for anyone to draw"
    if not hits:
        return "not found"
    return ", ".join(f"plume {plume_letters(record.number)}: {headline(record)}" for record in hits)


def _truth(record: PlumeRecord, kg_h: float, sources: int) -> Truth:
    if not sources:
        return Truth(0.0, "Truth: no source here; this plume is a false one.")
    words = f"Truth: {digits.amount(kg_h, 'kg/h')} from {sources} source{'' if sources == 1 else 's'}."
    rate = record.rate
    if rate is not None and rate.sigma_kg_h > 0:
        away = abs(rate.kg_h - kg_h) / rate.sigma_kg_h
        words += f" The rate found is {away:.1f} standard deviations from it."
    return Truth(kg_h, words)


def _label_of(labels: Int32[np.ndarray, "row col"], row: float, col: float) -> int | None:
    """The number of the labelled plume nearest to a point; None if there is none near by."""
    rows, cols = np.nonzero(labels)
    if not rows.size:
        return None
    apart = np.hypot(rows + 0.5 - row, cols + 0.5 - col)
    nearest = int(np.argmin(apart))
    return int(labels[rows[nearest], cols[nearest]]) if apart[nearest] <= _FARTHEST_PX else None


def _labels_under(labels: Int32[np.ndarray, "row col"], record: PlumeRecord) -> set[int]:
    """Numbers of the labelled plumes that share a pixel with a found one."""
    return set(np.unique(labels[_pixels(record, labels.shape)]).tolist()) - {0}


def _pixels(record: PlumeRecord, shape: tuple[int, int]) -> Bool[np.ndarray, "row col"]:
    """The pixels of a plume, from its outline."""
    from rasterio.features import rasterize

    shapes = [
        {"type": "Polygon", "coordinates": [ring[:, ::-1].tolist() + ring[:1, ::-1].tolist() for ring in rings]}
        for rings in ([polygon.exterior, *polygon.holes] for polygon in record.plume.polygons)
    ]
    return np.asarray(rasterize(shapes, out_shape=shape, dtype="uint8")).astype(np.bool_)
