"""NumPy chips: an .npz with `radiance` (band, row, col) and `wavelength_nm`, for small scenes passed from hand to hand.

Optional: `fwhm_nm` (band), `valid` (row, col) and `unit`. Bands may stand in any order; those near 640, 550 and 460 nm
become the RGB.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from flame.io.band_choice import choose_bands
from flame.io.budget import check_cube, regular_file
from flame.io.errors import ReaderError
from flame.io.options import OpenOptions
from flame.io.radiance_unit import told_unit
from flame.io.validity import count_note, find_valid
from flame.physics import METHANE_WINDOW_NM, RADIANCE_UNIT, UnknownUnitError, radiance_scale
from flame.scene import Acquisition, Scene, SceneFlag

__all__ = ["LOOKS_LIKE", "is_chip", "open_chip", "read_chip"]

LOOKS_LIKE = "a NumPy .npz with 'radiance' (band, row, col) and 'wavelength_nm'"


MAX_CHIP_BYTES = 1_000_000_000
"""A chip is read whole; what is larger belongs into an ENVI cube or a GeoTIFF."""

_KNOWN = ("radiance", "wavelength_nm", "fwhm_nm", "valid", "unit")


def is_chip(path: Path) -> bool:
    """Whether a path is a zip file that holds NumPy arrays."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begins = file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    if not begins:
        return path.suffix.lower() == ".npz"
    try:
        with zipfile.ZipFile(path) as archive:
            return path.suffix.lower() == ".npz" or any(name == "radiance.npy" for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return path.suffix.lower() == ".npz"


def read_chip(path: Path | str, window_nm: tuple[float, float] = METHANE_WINDOW_NM) -> Scene:
    """Reads a chip.

    Args:
        path: The file.
        window_nm: Which bands to read, by their centres; red, green and blue come along if the chip has them.

    Raises:
        ReaderError: If the file is damaged, an array is missing or of another shape, or no pixel is usable.
    """
    return open_chip(path, OpenOptions(window_nm=window_nm))


def open_chip(path: Path | str, options: OpenOptions) -> Scene:
    """Reads a chip whole, with a unit that the user may state; otherwise as `read_chip`."""
    path = Path(path)
    arrays = _arrays(regular_file(path))
    missing = [name for name in ("radiance", "wavelength_nm") if name not in arrays]
    if missing:
        raise ReaderError(path, f"lacks {' and '.join(missing)} (it has {', '.join(arrays)})", f"give {LOOKS_LIKE}")
    cube, centres_nm = arrays["radiance"], _numbers(path, arrays, "wavelength_nm", 1)
    if cube.ndim != 3 or centres_nm.shape != cube.shape[:1] or cube.dtype.kind not in "iuf":
        raise ReaderError(
            path,
            f"radiance has shape {cube.shape} and type {cube.dtype}, wavelength_nm {centres_nm.shape}",
            f"give {LOOKS_LIKE}",
        )
    check_cube(path, *cube.shape)
    scale = _scale(path, arrays, options)
    widths = _numbers(path, arrays, "fwhm_nm", 1) if "fwhm_nm" in arrays else None
    if widths is not None and widths.shape != centres_nm.shape:
        raise ReaderError(path, f"fwhm_nm has {widths.size} values for {centres_nm.size} bands", "give one per band")
    choice = choose_bands(path, centres_nm, widths, window_nm=options.window_nm)
    with np.errstate(over="ignore", invalid="ignore"):
        radiance = cube[choice.index].astype(np.float32)
        rgb = cube[list(choice.rgb)].astype(np.float32) if choice.rgb else None
    valid = find_valid(radiance, rgb)
    if "valid" in arrays:
        told = arrays["valid"]
        if told.shape != valid.shape or told.dtype.kind not in "biuf":
            raise ReaderError(
                path, f"valid has shape {told.shape}, radiance {valid.shape} pixels", "give one value per pixel"
            )
        valid &= told.astype(np.bool_)
    if not valid.any():
        raise ReaderError(path, "no usable pixel: every one is NaN, fill or zero", "give another chip")
    if scale != 1.0:
        radiance *= np.float32(scale)
        if rgb is not None:
            rgb *= np.float32(scale)
    flags = np.where(valid, np.uint16(0), np.uint16(SceneFlag.FILL))
    notes = told_unit(options, str(arrays["unit"]) if "unit" in arrays else None)
    acquisition = Acquisition(source=str(path), extra=choice.notes | count_note(valid) | notes)
    return Scene(radiance, choice.bands, valid, rgb, None, acquisition, flags=flags)


def _scale(path: Path, arrays: dict[str, np.ndarray], options: OpenOptions) -> float:
    """Factor to `RADIANCE_UNIT`, which is what a chip is in unless it says otherwise."""
    if options.stated_scale is not None:
        return options.stated_scale
    try:
        return radiance_scale(str(arrays.get("unit", RADIANCE_UNIT)))
    except UnknownUnitError as failure:
        raise ReaderError(path, str(failure), "convert the chip, or pass --unit or --scale") from failure


def _numbers(path: Path, arrays: dict[str, np.ndarray], name: str, dims: int) -> np.ndarray:
    values = arrays[name]
    if values.ndim != dims or values.dtype.kind not in "iuf":
        raise ReaderError(path, f"{name} has shape {values.shape} and type {values.dtype}", f"give {LOOKS_LIKE}")
    return values.astype(np.float64)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays a chip may have; each one's declared size is checked before it is unpacked."""
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = {item.filename.removesuffix(".npy"): item for item in archive.infolist()}
            for name in _KNOWN:
                if name in members:
                    with archive.open(members[name]) as stream:
                        _check_size(path, name, stream)
                    with archive.open(members[name]) as stream:
                        arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
            others = {name: np.empty(0) for name in members if name not in _KNOWN}
    except (ReaderError, MemoryError):
        raise
    except Exception as failure:
        # Damage shows in many ways: zip, deflate, the array's header (which is Python text) or its length.
        words = " ".join(str(failure).split())[:200]
        raise ReaderError(
            path, f"cannot be read ({words or type(failure).__name__})", f"give {LOOKS_LIKE}"
        ) from failure
    return arrays if arrays else others


def _check_size(path: Path, name: str, stream: Any) -> None:
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    size = math.prod(shape) * dtype.itemsize
    if size > MAX_CHIP_BYTES or any(length < 0 for length in shape):
        raise ReaderError(
            path,
            f"{name} declares {' x '.join(str(length) for length in shape)} values, {size / 1e9:.1f} GB",
            f"a chip may have {MAX_CHIP_BYTES / 1e9:g} GB; store larger scenes as ENVI or GeoTIFF",
        )
