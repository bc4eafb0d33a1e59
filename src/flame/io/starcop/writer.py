"""Writes tiles in the STARCOP layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flame.files import whole_folder
from flame.io.errors import ReaderError
from flame.io.names import SAFE_NAME, is_safe_name
from flame.io.raster import write_layer
from flame.io.starcop.layout import ENHANCEMENT, LABEL, MAG1C, RGB_NM, TRUTH, band_file
from flame.io.starcop.truth import write_truth
from flame.tile import LabelledTile

__all__ = ["write_tile"]


def write_tile(tile: LabelledTile, folder: Path | str) -> Path:
    """Writes a tile into its own folder, all or nothing; a folder already there is replaced.

    Invalid pixels are written as zeros in every band, which is how STARCOP pads. Bands are named by their centre cut
    to whole nm, as STARCOP's are; `truth.json` keeps the exact centres. Positions given as latitude and longitude
    arrays have no place in this layout and are left out.

    Args:
        tile: What to write.
        folder: The tile's folder, whose last part must be the tile's name.

    Returns:
        The folder.
    """
    folder = Path(folder)
    if not is_safe_name(tile.name):
        raise ReaderError(folder, f"'{tile.name}' is not safe as a folder name", f"use {SAFE_NAME}")
    if folder.name != tile.name:
        raise ReaderError(folder, f"is not named as its tile, '{tile.name}'", f"write it to {folder / tile.name}")
    names = np.floor(tile.scene.bands.centres_nm).astype(int).tolist()
    if len(set(names) | set(RGB_NM)) != len(names) + 3:
        raise ReaderError(
            folder,
            "two bands would get the same file name, which is the centre cut to whole nm",
            "the STARCOP layout holds bands at least 1 nm apart beside 640, 550 and 460 nm; select fewer bands",
        )
    with whole_folder(folder) as partial:
        _write_layers(tile, partial, names)
    return folder


def _write_layers(tile: LabelledTile, folder: Path, names: list[int]) -> None:
    scene = tile.scene
    for name, radiance in zip(names, scene.radiance, strict=True):
        write_layer(folder / band_file(name), np.where(scene.valid, radiance, np.float32(0)), scene.geo)
    for name, radiance in zip(RGB_NM, () if scene.rgb is None else scene.rgb, strict=scene.rgb is not None):
        write_layer(folder / band_file(name), np.where(scene.valid, radiance, np.float32(0)), scene.geo)
    write_layer(folder / LABEL, tile.label.astype(np.uint8), scene.geo)
    if tile.enhancement_ppm_m is not None:
        write_layer(folder / ENHANCEMENT, tile.enhancement_ppm_m, scene.geo)
    if tile.mag1c_ppm_m is not None:
        write_layer(folder / MAG1C, tile.mag1c_ppm_m, scene.geo)
    write_truth(folder / TRUTH, tile)
