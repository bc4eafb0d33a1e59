"""Which folder a scene's products go to: one of its own, found again on a second run, never another scene's."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flame.errors import FlameError
from flame.files import printable, write_json
from flame.records import RecordError, read_json

__all__ = ["RECORD", "SceneFolder", "SceneInput", "belongs", "claim_folder", "lies_in", "role_of"]

RECORD = "detection.json"
"""In each scene's folder: of what it is, whether it is finished, and the facts. Written first and last."""

_LONGEST_NAME_BYTES = 150
_BLOCK_BYTES = 1 << 20

_ACQUIRED = re.compile(r"\d{8}t\d{6}", re.IGNORECASE)
"""Date and time in a product's name, which all files of one acquisition share."""

_ROLE = re.compile(r"[_-](obs|mask|loc|igm|glt|ql|metadata|spectral_image)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class SceneInput:
    """A scene file or folder given by the user.

    Attributes:
        path: Where it is.
        given: The path as the user wrote it; the same unless told.
    """

    path: Path
    given: str = ""

    @property
    def shown(self) -> str:
        """The path for people."""
        return printable(self.given or str(self.path))

    @cached_property
    def _resolved(self) -> Path:
        try:
            return self.path.resolve()
        except (OSError, RuntimeError) as failure:  # a loop of links
            raise FlameError(f"{self.shown}: cannot be found ({failure})") from None

    @property
    def name(self) -> str:
        """Name of the scene for people, without where it lies."""
        return printable(self._resolved.name) or "scene"

    @cached_property
    def place(self) -> str:
        """Tells this place from any other, without saying where it is: products are passed on."""
        return hashlib.sha256(os.fsencode(self._resolved)).hexdigest()[:16]

    @cached_property
    def sha256(self) -> str:
        """Checksum of the content: of the file and those that belong to it (see `belongs`), or of a folder's."""
        path = self._resolved
        if path.is_dir():
            parts = [part for part in path.iterdir() if part.is_file()]
        elif path.is_file():
            parts = [path, *(other for other in path.parent.iterdir() if belongs(other, path) and other.is_file())]
        else:
            raise FlameError(f"{self.shown}: not a file or folder")
        total = hashlib.sha256()
        for part in sorted(parts):
            digest = hashlib.sha256()
            with part.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
            total.update(os.fsencode(part.name) + b"\0" + digest.digest())
        return total.hexdigest()

    def folder_names(self) -> Iterator[str]:
        """Names for its folder, the plainest first; none leads out of the folder it is put in."""
        path = self._resolved
        plain = path.name if path.is_dir() else path.stem
        name = "".join(char if char.isprintable() else "_" for char in plain).strip(". ") or "scene"
        if len(name.encode()) > _LONGEST_NAME_BYTES:
            digest = hashlib.sha256(os.fsencode(plain)).hexdigest()[:8]
            name = name.encode()[:_LONGEST_NAME_BYTES].decode(errors="ignore") + "-" + digest
        yield name
        yield from (f"{name}-{number}" for number in itertools.count(2))


def role_of(name: str) -> tuple[str, str] | None:
    """What a file is to the scene it lies beside, by its name (`obs`, `mask`, ...), after the text before that; None
    for a scene itself."""
    found = _ROLE.search(name)
    return None if found is None else (name[: found.start()], found[1].lower())


def belongs(other: Path, path: Path) -> bool:
    """Whether a file is read together with a scene's: a header with its binary (`x.hdr` or `x.img.hdr` with `x.img`),
    and the masks, angles and positions of the same acquisition (EMIT's OBS and MASK, an AVIRIS line's IGM)."""
    if other == path:
        return False
    if other.name.split(".")[0] == path.name.split(".")[0] and ".hdr" in (other.suffix.lower(), path.suffix.lower()):
        return True
    if role_of(other.name) is None:
        return False
    taken = _ACQUIRED.search(path.name)
    if taken:
        return taken[0].lower() in other.name.lower()
    return other.name.lower().startswith(path.name.split(".")[0].lower())


def lies_in(path: Path, folder: Path) -> bool:
    """Whether a resolved path is a folder or lies anywhere in it."""
    return path == folder or folder in path.parents


@dataclass(frozen=True)
class SceneFolder:
    """A folder taken for a scene.

    Attributes:
        path: The folder.
        record: What its record said before; empty for a new folder.
    """

    path: Path
    record: Mapping[str, Any] = field(default_factory=dict)

    def begin(self, marks: Mapping[str, Any]) -> None:
        """Marks the folder as being written to."""
        write_json(self.path / RECORD, {**marks, "finished": False})

    def release(self) -> None:
        """Gives back a new folder into which nothing was written."""
        if not self.record:
            with suppress(OSError):
                (self.path / RECORD).unlink()
                self.path.rmdir()


def claim_folder(out: Path, scene: SceneInput, reserved: frozenset[str]) -> SceneFolder:
    """Takes a folder for a scene: the one it had, or a new one.

    A folder is a scene's if it was made for the same place, or from the same content. Making a folder is one step for
    the system, so that several processes may do this at once.

    Args:
        out: Where the folders are.
        scene: The scene.
        reserved: Names that are not for folders.
    """
    for name in scene.folder_names():
        if name.casefold() in reserved:
            continue
        folder = out / name
        try:
            folder.mkdir()
        except FileExistsError:
            record = _record(folder)
            if record.get("place") == scene.place or record.get("input_sha256", "") == scene.sha256:
                return SceneFolder(folder, record)
            continue
        claimed = SceneFolder(folder)
        claimed.begin({"source": scene.name, "place": scene.place})
        return claimed
    raise AssertionError("folder names never end")


def _record(folder: Path) -> dict[str, Any]:
    try:
        found = read_json(folder / RECORD, "the record of a detection")
    except RecordError:
        return {}
    return found if isinstance(found, dict) else {}
