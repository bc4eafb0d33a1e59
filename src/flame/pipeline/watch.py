"""Scenes as they arrive in a folder: each is detected in once it has stopped growing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flame.pipeline.detect import Outcome
from flame.pipeline.find_scenes import known_to_a_reader, scenes_in
from flame.pipeline.scene_folders import belongs

__all__ = ["WatchSettings", "watch_folder"]


@dataclass(frozen=True)
class WatchSettings:
    """How a folder is watched.

    Attributes:
        every_s: Time between two looks.
        settled_s: A scene is taken once neither its size nor its time has changed for so long.
        idle_s: Watching ends after so long without anything new; None for never.
    """

    every_s: float = 2.0
    settled_s: float = 5.0
    idle_s: float | None = None


@dataclass
class _Arrivals:
    """What has been seen of each scene, and which of them are ready."""

    settled_s: float
    seen: dict[Path, tuple[tuple[int, int], float]] = field(default_factory=dict)
    taken: dict[Path, tuple[int, int]] = field(default_factory=dict)
    recognised: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def look(self, folder: Path, now: float) -> tuple[list[Path], bool]:
        """Scenes that are ready and were not taken in this state before, and whether others are still settling."""
        ready, settling = [], False
        for path in scenes_in(folder, self._is_scene):
            state = _state(path)
            known = self.seen.get(path)
            if known is None or known[0] != state:
                self.seen[path] = known = (state, now)
            if self.taken.get(path) == state:
                continue
            if now - known[1] >= self.settled_s:
                self.taken[path] = state
                ready.append(path)
            else:
                settling = True
        return ready, settling

    def _is_scene(self, path: Path) -> bool:
        """Whether a reader knows a path; a scene is looked into again only once it has changed.

        What is none is looked into each time: it may be one as soon as its header arrives.
        """
        try:
            facts = path.stat()
        except OSError:  # gone since it was listed
            return False
        state = facts.st_size, facts.st_mtime_ns
        if self.recognised.get(path) == state:
            return True
        if found := known_to_a_reader(path):
            self.recognised[path] = state
        return found


def _state(path: Path) -> tuple[int, int]:
    """Size and latest change of a scene: of all files of a folder, or of a file and those that are read with it."""
    try:
        if path.is_dir():
            parts = list(path.rglob("*"))
        else:
            parts = [path, *(other for other in path.parent.iterdir() if belongs(other, path))]
    except OSError:  # the whole folder is gone since it was listed
        parts = []
    size = newest = 0
    for part in parts:
        try:
            facts = part.stat()
        except OSError:  # gone since it was listed
            continue
        size, newest = size + facts.st_size, max(newest, facts.st_mtime_ns)
    return size, newest


def watch_folder(
    folder: Path,
    detect: Callable[[Sequence[Path]], list[Outcome]],
    settings: WatchSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Calls `detect` with the scenes that have arrived, again and again, until nothing new has come for long enough.

    A scene that changes after it was taken is taken again; `detect_files` then sees by its content whether there is
    anything to do.

    Args:
        folder: Where scenes arrive; folders in it count too.
        detect: Works on scenes.
        settings: How often to look, and when a scene counts as whole.
        clock: Tells the time in seconds.
        sleep: Waits.

    Returns:
        How many scenes were given to `detect`.
    """
    settings = settings or WatchSettings()
    arrivals = _Arrivals(settings.settled_s)
    count, last_news = 0, clock()
    while True:
        ready, settling = arrivals.look(folder, clock())
        if ready:
            detect(ready)
            count += len(ready)
        if ready or settling:
            last_news = clock()
        if settings.idle_s is not None and clock() - last_news >= settings.idle_s:
            return count
        sleep(settings.every_s)
