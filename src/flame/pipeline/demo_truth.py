"""The truth of a simulated scene beside what was found in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int32
from scipy import ndimage

from flame.physics import Wind
from flame.pipeline.scene_products import SceneTruth
from flame.plumes import PlumeRecord, plume_letters
from flame.products import digits
from flame.products.plume_section import Truth, headline
from flame.tile import LabelledTile, PlumeSource

__all__ = ["SourceTruth", "compare_with_truth", "sources_found", "true_wind"]

_EIGHT_NEIGHBOURS = np.ones((3, 3))
_FARTHEST_PX = 20.0
"""A label begins at most so far from its source: close to it the plume is a pixel wide, or hidden in noise."""


def true_wind(tile: LabelledTile) -> tuple[Wind, ...]:
    """The wind that a tile was simulated with, with the error that a weather model's wind has; none without a plume."""
    return tuple(
        Wind(source.wind_m_s, (source.wind_to_deg + 180.0) % 360.0, source="the simulation's own wind")
        for source in tile.sources[:1]
    )


@dataclass(frozen=True, eq=False)
class SourceTruth:
    """A true source and what was found of it.

    Attributes:
        source: The source.
        drawn: Whether its plume is strong enough to have a label.
        plumes: The found plumes that are of it, whole or in pieces.
    """

    source: PlumeSource
    drawn: bool
    plumes: tuple[PlumeRecord, ...]


def sources_found(tile: LabelledTile, records: Sequence[PlumeRecord]) -> list[SourceTruth]:
    """What was found of each source; see `compare_with_truth`."""
    owners, of_records = _owners(tile, records)
    drawn = set().union(*owners.values())
    return [
        SourceTruth(
            source,
            number in drawn,
            tuple(record for record, of in zip(records, of_records, strict=True) if number in of),
        )
        for number, source in enumerate(tile.sources)
    ]


def compare_with_truth(tile: LabelledTile, records: Sequence[PlumeRecord]) -> SceneTruth:
    """Which sources each plume is of, and what was found of each source.

    A source belongs to the labelled piece nearest to it, and to each found plume that shares a pixel with that. A piece
    that no source is nearest to is of some plume too: of the source nearest to it.
    """
    _, of_records = _owners(tile, records)
    truths = []
    for record, of in zip(records, of_records, strict=True):
        others = [
            other.number for other, also in zip(records, of_records, strict=True) if other is not record and also & of
        ]
        truths.append(_truth(record, [tile.sources[number] for number in sorted(of)], others))
    rows = [
        (f"source {number}", digits.amount(each.source.emission_kg_h, "kg/h"), _found(each))
        for number, each in enumerate(sources_found(tile, records), start=1)
    ]
    return SceneTruth(tile.label, truths, rows)


def _owners(tile: LabelledTile, records: Sequence[PlumeRecord]) -> tuple[dict[int, set[int]], list[set[int]]]:
    """Numbers of the sources of each labelled piece, and of each found plume."""
    labels, count = ndimage.label(tile.label, _EIGHT_NEIGHBOURS)
    owners: dict[int, set[int]] = {piece: set() for piece in range(1, count + 1)}
    for number, source in enumerate(tile.sources):
        if (piece := _label_of(labels, source.row, source.col)) is not None:
            owners[piece].add(number)
    for piece, of in owners.items():
        if not of and tile.sources:
            of.add(_nearest_source(tile, labels == piece))
    return owners, [set().union(*(owners[piece] for piece in _labels_under(labels, record))) for record in records]


def _nearest_source(tile: LabelledTile, piece: Bool[np.ndarray, "row col"]) -> int:
    rows, cols = np.nonzero(piece)
    apart = [float(np.hypot(rows + 0.5 - s.row, cols + 0.5 - s.col).min()) for s in tile.sources]
    return int(np.argmin(apart))


def _found(of: SourceTruth) -> str:
    if not of.drawn:
        return "its plume is too faint for anyone to draw"
    if not of.plumes:
        return "not found"
    return ", ".join(f"plume {plume_letters(record.number)}: {headline(record)}" for record in of.plumes)


def _truth(record: PlumeRecord, sources: Sequence[PlumeSource], others: Sequence[int]) -> Truth:
    """The truth in words; `others` are found plumes of the same sources."""
    if not sources:
        return Truth(0.0, "Truth: no source here; this plume is a false one.")
    kg_h = sum(source.emission_kg_h for source in sources)
    words = f"Truth: {digits.amount(kg_h, 'kg/h')} from {len(sources)} source{'' if len(sources) == 1 else 's'}."
    if others:
        letters = " and ".join(plume_letters(number) for number in others)
        return Truth(kg_h, f"{words} Plume {letters} is of the same: each is a piece, and its rate is that of a piece.")
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
