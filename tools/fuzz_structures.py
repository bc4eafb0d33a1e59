"""Seeded damage to files that stay whole: HDF5 and XML that open well and say something else than they should."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

__all__ = ["edit_hdf5", "edit_xml"]

_TYPES = ("f2", "f4", ">f8", "i1", "u2", "i8", ">i4", "u8", "?", "c8", "S4")
_VALUES = (np.nan, np.inf, -np.inf, 0.0, -9999.0, 1e38, -1e38, 1e-38, 255.0, 91.0, 361.0)
_WORDS = ("", "abc", "1", "-1", "nan", "EPSG:4326", "EPSG:99999", "uW/cm^2/SR/nm", "[0, 1]", "{", "9" * 300, "\x00")


def _pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def edit_hdf5(rng: np.random.Generator, content: bytes) -> bytes:
    """A dataset, group or attribute gone, renamed, moved, or of another type, shape, content or storage."""
    memory = io.BytesIO(content)
    try:
        with h5py.File(memory, "r+") as file:
            _edit_tree(rng, file)
    except Exception as broken:  # h5py raises whatever it likes where the file is broken already
        raise ValueError("cannot be edited any more") from broken
    return memory.getvalue()


def _edit_tree(rng: np.random.Generator, file: h5py.File) -> None:
    names: list[str] = []
    file.visit(names.append)
    owners = ["/", *names]
    with_notes = [name for name in owners if len(file[name].attrs)]
    if with_notes and rng.random() < 0.35:
        _edit_attribute(rng, file[_pick(rng, with_notes)].attrs)
        return
    name = _pick(rng, names)
    kind = int(rng.integers(6))
    if kind == 0:
        del file[name]
    elif kind == 1:
        file.move(name, f"{name}x")
    elif kind == 2:
        del file[name]
        file[name] = _pick(rng, (h5py.SoftLink(f"/{name}"), h5py.SoftLink("/"), h5py.ExternalLink("other.h5", "/a")))
    elif kind == 3 and isinstance(file[name], h5py.Dataset):
        del file[name]
        file.create_group(name)
    elif isinstance(file[name], h5py.Dataset):
        _edit_dataset(rng, file, name)
    else:
        del file[name]
        file[name] = np.arange(3.0)


def _edit_attribute(rng: np.random.Generator, notes: h5py.AttributeManager) -> None:
    name = _pick(rng, list(notes))
    kind = int(rng.integers(4))
    if kind == 0:
        del notes[name]
    elif kind == 1:
        notes[f"{name}x"] = notes[name]
        del notes[name]
    elif kind == 2:
        notes[name] = _pick(rng, (_pick(rng, _WORDS), np.bytes_(b"\xff\xfe"), _pick(rng, _VALUES), h5py.Empty("f4")))
    else:
        notes[name] = _pick(rng, (np.array([]), np.full(7, _pick(rng, _VALUES)), np.zeros((3, 3)), np.arange(2)))


def _edit_dataset(rng: np.random.Generator, file: h5py.File, name: str) -> None:
    old = file[name]
    values, notes, packing = np.asarray(old[()]), dict(old.attrs), {}
    changes: tuple[Callable[[np.ndarray], Any], ...] = (
        lambda v: v.astype(_pick(rng, _TYPES)),
        lambda v: v[..., : int(rng.integers(0, max(v.shape[-1], 1)))] if v.ndim else v.reshape(1),
        lambda v: v[None] if rng.random() < 0.5 else v.ravel(),
        lambda v: v.T,
        lambda v: v[::-1] if v.ndim else v,
        lambda v: _some_replaced(rng, v),
        lambda v: np.full_like(v, _pick(rng, _VALUES)) if v.dtype.kind == "f" else v,
        lambda _v: h5py.Empty("f4"),
        lambda _v: np.array([b"a", b"bc"]),
        lambda v: v,
    )
    with np.errstate(all="ignore"):
        changed = _pick(rng, changes)(values)
    if isinstance(changed, np.ndarray) and changed.ndim and changed.size:
        chunks = tuple(int(rng.integers(1, length + 1)) for length in changed.shape)
        packing = _pick(
            rng,
            (
                {},
                {"chunks": chunks},
                {"chunks": chunks, "compression": "gzip", "shuffle": True},
                {"chunks": chunks, "compression": "lzf"},
                {"chunks": chunks, "fletcher32": True},
                {"maxshape": (None,) * changed.ndim},
            ),
        )
    del file[name]
    made = file.create_dataset(name, data=changed, **packing)
    for key, value in notes.items():
        made.attrs[key] = value


def _some_replaced(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """One to twenty numbers become others."""
    if values.dtype.kind not in "fiu" or not values.size:
        return values
    flat = values.ravel().copy()
    places = rng.integers(0, flat.size, int(rng.integers(1, 21)))
    wanted = _VALUES if values.dtype.kind == "f" else (0, 1, 2**31 - 1, 127)
    for place in places:
        flat[place] = np.array(_pick(rng, wanted)).astype(values.dtype)
    return flat.reshape(values.shape)


def edit_xml(rng: np.random.Generator, content: bytes) -> bytes:
    """An element gone, twice, renamed, emptied, of another content, or with an entity or another encoding."""
    found = list(re.finditer(rb"<(\w+)([^<>]*)>([^<>]*)</\1>", content))
    if not found:
        raise ValueError("no element any more")
    match = found[int(rng.integers(len(found)))]
    name, notes, text = match.groups()
    start, end = content[: match.start()], content[match.end() :]
    kind = int(rng.integers(7))
    if kind == 0:
        return start + end
    if kind == 1:
        return start + match[0] + match[0] + end
    if kind == 2:
        return start + b"<x" + name + notes + b">" + text + b"</x" + name + b">" + end
    if kind == 3:
        return start + b"<" + name + notes + b"/>" + end
    if kind == 4:
        word = _pick(rng, (*_WORDS[:-1], "1e999", "-5", "1000000000", "2023-13-45T99:00:00Z", "é"))
        return start + b"<" + name + notes + b">" + word.encode() + b"</" + name + b">" + end
    if kind == 5:
        return content.replace(b"UTF-8", _pick(rng, (b"UTF-16", b"latin-1", b"x-none")), 1)
    return content.replace(b"?>", b'?><!DOCTYPE a [<!ENTITY b "bb">]>', 1).replace(text, b"&b;", 1)
