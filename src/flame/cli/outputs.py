"""What a command writes is never what it reads: no output may be an input, a file of the scene, or another output."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flame.errors import FlameError

__all__ = ["refuse_overwriting"]


def refuse_overwriting(outputs: Iterable[Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Refuses outputs that would destroy an input or each other; call it before the work.

    Args:
        outputs: Files to be written; None for those not asked for.
        inputs: Scene files, product folders and other files that are read; None for those not given.

    Raises:
        FlameError: If an output is an input, lies in a scene's folder, is read together with a scene (its header,
            angles or masks), or is another output too. The message names the file.
    """
    read = [path for path in inputs if path is not None]
    written: list[Path] = []
    for path in outputs:
        if path is None:
            continue
        for source in read:
            _refuse_scene_file(path, source)
        if any(_same(path, other) for other in written):
            raise FlameError(f"{path}: two outputs would be written to this one file; give each a file of its own")
        written.append(path)


def _refuse_scene_file(path: Path, source: Path) -> None:
    from flame.pipeline.scene_folders import belongs, lies_in

    place, scene = _place(path), _place(source)
    if _same(path, source):
        what = "is the input, which would be overwritten"
    elif source.is_dir() and lies_in(place, scene):
        what = f"lies in the folder of the scene {source}"
    elif source.is_file() and place.parent == scene.parent and belongs(place, scene):
        what = f"is a file that is read with the scene {source}"
    else:
        return
    raise FlameError(f"{path}: {what}; choose another place for the output")


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, through links too."""
    try:
        return one.samefile(other)
    except OSError:  # one is not there yet
        return _place(one) == _place(other)


def _place(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return path.absolute()
