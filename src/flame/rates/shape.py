"""Where a plume begins, where it goes, and how far it reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import pdist

from flame.rates.pixels import PlumePixels

__all__ = ["PlumeShape", "fetch_m", "find_shape"]

_END_SHARE = 0.25
"""Share of a plume's length that counts as one of its ends."""

_TRUST_WIND_DEG = 60.0


@dataclass(frozen=True)
class PlumeShape:
    """Origin and course of a plume.

    Attributes:
        source: Index of the pixel where it seems to begin.
        to_deg: Direction from there, clockwise from north.
        length_m: Extent along that direction.
        width_m: Enhancement-weighted width across it, two standard deviations to either side.
        fetch_m: Longest distance between any two of its pixels, their own size included.
        wind_disagrees: Whether the plume's own course differs from the wind's by more than 60 degrees.
    """

    source: int
    to_deg: float
    length_m: float
    width_m: float
    fetch_m: float
    wind_disagrees: bool = False


def find_shape(pixels: PlumePixels, wind_from_deg: float | None = None) -> PlumeShape:
    """The course of a plume along its own axis, its source at the end where the gas is densest.

    A plume is narrowest and its column highest at the source. Where the wind is known it decides between the two ends
    if it blows along the plume at all; a weather model's direction is often wrong by tens of degrees, so the axis
    itself stays the plume's own.

    Args:
        pixels: The plume.
        wind_from_deg: Where the wind blows from, if known.
    """
    weight = np.maximum(pixels.column_ppm_m, 0.0).astype(np.float64) + 1e-9
    to_deg = _axis_deg(pixels, weight)
    if _source_is_far(pixels, weight, to_deg):
        to_deg = (to_deg + 180.0) % 360.0
    disagrees = False
    if wind_from_deg is not None:
        turn = _turn_deg(to_deg, wind_from_deg + 180.0)
        if turn > 180.0 - _TRUST_WIND_DEG:
            to_deg = (to_deg + 180.0) % 360.0
        disagrees = min(turn, 180.0 - turn) > _TRUST_WIND_DEG
    along, across = pixels.along(to_deg)
    begin, length = float(along.min()), float(np.ptp(along))
    at_source = along <= begin + max(0.1 * length, pixels.side_m)
    source = int(np.flatnonzero(at_source)[np.argmax(weight[at_source])])
    centre = float(weight @ across / weight.sum())
    width = 4.0 * float(np.sqrt(weight @ np.square(across - centre) / weight.sum()))
    return PlumeShape(source, to_deg, length + pixels.side_m, max(width, pixels.side_m), fetch_m(pixels), disagrees)


def _axis_deg(pixels: PlumePixels, weight: Float[np.ndarray, " pixel"]) -> float:
    """Direction of the longest axis, clockwise from north; north where a plume has none."""
    place = np.stack([pixels.east_m, pixels.north_m]).astype(np.float64)
    centred = place - (place @ weight / weight.sum())[:, None]
    values, vectors = np.linalg.eigh((centred * weight) @ centred.T)
    if values[1] <= 0:
        return 0.0
    east, north = vectors[:, 1]
    return float(np.rad2deg(np.arctan2(east, north)) % 360.0)


def _source_is_far(pixels: PlumePixels, weight: Float[np.ndarray, " pixel"], to_deg: float) -> bool:
    """Whether the gas is denser at the far end of the direction than at its beginning."""
    along, _ = pixels.along(to_deg)
    reach = _END_SHARE * float(np.ptp(along))
    first, last = along <= along.min() + reach, along >= along.max() - reach
    return float(weight[last].mean()) > float(weight[first].mean())


def _turn_deg(a: float, b: float) -> float:
    return abs((a - b + 180.0) % 360.0 - 180.0)


def fetch_m(pixels: PlumePixels) -> float:
    """Longest distance between two of a plume's pixels, plus the pixels' own size, in metres."""
    place = np.stack([pixels.east_m, pixels.north_m], axis=1).astype(np.float64)
    if len(place) > 3:
        try:
            place = place[ConvexHull(place).vertices]
        except QhullError:  # all on one line: its two ends are enough
            order = np.lexsort((place[:, 1], place[:, 0]))
            place = place[[order[0], order[-1]]]
    longest = float(pdist(place).max()) if len(place) > 1 else 0.0
    return longest + pixels.side_m
