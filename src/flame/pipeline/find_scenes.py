"""Which scenes are meant by files and folders: folders are walked, and a header and its binary are one scene."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path

from flame.errors import FlameError
from flame.io import UnknownFormatError, find_reader, looks_like_product
from flame.pipeline.scene_folders import RECORD, belongs, role_of

__all__ = ["find_scenes", "known_to_a_reader", "scenes_in"]


def find_scenes(inputs: Iterable[Path]) -> list[Path]:
    """The scenes among files and folders.

    A file, and a folder that is one product or tile of its own, is one scene, known or not: what cannot be read is told
    when it is opened, and so is a folder that holds nothing. Any other folder is walked for what some reader knows, and
    for what was meant as a scene but is damaged. What is meant twice is there once, and a file that is read together
    with another of those given (a header, EMIT's OBS and MASK) is no scene of its own.
    """
    found: dict[Path, Path] = {}
    given = list(inputs)
    beside: dict[Path, set[str]] = {}
    for path in given:
        beside.setdefault(path.parent, set()).add(path.name)
    for path in given:
        if path.is_file() and _is_part(path.name, beside[path.parent]):
            continue
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
        whole = {name for name in folders if not name.startswith(".") and is_scene(here / name)}
        folders[:] = sorted(name for name in folders if name not in whole and not name.startswith("."))
        shown = [name for name in files if not name.startswith(".") and not _is_header(name, files)]
        scenes = {name for name in shown if _may_be_scene(name) and is_scene(here / name)}
        # Angles and masks count only where the scene that they belong to is not there.
        lone = (name for name in shown if not _may_be_scene(name) and not _is_part(name, scenes))
        scenes |= {name for name in lone if is_scene(here / name)}
        yield from (here / name for name in sorted(whole | scenes))


def _may_be_scene(name: str) -> bool:
    """Whether a file is not by its name the angles, positions or masks of one; EnMAP is known by its metadata."""
    role = role_of(name)
    return role is None or role[1] == "metadata"


def _is_header(name: str, beside: Collection[str]) -> bool:
    """Whether a file is the header of a binary beside it."""
    stem, ending = Path(name).stem, Path(name).suffix
    others = (other for other in beside if other != name)
    return ending.lower() == ".hdr" and any(stem in (other, Path(other).stem) for other in others)


def _is_part(name: str, beside: Collection[str]) -> bool:
    """Whether a file is the header of a binary beside it, or the angles, positions or masks of a scene beside it."""
    if _may_be_scene(name):
        return _is_header(name, beside)
    scenes = (other for other in beside if _may_be_scene(other))
    return _is_header(name, beside) or any(belongs(Path(name), Path(scene)) for scene in scenes)


def known_to_a_reader(path: Path) -> bool:
    """Whether a file or folder is one scene, by its content, or was meant as one and cannot be opened."""
    try:
        reader = find_reader(path)
    except UnknownFormatError:
        return False
    except (FlameError, OSError):
        return looks_like_product(path)
    if reader.name != "enmap" or not path.is_dir():
        return True
    # The folder of one product is that scene. One that holds others too, or a product further down, is walked.
    inside = list(islice(scenes_in(path), 2))
    return len(inside) == 1 and inside[0].parent == path and inside[0].is_file()
