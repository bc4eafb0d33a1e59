"""Files that are whole or not there: written under a temporary name beside their place, synced, then renamed."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from flame.errors import FlameError

__all__ = [
    "WriteError",
    "drop_torn_line",
    "finite",
    "json_text",
    "printable",
    "remove_leftovers",
    "require_writable",
    "whole_file",
    "whole_folder",
    "write_json",
    "write_whole",
]

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_PARTIAL = re.compile(r"\..*\.[0-9a-f]{16}\.partial(\.[^.]*)?")
_SURELY_HELD_S = 2.0
"""A file is locked at once after it is made; a younger one may be about to be."""
_NAME_BYTES = 160
"""How much of a file's own name its temporary name keeps: the rest must fit the 255 bytes of a name."""


class WriteError(FlameError):
    """A file or folder that cannot be written: no space, no permission, no such place.

    Attributes:
        disk_full: Whether there is no space left, so that nothing else can be written there either.
    """

    disk_full = False


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """An empty file of a name nobody can foresee, with the same suffix; it becomes `path` when the block ends.

    If the block fails, it is removed and what was at `path` stays. File and folder are synced, so that after a power
    cut there is the old file or the new one. The folder is made if it is not there.

    Raises:
        WriteError: If the system cannot write it; the message says why.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = _fresh(path)
    except OSError as failure:
        raise _cannot_write(path, failure) from failure
    held = _hold(partial)
    try:
        yield partial
        _sync(partial)
        partial.replace(path)
        _sync_folder(path.parent)
    except BaseException as failure:
        partial.unlink(missing_ok=True)
        # Errors without a number are not the system's: some libraries derive theirs from OSError.
        if isinstance(failure, OSError) and failure.errno is not None:
            raise _cannot_write(path, failure) from failure
        raise
    finally:
        if held is not None:
            os.close(held)


def remove_leftovers(folder: Path) -> None:
    """Removes unfinished files that a process left in a folder when it was killed; never one that is being written."""
    try:
        left = [file for file in folder.iterdir() if _PARTIAL.fullmatch(file.name)]
    except OSError:  # no such folder
        return
    for file in left:
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _SURELY_HELD_S and (held := _hold(file, alone=True)) is not None:
                file.unlink()
                os.close(held)


def _hold(partial: Path, *, alone: bool = False) -> int | None:
    """A lock on a file that ends with this process, however that ends; None if it cannot be had.

    Args:
        partial: The file.
        alone: Whether nobody else may hold it.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return None
    descriptor = None
    try:
        descriptor = os.open(partial, os.O_RDONLY | _NO_LINK)
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:  # another holds it, or the file system has no locks
        if descriptor is not None:
            os.close(descriptor)
        return None
    return descriptor


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """An empty folder that becomes `path`, in place of what was there, when the block ends; removed if it fails.

    Its files are not synced one by one: for data that can be made again.

    Raises:
        WriteError: If the system cannot write it; the message says why.
    """
    partial = _fresh_name(path)
    try:
        partial.mkdir(parents=True)
        yield partial
        if path.exists():
            shutil.rmtree(path)
        partial.replace(path)
    except BaseException as failure:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(failure, OSError) and failure.errno is not None:
            raise _cannot_write(path, failure) from failure
        raise


def write_whole(path: Path, content: bytes | str) -> None:
    """Writes bytes, or text as UTF-8."""
    with whole_file(path) as partial:
        descriptor = os.open(partial, os.O_WRONLY | _NO_LINK)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)


def drop_torn_line(path: Path) -> None:
    """Cuts off what a run that was ended in the middle of a line left at the end of a file of lines.

    Else the next line would be written behind it, and both were lost.
    """
    if path.is_file():
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            write_whole(path, whole)


def require_writable(folder: Path) -> None:
    """Makes a folder and tries to write into it, so that a mistake shows before the work and not after it.

    Raises:
        WriteError: If it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _fresh(folder / "probe").unlink()
    except OSError as failure:
        raise _cannot_write(folder, failure) from failure


def json_text(content: object) -> str:
    """Indented JSON that every parser reads: what is undefined (NaN) or infinite becomes null."""
    return json.dumps(finite(content), indent=1, allow_nan=False) + "\n"


def write_json(path: Path, content: object) -> None:
    """Writes `json_text`."""
    write_whole(path, json_text(content))


def printable(text: str) -> str:
    """Text that any terminal, page and file can show: bytes that are no UTF-8 and control characters as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _fresh_name(path: Path) -> Path:
    """A name beside `path` that nobody can foresee."""
    start = os.fsdecode(os.fsencode(path.stem)[:_NAME_BYTES])
    suffix = path.suffix if len(os.fsencode(path.suffix)) < 32 else ""
    return path.with_name(f".{start}.{secrets.token_hex(8)}.partial{suffix}")


def _fresh(path: Path) -> Path:
    """Makes an empty file beside `path`; never through a link, never over another file."""
    fresh = _fresh_name(path)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_LINK, 0o666))
    return fresh


def _sync(path: Path) -> None:
    """Brings a file to the disk; one that was changed for a link meanwhile is refused."""
    descriptor = os.open(path, os.O_RDWR | _NO_LINK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Brings a rename to the disk, where folders can be opened (not on Windows)."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError:  # Some network file systems sync no folders: the rename is done, only later on the disk.
            pass
        finally:
            os.close(descriptor)


def _cannot_write(path: Path, failure: OSError) -> WriteError:
    full = failure.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space there or choose another place" if full else "choose another place"
    error = WriteError(f"{path}: cannot be written ({failure.strerror or failure}); {hint}")
    error.disk_full = full
    return error


def finite(content: object) -> object:
    """The same with null for what is undefined (NaN) or infinite, which JSON has no word for."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    return [finite(value) for value in content] if isinstance(content, list | tuple) else content
