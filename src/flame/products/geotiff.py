"""Maps as cloud-optimised GeoTIFFs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Shaped

from flame.files import whole_file
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

    Args:
        path: The file.
        layer: float32, uint8 or bool.
        shown: Pixels that mean something; the others become no-data (NaN, or 255).
        grid: From `map_grid`.
        description: Name of the layer with its unit.
        tags: What else the file should say.
    """
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning
    from rasterio.shutil import copy
    from rasterio.transform import Affine

    values = layer.astype(np.uint8) if layer.dtype == np.bool_ else layer
    nodata = 255 if values.dtype == np.uint8 else np.nan
    mapped = np.where(grid.shown(shown), grid.onto(values, nodata), values.dtype.type(nodata))
    profile = {"driver": "GTiff", "height": mapped.shape[0], "width": mapped.shape[1], "count": 1}
    profile |= {"dtype": mapped.dtype, "nodata": nodata}
    if grid.crs is not None:
        profile |= {"crs": grid.crs, "transform": Affine(*grid.affine)}
    with whole_file(path) as partial, rasterio.MemoryFile() as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # a scene without position is no mistake
        with memory.open(**profile) as target:
            target.write(mapped, 1)
            target.set_band_description(1, description)
            target.update_tags(**(tags or {}))
        resampling = "nearest" if mapped.dtype == np.uint8 else "average"
        predictor = "standard" if mapped.dtype == np.uint8 else "floating_point"
        options = {"compress": "deflate", "predictor": predictor, "overview_resampling": resampling}
        copy(memory.name, partial, driver="COG", **options)
