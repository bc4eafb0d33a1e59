"""Maps as cloud-optimised GeoTIFFs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped

from flame.files import WriteError, printable, write_whole
from flame.products.geolocate import MapGrid

__all__ = ["write_cog"]

_BLOCK_PX = 256
_ROWS_AT_ONCE = 4 * _BLOCK_PX
"""A map is put together and checked in blocks of so many rows: it is never in memory whole beside its own layer."""


@dataclass(frozen=True)
class _Facts:
    """What a file says of itself.

    Attributes:
        descriptions: Name of each band.
        unit: Unit of every band, if it has one.
        tags: Anything else: source, time, model.
    """

    descriptions: Sequence[str]
    unit: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


def write_cog(
    path: Path,
    layer: Shaped[np.ndarray, "*band row col"],
    shown: Bool[np.ndarray, "row col"],
    grid: MapGrid,
    description: str | Sequence[str],
    tags: Mapping[str, str] | None = None,
    unit: str | None = None,
) -> None:
    """Writes a map, in scene pixels, onto the grid as a COG under a temporary name and renames it.

    Args:
        path: The file.
        layer: float32, uint16, uint8 or bool; with an axis of bands or without.
        shown: Pixels that mean something; the others become no-data (NaN, 65535 or 255).
        grid: From `map_grid`; each of its cells shows one pixel as it is, nothing is interpolated.
        description: Name of the layer with its unit, or of each of its bands.
        tags: What else the file should say: source, time, model.
        unit: Unit of its values, if they have one.

    Raises:
        WriteError: If it cannot be written; nothing is left under its name then but what was there before.
    """
    bands = layer if layer.ndim == 3 else layer[None]
    if bands.dtype == np.bool_:
        bands = bands.view(np.uint8)
    facts = _Facts([description] if isinstance(description, str) else description, unit, tags or {})
    write_whole(path, _encoded(_Map(bands, shown, grid), facts, path))


@dataclass(frozen=True, eq=False)
class _Map:
    """The bands of a map, given out in blocks of rows."""

    bands: Shaped[np.ndarray, "band row col"]
    shown: Bool[np.ndarray, "row col"]
    grid: MapGrid

    @property
    def nodata(self) -> float:
        whole = np.issubdtype(self.bands.dtype, np.integer)
        return float(np.iinfo(self.bands.dtype).max) if whole else float("nan")

    def blocks(self) -> Iterator[tuple[slice, Shaped[np.ndarray, "band row col"]]]:
        missing = self.bands.dtype.type(self.nodata)
        height = self.grid.shape(self.shown.shape)[0]
        for first in range(0, height, _ROWS_AT_ONCE):
            rows = slice(first, min(first + _ROWS_AT_ONCE, height))
            there = self.grid.shown(self.shown, rows)
            yield rows, np.stack([np.where(there, self.grid.onto(band, missing, rows), missing) for band in self.bands])

    def profile(self) -> dict[str, Any]:
        from rasterio.transform import Affine

        height, width = self.grid.shape(self.shown.shape)
        found: dict[str, Any] = {"driver": "GTiff", "height": height, "width": width, "count": len(self.bands)}
        found |= {"dtype": self.bands.dtype, "nodata": self.nodata}
        found |= {"tiled": True, "blockxsize": _BLOCK_PX, "blockysize": _BLOCK_PX, "compress": "zstd", "zstd_level": 1}
        if self.grid.crs is not None:
            found |= {"crs": self.grid.crs, "transform": Affine(*self.grid.affine)}
        return found


def _encoded(content: _Map, facts: _Facts, path: Path) -> bytes:
    """The file's bytes, made in memory and read back: on a disk, GDAL does not tell of a write that failed."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning, RasterioError
    from rasterio.shutil import copy
    from rasterio.windows import Window

    whole_numbers = np.issubdtype(content.bands.dtype, np.integer)
    options = {
        "compress": "deflate",
        "predictor": "standard" if whole_numbers else "floating_point",
        "overview_resampling": "nearest" if whole_numbers else "average",
        "blocksize": _BLOCK_PX,
    }
    profile = content.profile()
    width = profile["width"]
    same = True
    try:
        with rasterio.MemoryFile() as plain, rasterio.MemoryFile() as cog, warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)  # a scene without position is no mistake
            with plain.open(**profile) as target:
                for rows, values in content.blocks():
                    target.write(values, window=Window(0, rows.start, width, rows.stop - rows.start))
                for number, description in enumerate(facts.descriptions, start=1):
                    target.set_band_description(number, printable(description))
                    if facts.unit is not None:
                        target.set_band_unit(number, facts.unit)
                target.update_tags(**{name: printable(text) for name, text in facts.tags.items()})
            copy(plain.name, cog.name, driver="COG", **options)
            with cog.open() as written:
                for rows, values in content.blocks():
                    window = Window(0, rows.start, width, rows.stop - rows.start)
                    same &= np.array_equal(written.read(window=window), values, equal_nan=not whole_numbers)
            encoded = bytes(cog.getbuffer())
    except (RasterioError, ValueError) as failure:
        raise WriteError(f"{path}: cannot be made into a GeoTIFF ({failure})") from failure
    if not same:
        raise WriteError(f"{path}: reads back otherwise than it was written; is there enough memory?")
    return encoded
