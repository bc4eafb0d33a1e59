"""Single-band rasters through GDAL, with every failure turned into a `ReaderError` that names the file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import rasterio
from jaxtyping import Bool, Float32, Shaped
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.windows import Window

from flame.io.errors import ReaderError
from flame.scene import GeoGrid

__all__ = ["geo_of", "move_corner", "open_raster", "read_label", "read_layer", "read_methane_map", "write_layer"]

MAP_FILL = -9999.0
"""What matched-filter products write where they have no value."""


@contextmanager
def open_raster(path: Path) -> Iterator[rasterio.DatasetReader]:
    """Opens a raster; failures to open it or to read from it become a `ReaderError`."""
    if not path.is_file():
        raise ReaderError(path, "the file is not there", "copy or download it again")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(path) as source:
                yield source
    except RasterioError as failure:
        raise ReaderError(
            path, f"cannot be read, it is truncated or not a raster ({failure})", "copy or download it again"
        ) from failure


def geo_of(source: rasterio.DatasetReader, window: Window | None = None) -> GeoGrid | None:
    """The map grid of an open raster or of a window of it, if it has one."""
    if source.crs is None or source.transform.is_identity:
        return None
    epsg = source.crs.to_epsg()
    a, b, c, d, e, f = tuple(source.transform)[:6]
    geo = GeoGrid(crs=f"EPSG:{epsg}" if epsg else source.crs.to_wkt(), affine=(a, b, c, d, e, f))
    return geo if window is None else move_corner(geo, int(window.row_off), int(window.col_off))


def move_corner(geo: GeoGrid, row: int, col: int) -> GeoGrid:
    """The map grid of the part of a raster that begins at a row and a column."""
    if geo.affine is None:
        return geo
    a, b, c, d, e, f = geo.affine
    return replace(geo, affine=(a, b, c + a * col + b * row, d, e, f + d * col + e * row))


def read_layer(path: Path, shape: tuple[int, int] | None = None) -> Float32[np.ndarray, "row col"]:
    """The first band of a raster as float32; the file's own nodata value becomes NaN.

    Args:
        path: The file.
        shape: Rows and columns it must have, those of the tile's other layers.
    """
    with open_raster(path) as source:
        values: Float32[np.ndarray, "row col"] = source.read(1, out_dtype=np.float32)
        nodata = source.nodata
    if shape is not None and values.shape != shape:
        raise ReaderError(
            path,
            f"has {values.shape[0]} x {values.shape[1]} pixels, the tile's other layers {shape[0]} x {shape[1]}",
            "every layer of a tile must have one size; copy or download the tile again",
        )
    if nodata is not None and nodata != 0:
        values[values == np.float32(nodata)] = np.nan
    return values


def read_label(path: Path, shape: tuple[int, int]) -> Bool[np.ndarray, "row col"]:
    """A binary plume mask of the given size."""
    values = read_layer(path, shape)
    if not np.isin(values, (0, 1)).all():
        raise ReaderError(path, "holds other values than 0 and 1", "give a binary plume mask")
    label: Bool[np.ndarray, "row col"] = values == 1
    return label


def read_methane_map(path: Path, shape: tuple[int, int]) -> Float32[np.ndarray, "row col"] | None:
    """A map in ppm m if the file is there; zero where it has no value."""
    if not path.exists():
        return None
    values = read_layer(path, shape)
    return np.where(np.isfinite(values) & (values != MAP_FILL), values, np.float32(0))


def write_layer(path: Path, values: Shaped[np.ndarray, "row col"], geo: GeoGrid | None = None) -> None:
    """Writes one layer as a single-band GeoTIFF, on the map if the scene is.

    Made in memory first: of a write to the disk that failed, GDAL does not tell.
    """
    on_map = {} if geo is None or geo.affine is None else {"crs": geo.crs, "transform": rasterio.Affine(*geo.affine)}
    rows, cols = values.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        profile = {"driver": "GTiff", "height": rows, "width": cols, "count": 1, "dtype": values.dtype, **on_map}
        with rasterio.MemoryFile() as memory:
            with memory.open(**profile) as target:
                target.write(values, 1)
            path.write_bytes(memory.getbuffer())
