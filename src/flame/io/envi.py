"""ENVI cubes: a text header beside a binary file, interleaved by band, line or pixel, of either byte order.

GDAL reads the binary and the map; wavelengths, widths, bad bands and units come from the header.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from rasterio.windows import Window

from flame.io.band_choice import choose_bands
from flame.io.envi_header import EnviHeader
from flame.io.errors import ReaderError
from flame.io.raster import geo_of, open_raster
from flame.io.validity import count_note, find_valid
from flame.physics import METHANE_WINDOW_NM
from flame.scene import Acquisition, Scene

__all__ = ["LOOKS_LIKE", "is_envi", "read_envi", "shape_of_envi"]

LOOKS_LIKE = "an ENVI cube: the binary file or the .hdr beside it"

DATA_SUFFIXES = ("", ".img", ".dat", ".bsq", ".bil", ".bip", ".raw", ".bin")


def is_envi(path: Path) -> bool:
    """Whether a path is an ENVI header, or a file with one beside it."""
    if path.suffix.lower() == ".hdr":
        headers = [path]
    else:
        headers = [path.with_name(path.name + ".hdr"), path.with_suffix(".hdr")]
    for header in headers:
        if path.is_file() and header.is_file():
            with header.open("rb") as text:
                return text.read(4) == b"ENVI"
    return False


def shape_of_envi(path: Path | str) -> tuple[int, int]:
    """Rows and columns of a cube, without reading it."""
    with open_raster(_binary_of(Path(path))) as source:
        return int(source.height), int(source.width)


def read_envi(
    path: Path | str,
    rows: slice = slice(None),
    cols: slice = slice(None),
    *,
    window_nm: tuple[float, float] = METHANE_WINDOW_NM,
    unit: str | None = None,
    centres_nm: Float[np.ndarray, " band"] | None = None,
) -> Scene:
    """Reads a cube or a part of it; only the rows, columns and bands asked for leave the disk.

    Args:
        path: The binary file or its header.
        rows: Rows to read.
        cols: Columns to read.
        window_nm: Which bands to read, by their centres; red, green and blue come along if the cube has them.
        unit: Radiance unit, spelled as in `flame.physics.units`. By default what the header says; a float cube whose
            header says nothing is taken to be in `RADIANCE_UNIT`, and `acquisition.extra` notes it.
        centres_nm: Centres of all bands, if the header does not list them.

    Raises:
        ReaderError: If the header or the binary is damaged, the cube holds no radiance or no usable pixel.
    """
    path = Path(path)
    binary = _binary_of(path)
    with open_raster(binary) as source:
        header = EnviHeader.of(binary, source)
        if centres_nm is None:
            centres_nm = header.centres_nm()
        choice = choose_bands(binary, centres_nm, header.fwhm_nm(), header.good_bands(), window_nm)
        scale, notes = header.radiance_scale(unit)
        window = Window.from_slices(rows, cols, height=source.height, width=source.width)
        wanted = [*choice.index.tolist(), *(choice.rgb or ())]
        cube = source.read([at + 1 for at in wanted], window=window, out_dtype=np.float32)
        nodata, geo = source.nodata, geo_of(source, window)
    if nodata is not None and nodata != 0:
        cube[cube == np.float32(nodata)] = np.nan
    radiance = cube[: len(choice.bands)]
    rgb = cube[len(choice.bands) :] if choice.rgb else None
    valid = find_valid(radiance, rgb)
    if not valid.any():
        raise ReaderError(binary, "no usable pixel: every one is NaN, fill or zero", "give another cube or window")
    if scale != 1.0:
        cube *= np.float32(scale)
    acquisition = Acquisition(
        sensor=header.sensor(),
        time=header.time(),
        source=str(path),
        extra=choice.notes | notes | count_note(valid),
    )
    return Scene(radiance, choice.bands, valid, rgb, geo, acquisition)


def _binary_of(path: Path) -> Path:
    if path.suffix.lower() != ".hdr":
        return path
    stem = path.with_suffix("")
    for suffix in DATA_SUFFIXES:
        binary = stem.with_name(stem.name + suffix)
        if binary.is_file():
            return binary
    raise ReaderError(path, "the header's binary file is not there", f"put {stem.name} or {stem.name}.img beside it")
