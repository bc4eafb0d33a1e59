"""Seeded damage to files: what disks, networks, other programs and strangers do to them."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz_structures import edit_hdf5, edit_xml

__all__ = ["mutate_bytes", "mutate_for"]

Mutation = Callable[[np.random.Generator, bytes], bytes]

ABSURD: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 1e308, -1e308, 1e-308, float("nan"), float("inf"), 0.5,
    "", "abc", "../../x", "\x00", "9" * 400, None, True, False, [], {}, [1], ["a"], {"a": 1}, [[[[]]]],
)  # fmt: skip
"""Values that no field expects, or at its edge."""

_WORDS = (
    b"0",
    b"-1",
    b"1",
    b"nan",
    b"inf",
    b"1e308",
    b"99999999999999999999",
    b"abc",
    b"",
    b"{",
    b"[[[[",
    b'"',
    b"2.5",
)


def _place(rng: np.random.Generator, content: bytes) -> int:
    """Any place, headers more often than the rest."""
    end = len(content) if rng.random() < 0.6 else min(len(content), 600)
    return int(rng.integers(0, max(end, 1)))


def flip_bits(rng: np.random.Generator, content: bytes) -> bytes:
    """One to eight bits."""
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        if damaged:
            damaged[_place(rng, content)] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def overwrite(rng: np.random.Generator, content: bytes) -> bytes:
    """A run of zeros, ones or noise."""
    at, length = _place(rng, content), int(rng.choice([1, 2, 4, 8, 64, 512]))
    fill = (b"\0" * length, b"\xff" * length, rng.bytes(length))[int(rng.integers(3))]
    return content[:at] + fill[: max(len(content) - at, 0)] + content[at + length :]


def truncate(rng: np.random.Generator, content: bytes) -> bytes:
    """Cut off somewhere, now and then at once."""
    return content[: 0 if rng.random() < 0.05 else _place(rng, content)]


def splice(rng: np.random.Generator, content: bytes) -> bytes:
    """A piece of the file laid over, put in, or taken out somewhere else."""
    one, other, length = _place(rng, content), _place(rng, content), int(rng.integers(1, 300))
    piece = content[one : one + length]
    kind = int(rng.integers(3))
    if kind == 0:
        return content[:other] + piece + content[other + len(piece) :]
    return content[:other] + piece + content[other:] if kind == 1 else content[:other] + content[other + length :]


def append(rng: np.random.Generator, content: bytes) -> bytes:
    """Something more at the end."""
    return content + (rng.bytes(int(rng.integers(1, 2000))) if rng.random() < 0.5 else content)


def edit_number(rng: np.random.Generator, content: bytes) -> bytes:
    """A number in a text becomes another, an absurd one, or no number."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?", content))
    if not found:
        return flip_bits(rng, content)
    match = found[int(rng.integers(len(found)))]
    return content[: match.start()] + _WORDS[int(rng.integers(len(_WORDS)))] + content[match.end() :]


def edit_line(rng: np.random.Generator, content: bytes) -> bytes:
    """A line of a text twice, gone, somewhere else, or without its end."""
    lines = content.split(b"\n")
    at, other = (int(rng.integers(len(lines))) for _ in range(2))
    kind = int(rng.integers(4))
    if kind == 0:
        lines.insert(other, lines[at])
    elif kind == 1:
        del lines[at]
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = lines[at][: len(lines[at]) // 2]
    return b"\n".join(lines)


def edit_json(rng: np.random.Generator, content: bytes) -> bytes:
    """An entry of any depth gone, renamed, or of another value or type."""
    try:
        tree = json.loads(content)
    except ValueError:
        return edit_number(rng, content)
    holders: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        entries = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
        for key, value in entries:
            holders.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    if isinstance(tree, dict | list):
        walk(tree)
    if not holders:
        return json.dumps(ABSURD[int(rng.integers(len(ABSURD)))]).encode()
    # A list of 72 numbers would draw most of the edits: choose by depth of key first.
    named = [entry for entry in holders if isinstance(entry[1], str)]
    pool = named if named and rng.random() < 0.8 else holders
    node, key = pool[int(rng.integers(len(pool)))]
    kind = int(rng.integers(5))
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        node[f"{key}x"] = node.pop(key)
    else:
        node[key] = ABSURD[int(rng.integers(len(ABSURD)))]
    return json.dumps(tree).encode()


def nest(rng: np.random.Generator, content: bytes) -> bytes:
    """Deeper than any parser likes."""
    depth = int(rng.choice([100, 5_000, 50_000]))
    return (b"[" if rng.random() < 0.5 else b'{"a":') * depth + content[:100]


def edit_npz(rng: np.random.Generator, content: bytes) -> bytes:
    """An array gone, renamed, of another type, shape or content; or a header that promises what is not there."""
    try:
        with np.load(io.BytesIO(content)) as file:
            arrays = dict(file)
    except Exception as broken:  # NumPy has dozens of them
        raise ValueError("no npz any more") from broken
    name = list(arrays)[int(rng.integers(len(arrays)))]
    array = arrays[name]
    kind = int(rng.integers(8))
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name + "x"] = arrays.pop(name)
    elif kind == 2:
        arrays[name] = array.astype(rng.choice(["c8", "S4", "U3", "i8", "u1", "f2", "M8[s]", "?", ">f8"]))
    elif kind == 3:
        arrays[name] = array[..., : int(rng.integers(0, max(array.shape[-1], 1)))] if array.ndim else array.reshape(1)
    elif kind == 4:
        arrays[name] = array[None] if rng.random() < 0.5 else array.ravel()
    elif kind == 5 and array.dtype.kind == "f":
        arrays[name] = np.full_like(array, rng.choice([np.nan, np.inf, -9999.0, 0.0, 1e38]))
    elif kind == 6:
        arrays[name] = np.array(str(rng.integers(9)))
    else:
        return _promise(rng, content)
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _promise(rng: np.random.Generator, content: bytes) -> bytes:
    """A member whose header tells of an absurd shape, compressed or not, with few bytes behind it."""
    shape = [(10**9, 72, 9), (2**40,), (4, 60_000, 60_000), (-1, 2), (3, 10**18), ()][int(rng.integers(6))]
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    body = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 4000
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        victim = old.namelist()[int(rng.integers(len(old.namelist())))]
        for name in old.namelist():
            new.writestr(name, body if name == victim else old.read(name))
    return out.getvalue()


def edit_safetensors(rng: np.random.Generator, content: bytes) -> bytes:
    """The JSON header edited and packed again, or numbers behind it made NaN or infinite."""
    length = int.from_bytes(content[:8], "little")
    header, body = content[8 : 8 + length], content[8 + length :]
    if rng.random() < 0.3 and len(body) > 8:
        at = int(rng.integers(0, len(body) // 4)) * 4
        body = body[:at] + struct.pack("<f", rng.choice([np.nan, np.inf, 1e38])) + body[at + 4 :]
        return content[: 8 + length] + body
    try:
        tree = json.loads(header)
    except ValueError:
        return flip_bits(rng, content)
    notes = tree.get("__metadata__", {})
    if notes and rng.random() < 0.6:  # a text in the header is often JSON itself
        name = list(notes)[int(rng.integers(len(notes)))]
        notes[name] = edit_json(rng, notes[name].encode()).decode(errors="replace")
        header = json.dumps(tree).encode()
    else:
        header = edit_json(rng, header)
    return struct.pack("<Q", len(header)) + header + body


_PLAIN: tuple[Mutation, ...] = (flip_bits, overwrite, truncate, splice, append)
_TEXT: tuple[Mutation, ...] = (edit_number, edit_number, edit_line, nest)
_BY_SUFFIX: dict[str, tuple[Mutation, ...]] = {
    ".json": (edit_json, edit_json, *_TEXT),
    ".geojson": (edit_json, edit_json, *_TEXT),
    ".csv": _TEXT,
    ".hdr": _TEXT,
    ".npz": (edit_npz, edit_npz, edit_npz),
    ".safetensors": (edit_safetensors, edit_safetensors, edit_safetensors),
    ".cache": (edit_json,),
    ".nc": (edit_hdf5,) * 5,
    ".h5": (edit_hdf5,) * 5,
    ".he5": (edit_hdf5,) * 5,
    ".xml": (edit_xml, edit_xml, edit_xml, edit_number),
}


def mutate_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """Damage that knows nothing of the format."""
    return _PLAIN[int(rng.integers(len(_PLAIN)))](rng, content)


def mutate_for(suffix: str, rng: np.random.Generator, content: bytes) -> bytes:
    """Damage to a file of that suffix, once or, less often, several times over."""
    choices = _PLAIN + _BY_SUFFIX.get(suffix.lower(), ())
    for _ in range(1 if rng.random() < 0.8 else int(rng.integers(2, 5))):
        try:
            content = choices[int(rng.integers(len(choices)))](rng, content)
        except (ValueError, TypeError, OverflowError, RecursionError, struct.error, zipfile.BadZipFile):
            content = flip_bits(rng, content)  # an edit that knows the format cannot be made where it is already broken
    return content
