"""Single-band rasters through GDAL, with every failure turned into a `ReaderError` that names the file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rasterio
from jaxtyping import Float32, Shaped
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from flame.io.errors import ReaderError
from flame.scene import GeoGrid

__all__ = ["geo_of", "open_raster", "read_layer", "write_layer"]


@contextmanager
def open_raster(path: Path) -> Iterator[rasterio.DatasetReader]:
    """Opens a raster; failures to open it or to read from it become a `ReaderError`."""
    if not path.exists():
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


def geo_of(source: rasterio.DatasetReader) -> GeoGrid | None:
    """The map grid of an open raster, if it has one."""
    if source.crs is None or source.transform.is_identity:
        return None
    epsg = source.crs.to_epsg()
    a, b, c, d, e, f = tuple(source.transform)[:6]
    return GeoGrid(crs=f"EPSG:{epsg}" if epsg else source.crs.to_wkt(), affine=(a, b, c, d, e, f))


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


def write_layer(path: Path, values: Shaped[np.ndarray, "row col"], geo: GeoGrid | None = None) -> None:
    """Writes one layer as a single-band GeoTIFF, on the map if the scene is."""
    on_map = {} if geo is None or geo.affine is None else {"crs": geo.crs, "transform": rasterio.Affine(*geo.affine)}
    rows, cols = values.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(
            path, "w", driver="GTiff", height=rows, width=cols, count=1, dtype=values.dtype, **on_map
        ) as target:
            target.write(values, 1)
