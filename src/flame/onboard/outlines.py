"""Fewer corners for an outline, losing as little area as possible."""

from __future__ import annotations

import heapq

import numpy as np
from jaxtyping import Int

__all__ = ["simplified"]


def simplified(ring: Int[np.ndarray, "corner 2"], max_corners: int) -> Int[np.ndarray, "kept 2"]:
    """A ring with at most that many of its corners: again and again the one that spans the least area is left out.

    Visvalingam and Whyatt, "Line generalisation by repeated elimination of points", Cartographic Journal 30 (1993).
    """
    count = len(ring)
    if count <= max(max_corners, 3):
        return ring
    points: list[list[int]] = ring.tolist()
    before = [(i - 1) % count for i in range(count)]
    after = [(i + 1) % count for i in range(count)]

    def area(i: int) -> int:
        (r0, c0), (r1, c1), (r2, c2) = points[before[i]], points[i], points[after[i]]
        return abs((r1 - r0) * (c2 - c0) - (r2 - r0) * (c1 - c0))

    areas = [area(i) for i in range(count)]
    heap = [(a, i) for i, a in enumerate(areas)]
    heapq.heapify(heap)
    kept = [True] * count
    left = count
    while left > max(max_corners, 3):
        least, i = heapq.heappop(heap)
        if not kept[i] or least != areas[i]:
            continue
        kept[i] = False
        left -= 1
        after[before[i]], before[after[i]] = after[i], before[i]
        for neighbour in (before[i], after[i]):
            # Never less than what was left out before, so that a curve is thinned evenly.
            areas[neighbour] = max(area(neighbour), least)
            heapq.heappush(heap, (areas[neighbour], neighbour))
    return np.asarray(ring[np.array(kept)])
