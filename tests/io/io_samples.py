"""Small tiles that look like what each format holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import rasterio

from flame.io import starcop
from flame.physics import BandSet, sensor
from flame.scene import Acquisition, GeoGrid, Scene
from flame.tile import LabelledTile, PlumeSource

UTM = GeoGrid(crs="EPSG:32613", affine=(5.0, 0.0, 600000.0, 0.0, -5.0, 3500000.0))

FEW_BANDS = BandSet(np.array([2124.4, 2299.7, 2350.2]), np.array([5.8, 5.8, 5.9]))


def make_tile(
    name: str = "sim_0001",
    rows: int = 6,
    cols: int = 7,
    bands: BandSet | None = None,
    seed: int = 0,
    geo: GeoGrid | None = UTM,
) -> LabelledTile:
    """A simulated tile whose first row is invalid."""
    rng = np.random.default_rng(seed)
    bands = bands or sensor("aviris-ng").bands.methane()
    valid = np.ones((rows, cols), dtype=np.bool_)
    valid[0] = False
    scene = Scene(
        rng.uniform(0.1, 3.0, (len(bands), rows, cols)).astype(np.float32),
        bands,
        valid,
        rng.uniform(1.0, 9.0, (3, rows, cols)).astype(np.float32),
        geo,
        Acquisition(sensor="aviris-ng", solar_zenith_deg=31.5),
    )
    enhancement = rng.uniform(0, 4000, (rows, cols)).astype(np.float32)
    return LabelledTile(
        name,
        scene,
        enhancement > 2000,
        enhancement,
        emission_kg_h=812.25,
        sources=(PlumeSource(3.5, 2.25, 812.25, 4.5, 210.0),),
    )


def write_tif(path: Path, values: np.ndarray, **profile: object) -> None:
    """A GeoTIFF written without FLAME."""
    rows, cols = values.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        height=rows,
        width=cols,
        count=1,
        dtype=values.dtype,
        crs="EPSG:32613",
        transform=rasterio.Affine(5.0, 0.0, 600000.0, 0.0, -5.0, 3500000.0),
        **profile,
    ) as target:
        target.write(values, 1)


STARCOP_NM = [*range(2124, 2270, 5), *range(2275, 2481, 5)]
"""The 72 methane bands as STARCOP's all-bands files are called."""

STARCOP_NAME = "ang20191018t144405_r2674_c436_w151_h151"


STARCOP_CSV = """\
id,candidate_id,qplume,name,folder,date,datetime,window_col_off,window_row_off,window_width,window_height,subset,\
difficulty,label_path,has_plume,window_labels
{name},ang20191018t144405-3,6957.15116,ang20191018t144405,/AVIRISNG/Permian2019/{name},18/10/2019,\
2019-10-18 14:44:05+00:00,0,0,512,512,test,easy,gs://starcop/Permian/x.tif,True,\
"Window(col_off=-180, row_off=-180, width=512, height=512)"
"""


def write_dataset(root: Path, names: list[str], split: str = "train") -> None:
    """A data set of small simulated tiles."""
    tiles = [make_tile(name, bands=FEW_BANDS, seed=at) for at, name in enumerate(names)]
    for tile in tiles:
        starcop.write_tile(tile, root / tile.name)
    starcop.write_index(root, split, [starcop.TileRecord.of(tile, split) for tile in tiles])
