"""Files that are whole or not there: written under a temporary name beside their place, then renamed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["json_text", "whole_file", "write_json", "write_whole"]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path with the same suffix; it becomes `path` when the block ends, and is removed if it fails.

    The folder is made if it is not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes | str) -> None:
    """Writes bytes, or text as UTF-8."""
    with whole_file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def json_text(content: object) -> str:
    """Indented JSON that every parser reads: what is undefined (NaN) or infinite becomes null."""
    return json.dumps(_finite(content), indent=1, allow_nan=False) + "\n"


def write_json(path: Path, content: object) -> None:
    """Writes `json_text`."""
    write_whole(path, json_text(content))


def _finite(content: object) -> object:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    return [_finite(value) for value in content] if isinstance(content, list | tuple) else content
