"""Polygons on the globe as RFC 7946 wants them: cut at the date line (section 3.1.9), outer rings counter-clockwise.

A ring around a pole is closed over the pole first, so that a plain plane holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

__all__ = ["Ring", "globe_polygons", "signed_area"]

Ring = Float[np.ndarray, "_corner 2"]
"""Corners as (longitude, latitude) in degrees; the first is not repeated."""


def globe_polygons(rings: Sequence[Ring]) -> list[list[Ring]]:
    """Cuts a polygon where it crosses the date line.

    Args:
        rings: The outer ring, then the holes; longitudes of any turn of the globe.

    Returns:
        Polygons with longitudes of -180 to 180, each its outer ring (counter-clockwise) and then its holes
        (clockwise). Parts without any area are left out.
    """
    outer = _oriented(_unrolled(rings[0]), left=True)
    holes = [_near(_oriented(_unrolled(hole), left=False), outer) for hole in rings[1:]]
    turn = np.floor((outer[:, 0].min() + 180) / 360)
    parts = [[ring - [360 * turn, 0] for ring in (outer, *holes)]]
    done: list[list[Ring]] = []
    while parts:
        within = [part for part in parts if part[0][:, 0].max() <= 180]
        across = [part for part in parts if part[0][:, 0].max() > 180]
        done += within + [piece for part in across for piece in _side(part, 180.0, left=True)]
        right = [piece for part in across for piece in _side(part, 180.0, left=False)]
        parts = [[ring - [360, 0] for ring in piece] for piece in right]
    return [part for part in done if signed_area(part[0]) > 0]


def signed_area(ring: Ring) -> float:
    """Area in square degrees, positive if the ring turns left (counter-clockwise)."""
    x, y = (ring - ring[0]).T
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) / 2


def _unrolled(ring: Ring) -> Ring:
    """The ring without jumps of longitude; one that goes around a pole is closed over it."""
    steps = np.diff(ring[:, 0], append=ring[0, 0])
    steps = (steps + 180) % 360 - 180
    lon = ring[0, 0] + np.concatenate([[0.0], np.cumsum(steps)])
    if abs(lon[-1] - lon[0]) < 180:
        return np.stack([lon[:-1], ring[:, 1]], axis=1)
    pole = 90.0 if ring[:, 1].mean() > 0 else -90.0
    around = np.stack([lon, np.append(ring[:, 1], ring[0, 1])], axis=1)
    return np.concatenate([around, [[lon[-1], pole], [lon[0], pole]]])


def _oriented(ring: Ring, left: bool) -> Ring:
    return ring if (signed_area(ring) > 0) == left else ring[::-1]


def _near(hole: Ring, outer: Ring) -> Ring:
    """The hole on the same turn of the globe as the outer ring."""
    turns = np.round((outer[:, 0].mean() - hole[:, 0].mean()) / 360)
    return np.asarray(hole + np.array([360 * turns, 0]))


def _side(rings: Sequence[Ring], at: float, left: bool) -> list[list[Ring]]:
    """What of a polygon lies on one side of a meridian."""
    whole: list[Ring] = []
    chains: list[Ring] = []
    for ring in rings:
        kept = (ring[:, 0] < at) == left
        if kept.all():
            whole.append(ring)
        elif kept.any():
            chains += _chains(ring, kept, at)
    pieces = [[ring] for ring in _joined(chains) if signed_area(ring) > 0]
    if not pieces:
        return [whole] if whole and whole[0] is rings[0] else []
    for hole in whole:  # The outer ring was cut, so these are holes.
        inside = [_corners_inside(hole, piece[0]) for piece in pieces]
        pieces[int(np.argmax(inside))].append(hole)
    return pieces


def _chains(ring: Ring, kept: np.ndarray, at: float) -> list[Ring]:
    """The stretches of a ring on the kept side, each from the meridian to the meridian."""
    start = int(np.flatnonzero(kept & ~np.roll(kept, 1))[0])
    order = np.roll(np.arange(len(ring)), -start)
    ring, kept = ring[order], kept[order]
    chains, current = [], [_crossing(ring[-1], ring[0], at)]
    for (one, other), (here, there) in zip(pairwise([*ring, ring[0]]), pairwise([*kept.tolist(), True]), strict=True):
        if here:
            current.append(one)
        if here != there:
            current.append(_crossing(one, other, at))
            if here:
                chains.append(np.array(current))
                current = []
    return chains


def _crossing(one: np.ndarray, other: np.ndarray, at: float) -> np.ndarray:
    share = (at - one[0]) / (other[0] - one[0])
    return np.array([at, one[1] + share * (other[1] - one[1])])


def _joined(chains: Sequence[Ring]) -> list[Ring]:
    """Closes chains along the meridian.

    Its stretches inside the polygon follow each other without overlap, each between a chain that ends and one that
    begins: so in the order of latitude the first end belongs to the first beginning, and so on.
    """
    ends = sorted(range(len(chains)), key=lambda k: chains[k][-1, 1])
    beginnings = sorted(range(len(chains)), key=lambda k: chains[k][0, 1])
    follower = dict(zip(ends, beginnings, strict=True))
    rings = []
    while follower:
        first = at = next(iter(follower))
        ring = []
        while at in follower:
            ring.append(chains[at])
            at = follower.pop(at)
        assert at == first
        rings.append(np.concatenate(ring))
    return rings


def _corners_inside(hole: Ring, ring: Ring) -> int:
    """How many corners of a hole lie inside a ring, by crossing number."""
    x, y = hole[:, :1], hole[:, 1:]
    (x0, y0), (x1, y1) = ring.T, np.roll(ring, -1, axis=0).T
    spans = (y0 > y) != (y1 > y)
    cross = x < x0 + (y - y0) / np.where(y1 == y0, 1.0, y1 - y0) * (x1 - x0)
    return int(((spans & cross).sum(axis=1) % 2).sum())
