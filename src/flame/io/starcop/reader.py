"""Reads one STARCOP tile folder."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from jaxtyping import Float, Float32

from flame.io.dataset import Dataset
from flame.io.errors import ReaderError
from flame.io.index import find_index, read_index
from flame.io.names import acquisition_time
from flame.io.options import OpenOptions
from flame.io.radiance_unit import unit_not_used
from flame.io.raster import geo_of, open_raster, read_label, read_layer, read_methane_map
from flame.io.starcop.layout import (
    ENHANCEMENT,
    LABEL,
    MAG1C,
    RGB_NM,
    SENSOR,
    TRUTH,
    VALID_MASK,
    band_file,
    band_files,
    bands_from_names,
)
from flame.io.starcop.truth import Truth, read_truth
from flame.io.validity import count_note, find_valid
from flame.physics import METHANE_WINDOW_NM, BandSet, sensor
from flame.scene import Acquisition, Scene
from flame.tile import LabelledTile

__all__ = ["LOOKS_LIKE", "is_tile", "open_tile", "read_dataset", "read_tile", "read_tile_scene"]

LOOKS_LIKE = "a STARCOP tile folder with TOA_AVIRIS_<nm>nm.tif files"

SCALING_NOTE = "multiplied by pi d^2 / cos(sun zenith): one unknown factor for the whole tile"


def is_tile(path: Path) -> bool:
    """Whether a path is a folder with STARCOP band files."""
    return path.is_dir() and any(path.glob("TOA_AVIRIS_*nm.tif"))


def read_tile_scene(
    folder: Path | str,
    window_nm: tuple[float, float] = METHANE_WINDOW_NM,
) -> Scene:
    """Radiance, RGB and validity of a tile; needs no label.

    Args:
        folder: The tile's folder.
        window_nm: Which bands to read, by their centres.

    Raises:
        ReaderError: If a file is missing, damaged or of another size, or no pixel is usable.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReaderError(folder, "no such tile folder", "check the data set's folder, or download the tile")
    truth = read_truth(folder / TRUTH)
    files, bands = _choose_bands(folder, truth, window_nm)
    with open_raster(files[0]) as source:
        geo, shape = geo_of(source), (int(source.height), int(source.width))
    radiance = _read_stack(files, shape)
    rgb_files = [folder / band_file(name) for name in RGB_NM]
    rgb = _read_stack(rgb_files, shape) if any(path.exists() for path in rgb_files) else None
    valid = find_valid(radiance, rgb)
    if (folder / VALID_MASK).exists():
        valid &= read_layer(folder / VALID_MASK, shape) > 0
    if not valid.any():
        raise ReaderError(
            folder, "no usable pixel: every one is NaN, -9999 or zero", "leave the tile out or download it again"
        )
    if truth is not None:
        known = truth.acquisition
    else:
        scaling = {"radiance_scaling": SCALING_NOTE}
        known = Acquisition(sensor=SENSOR, time=acquisition_time(folder.name), extra=scaling)
    acquisition = replace(known, source=str(folder), extra=known.extra | count_note(valid))
    return Scene(radiance, bands, valid, rgb, geo, acquisition)


def open_tile(folder: Path, options: OpenOptions) -> Scene:
    """`read_tile_scene` with the options of `open_scene`; a tile's radiance is known up to a factor, so no unit."""
    scene = read_tile_scene(folder, options.window_nm)
    notes = unit_not_used(options, "the numbers of a STARCOP tile are taken as they are, radiance up to a factor")
    return replace(scene, acquisition=replace(scene.acquisition, extra=scene.acquisition.extra | notes))


def read_tile(
    folder: Path | str,
    pad_to: int | None = None,
    window_nm: tuple[float, float] = METHANE_WINDOW_NM,
) -> LabelledTile:
    """Reads a tile with its label, and with the truth if it was simulated.

    Args:
        folder: The tile's folder; its last part is the tile's name.
        pad_to: Rows and columns to pad smaller tiles to, at the bottom and on the right, with invalid pixels;
            512 for STARCOP.
        window_nm: Which bands to read, by their centres.

    Raises:
        ReaderError: If a file is missing, damaged or of another size, or no pixel is usable.
    """
    folder = Path(folder)
    scene = read_tile_scene(folder, window_nm)
    truth = read_truth(folder / TRUTH)
    tile = LabelledTile(
        name=folder.name,
        scene=scene,
        label=read_label(folder / LABEL, scene.shape),
        enhancement_ppm_m=read_methane_map(folder / ENHANCEMENT, scene.shape),
        mag1c_ppm_m=read_methane_map(folder / MAG1C, scene.shape),
        emission_kg_h=truth.emission_kg_h if truth else None,
        sources=truth.sources if truth else (),
    )
    return tile if pad_to is None else _pad(tile, pad_to)


def read_dataset(root: Path | str, split: str = "train", pad_to: int | None = None) -> Dataset:
    """Opens a split of a STARCOP folder.

    Args:
        root: The folder with the CSV files and the tile folders.
        split: `train` or `test`.
        pad_to: Size to pad smaller tiles to; 512 for STARCOP.

    Raises:
        ReaderError: If the split has no usable CSV file.
    """
    root = Path(root)
    return Dataset(root, tuple(read_index(find_index(root, split), split)), partial(read_tile, pad_to=pad_to))


def _choose_bands(folder: Path, truth: Truth | None, window_nm: tuple[float, float]) -> tuple[list[Path], BandSet]:
    if truth is not None:
        bands = truth.bands
        files = [folder / band_file(int(centre)) for centre in bands.centres_nm]
    else:
        named = {name: path for name, path in band_files(folder).items() if name not in RGB_NM}
        if not named:
            raise ReaderError(folder, "holds no TOA_AVIRIS_<nm>nm.tif band", f"give {LOOKS_LIKE}")
        bands = bands_from_names(np.array(list(named)))
        files = list(named.values())
    inside = bands.within(*window_nm)
    if truth is None:
        _refuse_gaps(folder, bands.centres_nm[inside], window_nm)
    if not inside.any():
        raise ReaderError(folder, f"no band between {window_nm[0]:g} and {window_nm[1]:g} nm", "ask for a wider window")
    return [path for path, chosen in zip(files, inside, strict=True) if chosen], bands.select(inside)


def _refuse_gaps(folder: Path, centres_nm: Float[np.ndarray, " band"], window_nm: tuple[float, float]) -> None:
    """A missing band leaves a hole of two steps in AVIRIS-NG's even grid, or of more than one at the window's ends."""
    grid_nm = sensor(SENSOR).bands.centres_nm
    step_nm = float(np.diff(grid_nm).mean())
    low_nm, high_nm = max(window_nm[0], grid_nm[0] - 1), min(window_nm[1], grid_nm[-1] + 1)
    rgb_nm = [name for name in RGB_NM if low_nm < name < high_nm]
    inner = np.sort(np.concatenate([centres_nm, rgb_nm]))
    marks = np.concatenate([[low_nm - step_nm / 2], inner, [high_nm + step_nm / 2]])
    holes = np.flatnonzero(np.diff(marks) > 1.6 * step_nm)
    if holes.size:
        places_nm = [inner[0] - step_nm if at == 0 and inner.size else marks[at] + step_nm for at in holes[:5]]
        listed = ", ".join(f"{int(place)}" for place in places_nm)
        more = f" and {holes.size - 5} more places" if holes.size > 5 else ""
        raise ReaderError(
            folder,
            f"a TOA_AVIRIS band file is missing near {listed} nm{more}",
            "FLAME needs STARCOP's all-bands version; download the tile again or fetch that version",
        )


def _read_stack(files: list[Path], shape: tuple[int, int]) -> Float32[np.ndarray, "band row col"]:
    stack = np.empty((len(files), *shape), dtype=np.float32)
    with rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR"):  # Else every file lists the folder's hundreds anew.
        for layer, path in zip(stack, files, strict=True):
            layer[:] = read_layer(path, shape)
    return stack


def _pad(tile: LabelledTile, size: int) -> LabelledTile:
    rows, cols = tile.scene.shape
    below, right = max(size - rows, 0), max(size - cols, 0)
    if below == right == 0:
        return tile

    def pad(layer: Any) -> Any:
        return np.pad(layer, [(0, 0)] * (layer.ndim - 2) + [(0, below), (0, right)])

    scene = tile.scene
    padded = replace(
        scene,
        radiance=pad(scene.radiance),
        valid=pad(scene.valid),
        rgb=None if scene.rgb is None else pad(scene.rgb),
    )
    return replace(
        tile,
        scene=padded,
        label=pad(tile.label),
        enhancement_ppm_m=None if tile.enhancement_ppm_m is None else pad(tile.enhancement_ppm_m),
        mag1c_ppm_m=None if tile.mag1c_ppm_m is None else pad(tile.mag1c_ppm_m),
    )
