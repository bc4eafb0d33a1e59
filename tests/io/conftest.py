"""Tiles that the reader tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from io_samples import STARCOP_NAME, STARCOP_NM, make_tile, write_tif

from flame.tile import LabelledTile


@pytest.fixture
def tile() -> LabelledTile:
    return make_tile()


@pytest.fixture
def starcop_folder(tmp_path: Path) -> Path:
    """A tile as downloaded: no truth, products and bands that are not read, padding at the edge."""
    folder = tmp_path / STARCOP_NAME
    folder.mkdir()
    rng = np.random.default_rng(1)
    for name in [640, 550, 460, 2004, 2109, *STARCOP_NM, 2485]:
        values = np.full((5, 8), name / 1000, dtype=np.float32) + rng.uniform(0, 0.1, (5, 8)).astype(np.float32)
        values[:, -2:] = 0
        write_tif(folder / f"TOA_AVIRIS_{name}nm.tif", values)
    label = np.zeros((5, 8), dtype=np.uint8)
    label[1:3, 2:5] = 1
    write_tif(folder / "labelbinary.tif", label)
    write_tif(folder / "mag1c.tif", label.astype(np.float32) * 1500)
    write_tif(folder / "TOA_WV3_SWIR1.tif", label.astype(np.float32))
    return folder
