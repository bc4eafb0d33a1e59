"""Tiles cover every pixel, their weights sum to exactly one, and blending gives back what was cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.detection.tiling import RowStitcher, TileGrid, TilingError

grids = st.tuples(st.integers(1, 40), st.integers(0, 20)).map(lambda g: TileGrid(g[0], min(g[1], g[0] // 2) // 2 * 2))


@settings(max_examples=40, deadline=None)
@given(grids, st.integers(1, 200))
def test_weights_along_an_axis_sum_to_exactly_one(grid, length):
    total = np.zeros(length, dtype=np.float32)
    for span in grid.spans(length):
        assert span.stop - span.start == min(grid.tile, length)
        total[span.start : span.stop] += span.weight
    assert (total == 1.0).all()


@settings(max_examples=40, deadline=None)
@given(grids, st.integers(1, 200))
def test_rows_before_settled_get_no_weight_from_later_tiles(grid, length):
    spans = list(grid.spans(length))
    for before, after in pairwise(spans):
        at = np.arange(after.start, after.stop)
        assert not after.weight[at < before.settled].any()
    assert spans[-1].settled == length


@settings(max_examples=40, deadline=None)
@given(grids, st.integers(1, 200), st.integers(0, 200))
def test_a_stream_of_unknown_length_is_cut_like_the_whole_scene(grid, length, more):
    for here, longer in zip(list(grid.spans(length))[:-1], grid.spans(length + more), strict=False):
        assert (here.start, here.settled) == (longer.start, longer.settled)
        np.testing.assert_array_equal(here.weight, longer.weight)


@settings(max_examples=40, deadline=None)
@given(grids, st.integers(1, 90), st.integers(1, 90))
def test_cutting_and_stitching_gives_back_the_scene_exactly(grid, rows, cols):
    scene = np.random.default_rng(rows).integers(-99, 99, (2, rows, cols)).astype(np.float32)
    stitcher = RowStitcher(2, cols, grid)
    parts = []
    for r in grid.spans(rows):
        for c in grid.spans(cols):
            stitcher.add(r, c, scene[:, r.start : r.stop, c.start : c.stop])
        parts.append(stitcher.take(r.settled))
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), scene)


def test_disagreeing_tiles_meet_without_a_step():
    grid = TileGrid(64, 32)
    stitcher = RowStitcher(1, 256, grid)
    (row,) = grid.spans(64)
    for number, col in enumerate(grid.spans(256)):
        stitcher.add(row, col, np.full((1, 64, 64), float(number % 2), dtype=np.float32))
    blended = stitcher.take(64)[0]
    assert np.abs(np.diff(blended, axis=1)).max() < 2 / 16


def test_edges_of_a_tile_have_no_weight_inside_the_scene():
    first, second, *_ = TileGrid(512, 64).spans(2000)
    assert (first.weight[:448] == 1).all()
    assert not first.weight[-16:].any()
    assert not second.weight[:16].any()


@pytest.mark.parametrize(("tile", "overlap"), [(64, 33), (64, 34), (0, 0), (64, -2)])
def test_impossible_grids_cannot_be_made(tile, overlap):
    with pytest.raises(TilingError, match="overlap"):
        TileGrid(tile, overlap)


def test_a_scene_of_one_tile_is_given_out_as_it_is():
    grid = TileGrid(64, 8)
    maps = np.random.default_rng(0).standard_normal((2, 50, 40)).astype(np.float32)
    stitcher = RowStitcher(2, 40, grid)
    (row,), (col,) = grid.spans(50), grid.spans(40)
    stitcher.add(row, col, maps)
    given_out = stitcher.take(row.settled)
    np.testing.assert_array_equal(given_out, maps)
    assert np.shares_memory(given_out, maps)
