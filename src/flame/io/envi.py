"""ENVI cubes: a text header beside a binary file, interleaved by band, line or pixel, of either byte order.

AVIRIS-NG and the older AVIRIS-3 products come so, with files beside them that tell where the pixels are. Any other
cube with wavelengths is read too, if its header or the user says the radiance unit.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float

from flame.io.assemble import Cube, scene_of
from flame.io.envi_header import EnviHeader, binary_of, header_of
from flame.io.envi_location import angles_beside, geo_of_envi
from flame.io.errors import ReaderError
from flame.io.options import OpenOptions
from flame.io.radiance_unit import scale_to_radiance
from flame.physics import METHANE_WINDOW_NM, RADIANCE_UNIT
from flame.scene import Acquisition, Scene, SceneError, SceneFile

__all__ = ["LOOKS_LIKE", "is_envi", "open_envi", "read_envi"]

LOOKS_LIKE = "an ENVI cube such as AVIRIS-NG's: the binary file or the .hdr beside it"

_RADIANCE_NAME = re.compile(r"^(ang|av3)\d{8}t\d{6}.*rdn", re.IGNORECASE)
"""AVIRIS-NG and AVIRIS-3 radiance files: float, in `RADIANCE_UNIT` by their product description."""


def is_envi(path: Path) -> bool:
    """Whether a path is an ENVI header, or a file with one beside it."""
    return header_of(path) is not None


def open_envi(
    path: Path | str,
    options: OpenOptions | None = None,
    *,
    centres_nm: Float[np.ndarray, " band"] | None = None,
    physical: bool = True,
) -> SceneFile:
    """Opens a cube; only the lines and bands asked for leave the disk.

    Args:
        path: The binary file or its header.
        options: Unit, bands and masks.
        centres_nm: Centres of all bands, if the header does not list them.
        physical: False if the numbers are radiance times an unknown factor: then no surface tests.

    Raises:
        ReaderError: If the header or the binary is damaged, or the cube holds no radiance.
    """
    path, options = Path(path), options or OpenOptions()
    header = EnviHeader.read(binary_of(path))
    if centres_nm is None:
        centres_nm = header.centres_nm()
    gain, offset = header.numbers("data_gain_values"), header.numbers("data_offset_values")
    words = [text for key, text in header.fields.items() if key == "description" or "unit" in key]
    if "wavelength_units" in header.fields:
        words.remove(header.fields["wavelength_units"])
    known = bool(_RADIANCE_NAME.match(header.path.name)) and header.dtype.kind == "f"
    scale, notes = scale_to_radiance(
        header.path,
        words,
        options,
        by_product=RADIANCE_UNIT if known else None,
        counts=header.dtype.name if header.dtype.kind != "f" and gain is None else None,
        reflectance="reflectance_scale_factor" in header.fields,
    )
    ignore = header.number("data_ignore_value")
    sun, view = angles_beside(header.path)
    geo, binary = geo_of_envi(header), header.opened()
    cube = Cube(
        path=header.path,
        shape=(header.shape[1], header.shape[2]),
        centres_nm=centres_nm,
        read=header.cube(binary).read,
        scale=scale,
        fwhm_nm=header.fwhm_nm(),
        good=header.good_bands(),
        gain=gain,
        offset=offset,
        fill=(-9999.0,) if ignore is None or ignore == 0 else (ignore, -9999.0),
        find_surface=physical,
        geo=geo,
        acquisition=Acquisition(header.sensor(), header.time(), sun, view, str(path), notes),
        close=binary.close,
    )
    return scene_of(cube, options)


def read_envi(
    path: Path | str,
    rows: slice = slice(None),
    cols: slice = slice(None),
    *,
    window_nm: tuple[float, float] = METHANE_WINDOW_NM,
    unit: str | None = None,
    centres_nm: Float[np.ndarray, " band"] | None = None,
    physical: bool = True,
) -> Scene:
    """Reads a cube or a part of it into memory; arguments as for `open_envi`."""
    with open_envi(path, OpenOptions(unit=unit, window_nm=window_nm), centres_nm=centres_nm, physical=physical) as file:
        try:
            return file.window(rows, cols)
        except SceneError as failure:
            raise ReaderError(
                path, f"no usable pixel in that part of it ({failure})", "give another cube or part"
            ) from failure
