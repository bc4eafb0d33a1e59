"""The arrays that a runtime lives in, found by walking through its objects: no network needs to tell."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

__all__ = ["address", "differs", "find_arrays", "overwrite"]

_OWN = "flame."
_MOST_DEPTH = 12

_MEMCMP = ctypes.CDLL(None).memcmp
_MEMCMP.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_MEMCMP.restype = ctypes.c_int


def find_arrays(**roots: object) -> dict[str, np.ndarray]:
    """Every array that these objects hold, by the path to it; views are left out for what they look at.

    Looked into are FLAME's own objects, mappings and sequences. Arrays of another package's session stay unknown.
    """
    found: dict[int, tuple[str, np.ndarray]] = {}
    seen: set[int] = set()
    for name, root in roots.items():
        for path, array in _walk(name, root, seen, 0):
            whole = array
            while isinstance(whole.base, np.ndarray):
                whole = whole.base
            if whole.nbytes and not whole.dtype.hasobject and (whole.flags.c_contiguous or whole.flags.f_contiguous):
                found.setdefault(whole.ctypes.data, (path, whole))
    return dict(found.values())


def _walk(path: str, thing: object, seen: set[int], depth: int) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(thing, np.ndarray):
        yield path, thing
        return
    if depth > _MOST_DEPTH or id(thing) in seen or isinstance(thing, str | bytes | type):
        return
    seen.add(id(thing))
    if isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _walk(f"{path}.{key}", value, seen, depth + 1)
    elif isinstance(thing, Sequence):
        for number, value in enumerate(thing):
            yield from _walk(f"{path}.{number}", value, seen, depth + 1)
    elif type(thing).__module__.startswith(_OWN):
        for key, value in getattr(thing, "__dict__", {}).items():
            yield from _walk(f"{path}.{key.lstrip('_')}", value, seen, depth + 1)


def address(array: np.ndarray) -> int:
    """Where its memory begins."""
    return int(array.ctypes.data)


def differs(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of one size differ in any bit; memory speed, nothing allocated."""
    return bool(_MEMCMP(one.ctypes.data, other.ctypes.data, one.nbytes))


def overwrite(target: np.ndarray, source: np.ndarray) -> None:
    """Copies bits, also into an array that Python may not write: a fault asks for no permission either."""
    ctypes.memmove(target.ctypes.data, source.ctypes.data, source.nbytes)
