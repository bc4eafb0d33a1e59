"""OxHyperSyntheticCH4: EMIT tiles of 512 x 512 pixels with synthetic plumes.

Růžička and Markham (2025), "HyperspectralViTs: General Hyperspectral Models for On-board Remote Sensing", IEEE JSTARS
18, 10241. A folder an event holds the ENVI cube `B` (86 bands: 3 visible, 18 near 1.6 um, 65 from 2004 to 2478 nm),
`labelbinary.tif` and the matched-filter product `B_magic30_tile.tif`; the splits are `<split>_filtered_v2.csv`.
Training takes windows of 64 x 64 pixels every 32 pixels that are at least 90 % valid; the test scores every window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from flame.io.dataset import Dataset
from flame.io.envi import read_envi
from flame.io.envi_header import EnviHeader
from flame.io.errors import ReaderError
from flame.io.index import find_index, read_index
from flame.io.options import OpenOptions
from flame.io.radiance_unit import unit_not_used
from flame.io.raster import read_label, read_methane_map
from flame.physics import METHANE_WINDOW_NM, RADIANCE_UNIT, sensor
from flame.scene import Scene
from flame.tile import LabelledTile

__all__ = [
    "LOOKS_LIKE",
    "WINDOW_PX",
    "WINDOW_STRIDE_PX",
    "is_tile",
    "open_tile",
    "read_dataset",
    "read_tile",
    "read_tile_scene",
    "windows",
]

LOOKS_LIKE = "an OxHyperSyntheticCH4 event folder with the ENVI cube B and B.hdr"

CUBE, LABEL, MAG1C = "B", "labelbinary.tif", "B_magic30_tile.tif"
WINDOW_PX, WINDOW_STRIDE_PX = 64, 32
MIN_VALID_SHARE = 0.9

_STORED_RANGES_NM = ((455.5, 463.0), (545.0, 552.5), (634.5, 642.0), (1570.0, 1703.0), (2001.0, 2481.0))
"""What the 86-band cubes keep of EMIT's 285 bands: 462.6, 551.9, 641.3, 1573.3 to 1699.8 and 2004.4 to 2478.2 nm."""


def is_tile(path: Path) -> bool:
    """Whether a path is an event folder."""
    return (path / CUBE).is_file() and (path / f"{CUBE}.hdr").is_file()


def read_tile_scene(folder: Path | str, window_nm: tuple[float, float] = METHANE_WINDOW_NM) -> Scene:
    """Radiance, RGB and validity of an event; needs no label.

    Args:
        folder: The event's folder.
        window_nm: Which bands to read, by their centres.
    """
    folder = Path(folder)
    if not is_tile(folder):
        raise ReaderError(folder, "no ENVI cube B with B.hdr in it", f"give {LOOKS_LIKE}")
    cube = folder / CUBE
    header = EnviHeader.read(cube)
    scene = read_envi(cube, window_nm=window_nm, unit=RADIANCE_UNIT, centres_nm=_centres(header), physical=False)
    return replace(scene, acquisition=replace(scene.acquisition, sensor="emit", source=str(folder)))


def open_tile(folder: Path, options: OpenOptions) -> Scene:
    """`read_tile_scene` with the options of `open_scene`; a tile's radiance is known up to a factor, so no unit."""
    scene = read_tile_scene(folder, options.window_nm)
    notes = unit_not_used(options, "the numbers of an OxHyper event are taken as they are, radiance up to a factor")
    return replace(scene, acquisition=replace(scene.acquisition, extra=scene.acquisition.extra | notes))


def read_tile(folder: Path | str, window_nm: tuple[float, float] = METHANE_WINDOW_NM) -> LabelledTile:
    """Reads an event with its label and matched-filter product.

    Args:
        folder: The event's folder; its last part is the tile's name.
        window_nm: Which bands to read, by their centres.
    """
    folder = Path(folder)
    scene = read_tile_scene(folder, window_nm)
    return LabelledTile(
        name=folder.name,
        scene=scene,
        label=read_label(folder / LABEL, scene.shape),
        mag1c_ppm_m=read_methane_map(folder / MAG1C, scene.shape),
    )


def read_dataset(root: Path | str, split: str = "train") -> Dataset:
    """Opens a split, `train`, `val` or `test`, of an OxHyperSyntheticCH4 folder."""
    root = Path(root)
    published = root / f"{split}_filtered_v2.csv"
    index = published if published.is_file() else find_index(root, split)
    return Dataset(root, tuple(read_index(index, split)), read_tile)


def windows(tile: LabelledTile, min_valid_share: float = MIN_VALID_SHARE) -> Iterator[LabelledTile]:
    """The 64 x 64 windows every 32 pixels of a tile, complete ones only, named as in the published window lists.

    Args:
        tile: The tile to cut.
        min_valid_share: Windows with fewer valid pixels are left out. 0.9 as in training; 0 for all that have any.
    """
    rows, cols = tile.scene.shape
    for row in range(0, rows - WINDOW_PX + 1, WINDOW_STRIDE_PX):
        for col in range(0, cols - WINDOW_PX + 1, WINDOW_STRIDE_PX):
            valid = tile.scene.valid[row : row + WINDOW_PX, col : col + WINDOW_PX]
            if valid.any() and valid.mean() >= min_valid_share:
                yield _cut(tile, row, col)


def _cut(tile: LabelledTile, row: int, col: int) -> LabelledTile:
    at = (..., slice(row, row + WINDOW_PX), slice(col, col + WINDOW_PX))
    scene = tile.scene
    return replace(
        tile,
        name=f"{tile.name}_r{row}_c{col}_w{WINDOW_PX}_h{WINDOW_PX}",
        scene=replace(
            scene,
            radiance=np.ascontiguousarray(scene.radiance[at]),
            valid=scene.valid[at].copy(),
            rgb=None if scene.rgb is None else np.ascontiguousarray(scene.rgb[at]),
            geo=None if scene.geo is None else scene.geo.window(at[1], at[2]),
        ),
        label=tile.label[at].copy(),
        enhancement_ppm_m=None if tile.enhancement_ppm_m is None else tile.enhancement_ppm_m[at].copy(),
        mag1c_ppm_m=None if tile.mag1c_ppm_m is None else tile.mag1c_ppm_m[at].copy(),
    )


def _centres(header: EnviHeader) -> Float[np.ndarray, " band"]:
    """Band centres from `wavelength` or band names such as '462.59888 (462.59888)'; nominal where both were lost."""
    if "wavelength" in header.fields:
        return header.centres_nm()
    names = [name.strip() for name in header.fields.get("band_names", "").strip("{} \n").split(",")]
    numbers = [re.match(r"\d+\.\d+", name) for name in names]
    if len(names) == header.bands and all(numbers):
        return np.array([float(number[0]) for number in numbers if number])
    grid = sensor("emit").bands
    stored = np.logical_or.reduce([grid.within(*window) for window in _STORED_RANGES_NM])
    for nominal in (grid, grid.select(stored)):
        if len(nominal) == header.bands:
            return nominal.centres_nm
    raise ReaderError(
        header.path, f"states no wavelengths and its {header.bands} bands are not EMIT's 86 or 285", "fix the header"
    )
