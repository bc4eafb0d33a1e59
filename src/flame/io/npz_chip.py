"""NumPy chips: an .npz with `radiance` (band, row, col) and `wavelength_nm`, for small scenes passed from hand to hand.

Optional: `fwhm_nm` (band), `valid` (row, col) and `unit`. Bands may stand in any order; those near 640, 550 and 460 nm
become the RGB.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from flame.io.band_choice import choose_bands
from flame.io.errors import ReaderError
from flame.io.validity import count_note, find_valid
from flame.physics import METHANE_WINDOW_NM, RADIANCE_UNIT, UnknownUnitError, radiance_scale
from flame.scene import Acquisition, Scene

__all__ = ["LOOKS_LIKE", "is_chip", "read_chip"]

LOOKS_LIKE = "a NumPy .npz with 'radiance' (band, row, col) and 'wavelength_nm'"


def is_chip(path: Path) -> bool:
    """Whether a path is an .npz file."""
    return path.is_file() and path.suffix.lower() == ".npz"


def read_chip(path: Path | str, window_nm: tuple[float, float] = METHANE_WINDOW_NM) -> Scene:
    """Reads a chip.

    Args:
        path: The file.
        window_nm: Which bands to read, by their centres; red, green and blue come along if the chip has them.

    Raises:
        ReaderError: If the file is damaged, an array is missing or of another shape, or no pixel is usable.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as failure:
        raise ReaderError(path, f"cannot be read ({failure})", f"give {LOOKS_LIKE}") from failure
    missing = [name for name in ("radiance", "wavelength_nm") if name not in arrays]
    if missing:
        raise ReaderError(path, f"lacks {' and '.join(missing)} (it has {', '.join(arrays)})", f"give {LOOKS_LIKE}")
    cube, centres_nm = arrays["radiance"], arrays["wavelength_nm"].astype(np.float64)
    if cube.ndim != 3 or centres_nm.shape != cube.shape[:1]:
        raise ReaderError(
            path, f"radiance has shape {cube.shape}, wavelength_nm {centres_nm.shape}", f"give {LOOKS_LIKE}"
        )
    try:
        scale = radiance_scale(str(arrays.get("unit", RADIANCE_UNIT)))
    except UnknownUnitError as failure:
        raise ReaderError(path, str(failure), "convert the chip") from failure
    widths = arrays["fwhm_nm"].astype(np.float64) if "fwhm_nm" in arrays else None
    choice = choose_bands(path, centres_nm, widths, window_nm=window_nm)
    radiance = cube[choice.index].astype(np.float32)
    rgb = cube[list(choice.rgb)].astype(np.float32) if choice.rgb else None
    valid = find_valid(radiance, rgb)
    if "valid" in arrays:
        valid &= arrays["valid"].astype(np.bool_)
    if not valid.any():
        raise ReaderError(path, "no usable pixel: every one is NaN, fill or zero", "give another chip")
    if scale != 1.0:
        radiance *= np.float32(scale)
        if rgb is not None:
            rgb *= np.float32(scale)
    acquisition = Acquisition(source=str(path), extra=choice.notes | count_note(valid))
    return Scene(radiance, choice.bands, valid, rgb, None, acquisition)
