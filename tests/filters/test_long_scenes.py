"""Scenes longer than a block: filtered in blocks that fade into one another, in memory that does not grow with them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters.simulated_tile import simulated_tile
from flame.filters import FilterError, columns, filter_layers, filter_named, filter_scene
from flame.filters.lines import FadedMaps, LineBlock, line_blocks
from flame.scene import Scene

TILE = simulated_tile(seed=5, size=256)
SCENE = Scene(TILE.radiance, TILE.bands, TILE.valid)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> list[LineBlock]:
    """The tile in three blocks."""
    monkeypatch.setattr(columns, "_BLOCK_BYTES", 4 * len(TILE.bands) * 256 * 110)
    blocks = line_blocks(256, 110, 32)
    assert len(blocks) == 3
    return blocks


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(0, 20), st.integers(1, 400))
def test_blocks_cover_every_line_and_their_weights_are_one(rows: int, overlap: int, more: int) -> None:
    most = 2 * overlap + more
    total = np.zeros(rows)
    for block in line_blocks(rows, most, overlap):
        assert 0 < block.stop - block.first <= most
        total[block.lines] += block.weight()
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)


def test_what_looks_at_pixels_alone_does_not_see_the_blocks(short_blocks: list[LineBlock]) -> None:
    alone = replace(filter_named("mf"), score=lambda radiance, *_: radiance[3] / radiance[5])
    np.testing.assert_allclose(filter_scene(alone, SCENE), TILE.radiance[3] / TILE.radiance[5], rtol=1e-6)


@pytest.mark.parametrize("name", ["mf", "log-mf", "mag1c", "noise-aware-mf"])
def test_no_seam_between_blocks(short_blocks: list[LineBlock], name: str) -> None:
    """From line to line the median score over all columns steps no more where blocks meet than elsewhere."""
    method = filter_named(name)
    score = filter_scene(method, SCENE)
    whole = method.score(TILE.radiance, TILE.bands, TILE.valid)
    assert np.corrcoef(score.ravel(), whole.ravel())[0, 1] > 0.9
    steps = np.abs(np.diff(np.quantile(score, 0.9, axis=1)))
    edges = [edge - 1 for block in short_blocks for edge in (block.first, block.stop) if 0 < edge < 256]
    assert steps[edges].max() <= np.delete(steps, edges).max()


def test_what_is_not_finite_gives_way_to_what_is() -> None:
    maps = FadedMaps((8, 1))
    first, second = line_blocks(8, 6, 2)
    assert (first.stop, second.first) == (5, 3)
    maps.add(second, {"sigma": np.full((5, 1), 4.0, np.float32)})
    maps.add(first, {"sigma": np.full((5, 1), np.inf, np.float32)})
    np.testing.assert_array_equal(maps.layers["sigma"][:, 0], [np.inf] * 3 + [4.0] * 5)


@pytest.mark.parametrize("name", ["mf", "noise-aware-mf"])
def test_a_block_with_hardly_a_pixel_borrows_a_background(short_blocks: list[LineBlock], name: str) -> None:
    """Of the last block two pixels are valid, of which no filter learns anything: both would score nothing."""
    valid = TILE.valid.copy()
    lonely = short_blocks[-1]
    valid[lonely.first :] = False
    rows, cols = np.array([lonely.stop - 2, lonely.stop - 9]), np.array([40, 200])
    valid[rows, cols] = True
    scene = Scene(TILE.radiance, TILE.bands, valid)
    layers = filter_layers(filter_named(name), scene)
    score = next(iter(layers.values()))
    whole = filter_named(name).score(TILE.radiance, TILE.bands, valid)
    spread = float(np.std(whole[valid]))
    np.testing.assert_allclose(score[rows, cols], whole[rows, cols], atol=spread)
    assert (score[rows, cols] != 0).all()
    assert not score[lonely.first + 32 : lonely.stop - 9].any()


def test_too_little_everywhere_is_said(short_blocks: list[LineBlock]) -> None:
    valid = np.zeros_like(TILE.valid)
    valid[::100, 7] = True
    with pytest.raises(FilterError, match="pixels"):
        filter_scene(filter_named("noise-aware-mf"), Scene(TILE.radiance, TILE.bands, valid))


PROGRAM = """
import re, sys
from pathlib import Path
import numpy as np
from flame.filters import columns, filter_layers, filter_named
from flame.physics import clear_sky_radiance, sensor
from flame.scene import Acquisition, SceneFile
from flame.scene.lazy import LinesRead

name, lines, cols = sys.argv[1], int(sys.argv[2]), 600
bands = sensor("emit").bands.methane()
light = clear_sky_radiance(bands).astype(np.float32)[:, None, None]

def read(rows):
    rng = np.random.default_rng(rows.start)
    shape = (rows.stop - rows.start, cols)
    radiance = light * (0.3 + 0.05 * rng.standard_normal(shape, dtype=np.float32).clip(-3, 3))
    radiance *= 1 + rng.standard_normal(radiance.shape, dtype=np.float32) / 300
    return LinesRead(radiance, None, np.zeros(shape, np.uint16))

columns._BLOCK_BYTES = 16_000_000
layers = filter_layers(filter_named(name), SceneFile(bands, (lines, cols), read, Acquisition(source="line")))
assert all(layer.shape == (lines, cols) for layer in layers.values())
peak_kb = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(len(bands), len(layers), cols, 1024 * peak_kb)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read by Linux's means")
@pytest.mark.parametrize("name", ["mf", "mag1c", "noise-aware-mf"])
def test_memory_does_not_grow_with_the_lines(name: str) -> None:
    """Ground that is made when its lines are read. With more lines the maps grow, some bytes a pixel, nothing else."""
    peaks = []
    for lines in (600, 1800):
        command = [sys.executable, "-c", PROGRAM, name, str(lines)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        bands, layers, cols, peak = map(int, answer.split())
        peaks.append(peak)
    grown_bytes_a_pixel = (peaks[1] - peaks[0]) / (1200 * cols)
    assert grown_bytes_a_pixel < 4 * layers + 20 < 4 * bands / 4
