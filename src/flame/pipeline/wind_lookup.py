"""The winds of one scene: those given, and those of files at its plumes' places; what a file lacks is told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from flame.io.wind import read_wind
from flame.physics import Wind, WindError
from flame.plumes import PlumePoint, PlumeRecord

__all__ = ["WindLookup"]


class WindLookup:
    """Looks winds up and remembers which files had none.

    Args:
        given: Winds for every place.
        files: Wind files.
        when: Time of the scene, if known.
    """

    def __init__(self, given: Sequence[Wind], files: Sequence[Path], when: datetime | None) -> None:
        self._given, self._files, self._when = tuple(given), tuple(files), when
        self._lacking: dict[Path, list[str]] = {}
        self._places = 0

    def at(self, point: PlumePoint, notes: list[str]) -> list[Wind]:
        """The winds given, and those that the files have for a place; what a file lacks is added to the notes."""
        self._places += 1
        winds = list(self._given)
        longitude, latitude = (math.nan if a is None else a for a in (point.longitude_deg, point.latitude_deg))
        for path in self._files:
            try:
                winds.append(read_wind(path, self._when, longitude, latitude))
            except WindError as mistake:
                reason = str(mistake).removeprefix(f"{path}: ")
                self._lacking.setdefault(path, []).append(reason)
                notes.append(f"no wind from {path.name}: {reason}")
        return winds

    def of_scene(self, middle: PlumePoint) -> tuple[Wind, ...]:
        """The winds given; if no plume asked the files, also theirs in the middle of the scene."""
        return self._given if self._places else tuple(self.at(middle, []))

    def notes(self, plumes: Iterable[PlumeRecord], winds: Iterable[Wind]) -> tuple[str, ...]:
        """What to know of the scene's winds, once for each file or wind.

        Args:
            plumes: What was found, measured.
            winds: The scene's, from `of_scene`.
        """
        told = {(wind.source, wind.note): f"{wind.words}: {wind.note}" for wind in winds if wind.note}
        for plume in plumes:
            for rate in plume.rates:
                for note in rate.all_notes:
                    told.setdefault((rate.wind.source, note), f"{rate.wind.words}: {note}")
        return (*self._lacks(), *told.values())

    def _lacks(self) -> Iterable[str]:
        for path, reasons in self._lacking.items():
            where = f" for {len(reasons)} of {self._places} plumes" if self._places > 1 else ""
            yield f"no wind from {path.name}{where}: {reasons[0]}"
