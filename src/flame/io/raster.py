"""Single-band rasters through GDAL, with every failure turned into a `ReaderError` that names the file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rasterio
from jaxtyping import Bool, Float32, Shaped
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from flame.io.budget import check_block, check_cube, check_expansion, check_in_memory, regular_file
from flame.io.errors import ReaderError
from flame.scene import GeoGrid

__all__ = [
    "crs_of_text",
    "crs_text",
    "gdal_safely",
    "geo_of",
    "open_raster",
    "opened",
    "read_label",
    "read_layer",
    "read_methane_map",
    "write_layer",
]

MAP_FILL = -9999.0
"""What matched-filter products write where they have no value."""


_SAFELY = {"GDAL_PAM_ENABLED": "NO", "GDAL_CACHEMAX": 64, "GDAL_HTTP_MAX_RETRY": 0}
"""No settings from files beside the raster, and 64 MB for GDAL's own copies instead of a share of the machine."""

_AGAIN = "copy or download it again"


@contextmanager
def gdal_safely(path: Path, driver: str = "GTiff") -> Iterator[None]:
    """GDAL with these settings; its failures become a `ReaderError` that names the file."""
    try:
        with warnings.catch_warnings(), rasterio.Env(**_SAFELY):
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            yield
    except (RasterioError, OSError, OverflowError, UnicodeError) as failure:
        words = " ".join(str(failure).split())[:200]
        problem = f"cannot be read, it is truncated or not a {driver} raster ({words})"
        raise ReaderError(path, problem, _AGAIN) from failure


def opened(path: Path, driver: str = "GTiff") -> rasterio.DatasetReader:
    """Opens a raster of one format, for the caller to close.

    No other GDAL driver gets to see the file: some of them follow what it says to other files or into the network.
    What the file declares is checked before anything is read.
    """
    regular_file(path)
    with gdal_safely(path, driver):
        source = rasterio.open(path.absolute(), driver=driver)
    try:
        _check_declared(path, source)
    except BaseException:
        source.close()
        raise
    return source


@contextmanager
def open_raster(path: Path, driver: str = "GTiff") -> Iterator[rasterio.DatasetReader]:
    """`opened`, closed at the end of the block; failures while reading become a `ReaderError` too."""
    with opened(path, driver) as source, gdal_safely(path, driver):
        yield source


def _check_declared(path: Path, source: rasterio.DatasetReader) -> None:
    check_cube(path, source.count, source.height, source.width)
    item = max(np.dtype(name).itemsize for name in set(source.dtypes))
    check_expansion(path, source.count * source.height * source.width * item)
    shared = source.count if source.interleaving is not None and source.interleaving.name == "pixel" else 1
    for height, width in set(source.block_shapes):
        check_block(path, "the image", (height, width, shared), item)


def geo_of(source: rasterio.DatasetReader) -> GeoGrid | None:
    """The map grid of an open raster, if it has one."""
    if source.crs is None or source.transform.is_identity:
        return None
    a, b, c, d, e, f = tuple(source.transform)[:6]
    return GeoGrid(crs=crs_text(source.crs), affine=(a, b, c, d, e, f), source="map grid")


def crs_text(crs: rasterio.crs.CRS) -> str:
    """EPSG code of a CRS, or its WKT if it has none."""
    epsg = crs.to_epsg()
    return f"EPSG:{epsg}" if epsg else str(crs.to_wkt())


def crs_of_text(path: Path, text: str | None) -> str:
    """A CRS that a product writes as WKT or code, in the form `crs_text` has.

    Raises:
        ReaderError: If it is missing or not understood.
    """
    try:
        if not text:
            raise ValueError("none is given")
        return crs_text(rasterio.crs.CRS.from_user_input(text))
    except (RasterioError, ValueError) as failure:
        raise ReaderError(
            path, f"its map projection is not understood ({str(failure)[:100]})", "give the product as delivered"
        ) from failure


def read_layer(path: Path, shape: tuple[int, int] | None = None) -> Float32[np.ndarray, "row col"]:
    """The first band of a raster as float32; the file's own nodata value becomes NaN.

    Args:
        path: The file.
        shape: Rows and columns it must have, those of the tile's other layers.
    """
    with open_raster(path) as source:
        check_in_memory(path, "the layer", (source.height, source.width), 4)
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
