"""Outlines enclose exactly the mask, plumes keep every pixel, and blocks of rows give the same plumes as the whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flame.detection.outline import outline
from flame.detection.plumes import PlumeTracker, find_plumes, plume_labels
from flame.errors import FlameError

masks = hnp.arrays(np.bool_, st.tuples(st.integers(1, 10), st.integers(1, 10)))


def _inside(ring, shape):
    """Even-odd rule along each row: a pixel is inside if an odd number of vertical sides lies to its left."""
    crossed = np.zeros((shape[0], shape[1] + 1), dtype=int)
    for (r0, c0), (r1, c1) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
        if c0 == c1:
            crossed[min(r0, r1) : max(r0, r1), c0] += 1
    return np.cumsum(crossed, axis=1)[:, :-1] % 2 == 1


def _area(ring):
    row, col = ring.T
    return 0.5 * float(np.sum(col * np.roll(row, -1) - np.roll(col, -1) * row))


def _maps(mask, seed=0):
    rng = np.random.default_rng(seed)
    return mask, rng.random(mask.shape), rng.gamma(2.0, 500.0, mask.shape)


@settings(max_examples=60, deadline=None)
@given(masks)
def test_outlines_enclose_exactly_the_mask(mask):
    drawn = np.zeros(mask.shape, dtype=int)
    for polygon in outline(mask):
        part = _inside(polygon.exterior, mask.shape).astype(int)
        for hole in polygon.holes:
            part -= _inside(hole, mask.shape)
        assert _area(polygon.exterior) + sum(map(_area, polygon.holes)) == part.sum()
        drawn += part
    np.testing.assert_array_equal(drawn, mask)


def test_corners_are_only_where_the_outline_turns():
    mask = np.zeros((5, 6), dtype=bool)
    mask[1:4, 1:5] = True
    mask[2, 2] = False
    (polygon,) = outline(mask)
    assert sorted(map(tuple, polygon.exterior.tolist())) == [(1, 1), (1, 5), (4, 1), (4, 5)]
    assert sorted(map(tuple, polygon.holes[0].tolist())) == [(2, 2), (2, 3), (3, 2), (3, 3)]


@settings(max_examples=60, deadline=None)
@given(masks)
def test_every_pixel_belongs_to_one_plume(mask):
    _, probability, score = _maps(mask)
    plumes = find_plumes(mask, probability, score)
    assert sum(p.area_px for p in plumes) == mask.sum()
    assert sum(p.integrated_ppm_m_px for p in plumes) == pytest.approx(score[mask].sum())
    assert sum(p.confidence * p.area_px for p in plumes) == pytest.approx(probability[mask].sum())
    for p in plumes:
        assert p.first_row < p.centroid_row < p.end_row
        assert p.first_col < p.centroid_col < p.end_col
        assert score[p.peak_row, p.peak_col] == p.peak_ppm_m >= p.mean_ppm_m


def test_pixels_touching_at_a_corner_are_one_plume_in_two_polygons():
    mask = np.zeros((4, 4), dtype=bool)
    mask[0:2, 0:2] = mask[2:4, 2:4] = True
    (plume,) = find_plumes(*_maps(mask))
    assert len(plume.polygons) == 2
    assert (plume.centroid_row, plume.centroid_col) == (2.0, 2.0)


def _key(plume):
    corners = tuple(tuple(map(tuple, p.exterior.tolist())) for p in plume.polygons)
    numbers = (plume.area_px, plume.centroid_row, plume.peak_row, plume.peak_col, plume.peak_ppm_m, plume.confidence)
    return plume.first_row, plume.first_col, corners, tuple(round(n, 9) for n in numbers)


@settings(max_examples=60, deadline=None)
@given(masks, st.lists(st.integers(1, 4), min_size=10, max_size=10))
def test_blocks_of_rows_give_the_plumes_of_the_whole(mask, heights):
    maps = _maps(mask)
    tracker, found, at = PlumeTracker(), [], 0
    for height in heights:
        block = [layer[at : at + height] for layer in maps]
        at += height
        found += tracker.push(*block, end=at >= mask.shape[0])
        if at >= mask.shape[0]:
            break
    assert sorted(map(_key, found)) == sorted(map(_key, find_plumes(*maps)))


def test_a_plume_without_end_is_given_out_in_pieces_and_nothing_is_lost():
    tracker = PlumeTracker(max_rows=16)
    block = np.zeros((4, 8), dtype=bool)
    block[:, 3:6] = True
    pieces = [p for _ in range(25) for p in tracker.push(*_maps(block))]
    pieces += tracker.push(*_maps(block), end=True)
    assert sum(p.area_px for p in pieces) == 26 * 12
    assert all(p.end_row - p.first_row <= 20 for p in pieces)
    assert [p.cut for p in pieces] == [True] * (len(pieces) - 1) + [False]
    assert [p.first_row for p in pieces[1:]] == [p.end_row for p in pieces[:-1]]
    with pytest.raises(FlameError, match="at least one row"):
        PlumeTracker(0)


@settings(max_examples=60, deadline=None)
@given(masks, st.lists(st.integers(0, 4), min_size=12, max_size=12), st.integers(0, 2**32))
def test_plumes_without_a_core_are_left_out_however_rows_come(mask, heights, seed):
    maps, core = _maps(mask), np.random.default_rng(seed).random(mask.shape) < 0.2
    tracker, found, at = PlumeTracker(), [], 0
    for height in [*heights, len(mask)]:
        block = [layer[at : at + height] for layer in maps]
        found += tracker.push(*block, core=core[at : at + height])
        at += height
    found += tracker.push(*(layer[:0] for layer in maps), end=True, core=core[:0])
    labels = plume_labels(mask)
    cored = np.isin(labels, labels[mask & core]) & mask
    assert sorted(map(_key, found)) == sorted(map(_key, find_plumes(cored, *maps[1:])))


def _long_plume(core_rows):
    """What is given out of a plume of 100 rows that comes four by four and is cut after more than 16."""
    mask, core = np.zeros((100, 60), dtype=bool), np.zeros((100, 60), dtype=bool)
    rows = np.arange(100)[:, None]
    mask[rows, rows // 2 + np.arange(3)] = True
    core[core_rows] = mask[core_rows]
    tracker = PlumeTracker(max_rows=16)
    return [
        (p.first_row, p.end_row, p.cut)
        for at in range(0, 100, 4)
        for p in tracker.push(*(layer[at : at + 4] for layer in _maps(mask)), end=at == 96, core=core[at : at + 4])
    ]


def test_a_piece_whose_core_lay_in_an_earlier_piece_is_not_lost():
    pieces = [(0, 20, True), (20, 40, True), (40, 60, True), (60, 80, True), (80, 100, False)]
    assert _long_plume([3]) == pieces
    assert _long_plume([19]) == pieces
    assert _long_plume([45]) == pieces[2:]  # nobody could know of it when the first two were cut
    assert _long_plume([99]) == pieces[4:]
    assert _long_plume([]) == []


@pytest.mark.parametrize("max_rows", [2048, 64])
def test_a_stripe_is_no_plume_whole_or_in_pieces_unless_every_pixel_counts(max_rows):
    stripe = np.zeros((4, 20), dtype=bool)
    stripe[:, 5:7] = True
    for core in (stripe, None):
        tracker = PlumeTracker(max_rows)
        found = [p for at in range(50) for p in tracker.push(*_maps(stripe), end=at == 49, core=core)]
        assert bool(found) == (core is None)


def test_a_core_is_handed_on_to_what_touches_and_to_nothing_else():
    """Two plumes are cut at once, as their block is too long; one of them has a core."""
    tracker, block = PlumeTracker(max_rows=4), np.zeros((6, 12), dtype=bool)
    block[:, [1, 9]] = True
    core = np.zeros_like(block)
    core[2, 1] = True
    assert [p.first_col for p in tracker.push(*_maps(block), core=core)] == [1]
    assert tracker.push(*(layer[:0] for layer in _maps(block)), core=core[:0]) == ()
    beside = np.zeros_like(block)
    beside[:3, [0, 3, 10]] = True  # at a corner of the first, a column away from it, at a corner of the other
    assert [p.first_col for p in tracker.push(*_maps(beside), core=np.zeros_like(core))] == [0]
    assert tracker.push(*_maps(beside), core=np.zeros_like(core), end=True) == ()


@settings(max_examples=60, deadline=None)
@given(masks, st.floats(0.0, 6.0))
def test_fragments_within_reach_are_one_plume_and_others_are_not(mask, reach_px):
    labels = plume_labels(mask, reach_px)
    np.testing.assert_array_equal(labels > 0, mask)
    places = np.argwhere(mask)
    numbers = labels[mask]
    distance = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    near = distance <= max(reach_px, 1.5)  # neighbours touch, corners included
    assert (numbers[:, None] == numbers)[near].all()
    # Each plume hangs together: from any of its pixels all others are reached in steps within reach.
    for number in np.unique(numbers):
        inside = numbers == number
        reached = np.zeros(inside.sum(), bool)
        reached[0] = True
        for _ in range(inside.sum()):
            reached |= (near[np.ix_(inside, inside)] & reached).any(axis=1)
        assert reached.all()
    assert np.unique(labels[mask]).tolist() == list(range(1, labels.max() + 1)) if mask.any() else labels.max() == 0


def test_a_torn_plume_says_of_how_many_parts_it_is():
    mask = np.zeros((6, 20), bool)
    mask[2:4, 2:5] = mask[2:4, 8:12] = mask[2:4, 17:19] = True
    joined = find_plumes(*_maps(mask), reach_px=4.0)
    assert [(p.parts, p.area_px, len(p.polygons)) for p in joined] == [(2, 14, 2), (1, 4, 1)]
    assert [p.parts for p in find_plumes(*_maps(mask))] == [1, 1, 1]
