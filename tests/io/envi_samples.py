"""ENVI cubes written byte by byte, as other software writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

AXES = {"bsq": (0, 1, 2), "bil": (1, 0, 2), "bip": (1, 2, 0)}
ENVI_TYPES = {"f4": 4, "f8": 5, "i2": 2, "i4": 3, "u2": 12}

CENTRES_NM = np.array([460.5, 551.0, 641.2, 1650.0, 2300.25, 2305.25, 2310.25, 2315.5])


def list_of(values: np.ndarray) -> str:
    return "{" + ",\n ".join(f"{value:.9g}" for value in values) + "}"


def write_envi(
    path: Path,
    cube: np.ndarray,
    interleave: str = "bil",
    byte_order: int = 0,
    offset: int = 0,
    state_unit: bool = True,
    **fields: str,
) -> Path:
    """Writes `path` and `path.hdr`; fields with spaces are given with underscores.

    The header states FLAME's own unit unless a field tells of another one or `state_unit` is false.
    """
    if state_unit and not any("unit" in key and key != "wavelength_units" for key in fields):
        fields["data_units"] = "uW/cm2/nm/sr"
    stored = cube.astype(cube.dtype.newbyteorder("<>"[byte_order]))
    path.write_bytes(b"\0" * offset + np.ascontiguousarray(stored.transpose(AXES[interleave])).tobytes())
    bands, lines, samples = cube.shape
    entries = {
        "samples": samples,
        "lines": lines,
        "bands": bands,
        "header offset": offset,
        "file type": "ENVI Standard",
        "data type": ENVI_TYPES[cube.dtype.str[1:]],
        "interleave": interleave,
        "byte order": byte_order,
    } | {key.replace("_", " "): value for key, value in fields.items()}
    text = "ENVI\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
    path.with_name(path.name + ".hdr").write_text(text)
    return path


def cube_of(rows: int = 4, cols: int = 5, bands: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 5.0, (bands, rows, cols)).astype(np.float32)
