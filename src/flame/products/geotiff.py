"""Maps as cloud-optimised GeoTIFFs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped

from flame.files import WriteError, printable, write_whole
from flame.products.geolocate import MapGrid

__all__ = ["write_cog"]


def write_cog(
    path: Path,
    layer: Shaped[np.ndarray, "row col"],
    shown: Bool[np.ndarray, "row col"],
    grid: MapGrid,
    description: str,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Writes one layer, in scene pixels, onto the grid as a COG under a temporary name and renames it.

    Raises:
        WriteError: If it cannot be written; nothing is left under its name then but what was there before.

    Args:
        path: The file.
        layer: float32, uint8 or bool.
        shown: Pixels that mean something; the others become no-data (NaN, or 255).
        grid: From `map_grid`.
        description: Name of the layer with its unit.
        tags: What else the file should say.
    """
    from rasterio.transform import Affine

    values = layer.astype(np.uint8) if layer.dtype == np.bool_ else layer
    nodata = 255 if values.dtype == np.uint8 else np.nan
    mapped = np.where(grid.shown(shown), grid.onto(values, nodata), values.dtype.type(nodata))
    profile = {"driver": "GTiff", "height": mapped.shape[0], "width": mapped.shape[1], "count": 1}
    profile |= {"dtype": mapped.dtype, "nodata": nodata}
    if grid.crs is not None:
        profile |= {"crs": grid.crs, "transform": Affine(*grid.affine)}
    write_whole(path, _encoded(mapped, profile, description, tags or {}, path))


def _encoded(
    mapped: Shaped[np.ndarray, "row col"],
    profile: Mapping[str, Any],
    description: str,
    tags: Mapping[str, str],
    path: Path,
) -> bytes:
    """The file's bytes, made in memory and read back: on a disk, GDAL does not tell of a write that failed."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning, RasterioError
    from rasterio.shutil import copy

    whole_numbers = mapped.dtype == np.uint8
    options = {
        "compress": "deflate",
        "predictor": "standard" if whole_numbers else "floating_point",
        "overview_resampling": "nearest" if whole_numbers else "average",
    }
    try:
        with rasterio.MemoryFile() as plain, rasterio.MemoryFile() as cog, warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)  # a scene without position is no mistake
            with plain.open(**profile) as target:
                target.write(mapped, 1)
                target.set_band_description(1, description)
                target.update_tags(**{name: printable(text) for name, text in tags.items()})
            copy(plain.name, cog.name, driver="COG", **options)
            with cog.open() as written:
                same = np.array_equal(written.read(1), mapped, equal_nan=not whole_numbers)
            content = bytes(cog.getbuffer())
    except (RasterioError, ValueError) as failure:
        raise WriteError(f"{path}: cannot be made into a GeoTIFF ({failure})") from failure
    if not same:
        raise WriteError(f"{path}: reads back otherwise than it was written; is there enough memory?")
    return content
