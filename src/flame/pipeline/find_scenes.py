"""Which scenes are meant by files and folders: folders are walked, and a header and its binary are one scene."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from flame.errors import FlameError
from flame.io import find_reader
from flame.pipeline.scene_folders import RECORD, role_of

__all__ = ["find_scenes", "known_to_a_reader", "scenes_in"]


def find_scenes(inputs: Iterable[Path]) -> list[Path]:
    """The scenes among files and folders.

    A file, and a folder that is a product or tile of its own, is one scene, known or not: what cannot be read is told
    when it is opened, and so is a folder that holds nothing. Any other folder is walked for what some reader knows.
    What is meant twice is there once.
    """
    found: dict[Path, Path] = {}
    for path in inputs:
        inside = [path] if not path.is_dir() or known_to_a_reader(path) else list(scenes_in(path))
        for scene in inside or [path]:
            found.setdefault(_place(scene), scene)
    return list(found.values())


def _place(path: Path) -> Path:
    """Where a path leads, as far as that can be told: what is wrong with it is told when it is opened."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return path.absolute()


def scenes_in(folder: Path, is_scene: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """The scenes of a folder and those below it, in the order of their names.

    Links to folders are not followed, and folders that hold the products of a detection are left out.

    Args:
        folder: Where to look.
        is_scene: Whether some reader knows a file or folder; looked into unless given.
    """
    is_scene = is_scene or known_to_a_reader
    for at, folders, files in os.walk(folder):
        here = Path(at)
        if RECORD in files:
            folders.clear()
            continue
        whole = {name for name in folders if is_scene(here / name)}
        folders[:] = sorted(name for name in folders if name not in whole and not name.startswith("."))
        for name in sorted([*whole, *files]):
            if not name.startswith(".") and not _is_part(name, files) and (name in whole or is_scene(here / name)):
                yield here / name


def _is_part(name: str, beside: list[str]) -> bool:
    """Whether a file is the header of a binary beside it, or the angles, positions or masks of a scene beside it."""
    others = [other for other in beside if other != name]
    stem, ending = Path(name).stem, Path(name).suffix
    if ending.lower() == ".hdr" and (stem in others or any(Path(other).stem == stem for other in others)):
        return True
    role = role_of(name)
    if role is None or role[1] == "metadata":  # an EnMAP product is known by its metadata
        return False
    return any(other.startswith(role[0]) and (role_of(other) or ("", "metadata"))[1] == "metadata" for other in others)


def known_to_a_reader(path: Path) -> bool:
    """Whether a file or folder is a scene, by its content."""
    try:
        find_reader(path)
    except (FlameError, OSError):
        return False
    return True
