"""Faults in memory found and mended while tiles are run: golden copies, ranges, a known tile, a watchdog."""

from flame.onboard.guard.guard import Guard, GuardCounts, GuardSettings, Judged, Runtime
from flame.onboard.guard.known_tile import KnownTile, known_tile
from flame.onboard.guard.watchdog import EXIT_HUNG, Watchdog

__all__ = [
    "EXIT_HUNG",
    "Guard",
    "GuardCounts",
    "GuardSettings",
    "Judged",
    "KnownTile",
    "Runtime",
    "Watchdog",
    "known_tile",
]
