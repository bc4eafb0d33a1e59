"""The decision rule is a morphological opening of the valid pixels above the threshold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from flame.detection import CROSS, DecisionRule, plume_mask
from flame.detection.decision import EIGHT_NEIGHBOURS
from flame.detection.shapes import MOST_ELONGATED, are_lines
from flame.errors import FlameError

shapes = st.tuples(st.integers(1, 12), st.integers(1, 12))


@st.composite
def score_and_valid(draw):
    shape = draw(shapes)
    score = draw(hnp.arrays(np.float32, shape, elements=st.floats(0, 1, width=32)))
    return score, draw(hnp.arrays(np.bool_, shape))


@given(score_and_valid())
def test_mask_is_inside_the_valid_pixels_above_the_threshold(case):
    score, valid = case
    mask = plume_mask(score, valid)
    assert not (mask & ~((score > 0.5) & valid)).any()


@given(score_and_valid())
def test_opening_twice_changes_nothing(case):
    score, valid = case
    mask = plume_mask(score, valid)
    np.testing.assert_array_equal(plume_mask(mask.astype(np.float32), valid), mask)


@given(score_and_valid(), st.sampled_from([np.nan, np.inf, -9999.0, 1.0]))
def test_what_stands_under_an_invalid_pixel_has_no_influence(case, junk):
    score, valid = case
    dirty = np.where(valid, score, np.float32(junk)).astype(np.float32)
    np.testing.assert_array_equal(plume_mask(dirty, valid), plume_mask(score, valid))


def test_a_cross_survives_and_smaller_specks_do_not():
    score = np.zeros((9, 9), dtype=np.float32)
    score[1, 1] = score[6, 5:8] = 1.0
    assert not plume_mask(score, np.ones((9, 9), dtype=bool)).any()
    score[5, 6] = score[7, 6] = 1.0
    mask = plume_mask(score, np.ones((9, 9), dtype=bool))
    assert mask.sum() == 5
    assert mask[6, 6]


def test_the_threshold_itself_is_not_plume_and_opening_can_be_left_out():
    score = np.full((3, 3), 300.0)
    score[1, 1] = 300.5
    valid = np.ones((3, 3), dtype=bool)
    rule = DecisionRule(threshold=300.0, opening=False)
    assert np.argwhere(plume_mask(score, valid, rule)).tolist() == [[1, 1]]


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 12), cols=st.integers(1, 12), seed=st.integers(0, 999), share=st.floats(0.3, 1.0))
def test_opening_is_scipys(rows, cols, seed, share):
    above = np.random.default_rng(seed).random((rows, cols)) < share
    found = plume_mask(above.astype(np.float32), np.ones((rows, cols), np.bool_))
    np.testing.assert_array_equal(found, ndimage.binary_opening(above, CROSS))


def test_pieces_without_a_core_or_too_small_are_left_out():
    score, sigmas = np.zeros((12, 12)), np.zeros((12, 12))
    score[1:4, 1:4] = 0.5
    sigmas[2, 2] = 3.0  # a piece with a core
    score[6:9, 6:9] = 0.5  # one without
    sigmas[5, 7] = 9.0  # beside it is not in it
    score[10, 1], sigmas[10, 1] = 0.99, 9.0  # a core alone is too small
    score[4, 4] = 0.4  # touches the first at a corner
    valid = np.ones(score.shape, dtype=bool)
    rule = DecisionRule(0.35, opening=False, core_sigmas=2.5, fewest_pixels=5)
    mask = plume_mask(score, valid, rule, sigmas)
    expected = np.zeros_like(valid)
    expected[1:4, 1:4] = expected[4, 4] = True
    assert np.array_equal(mask, expected)
    valid[2, 2] = False  # what is not seen is no core
    assert not plume_mask(score, valid, rule, sigmas).any()


def test_lines_are_no_plumes_where_a_core_is_asked_for():
    plumes, roads = np.zeros((2, 160, 160), dtype=bool)
    plumes[8:12, 40:78] = True  # long, but no longer than a plume may be
    plumes[130:145, 10:30] = True
    roads[3:5, 2:90] = True  # one beside a plume
    for row in range(60):
        roads[row + 30, row + 5 : row + 8] = True  # one that runs aslant
    for row in range(30, 140, 9):
        roads[row : row + 4, 120:122] = True  # one in pieces
    score, sigmas = np.where(plumes | roads, 0.9, 0.0), np.full((160, 160), 9.0)
    valid = np.ones(score.shape, dtype=bool)
    assert np.array_equal(plume_mask(score, valid, DecisionRule(0.5, False, core_sigmas=3.0), sigmas), plumes)
    assert np.array_equal(plume_mask(score, valid, DecisionRule(0.5, False), sigmas), plumes | roads)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0.1, 0.5))
def test_the_elongation_of_a_piece_is_that_of_its_moments(seed, share):
    mask = np.random.default_rng(seed).random((25, 90)) < share
    mask[12, 3:70] = True  # something long
    pieces, count = ndimage.label(mask, EIGHT_NEIGHBOURS)
    expected = [False]
    for number in range(1, count + 1):
        spread = np.linalg.eigvalsh(np.cov(np.stack(np.nonzero(pieces == number)), bias=True) + np.eye(2) / 12)
        expected.append(spread[1] > (1 + 1e-9) * MOST_ELONGATED**2 * spread[0])
    np.testing.assert_array_equal(are_lines(pieces, count), expected)


def test_a_core_needs_something_to_be_told_by():
    score, valid = np.random.default_rng(0).random((20, 20)), np.ones((20, 20), dtype=bool)
    plain = plume_mask(score, valid, DecisionRule(0.5, opening=False))
    assert np.array_equal(plume_mask(score, valid, DecisionRule(0.5, opening=False, core_sigmas=0.0)), plain)
    with pytest.raises(FlameError, match="does not tell how sure it is of gas"):
        plume_mask(score, valid, DecisionRule(0.5, core_sigmas=2.0))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 40), cols=st.integers(1, 40), seed=st.integers(0, 999), share=st.floats(0.0, 0.6))
def test_empty_ground_around_pieces_changes_nothing(rows, cols, seed, share):
    rng = np.random.default_rng(seed)
    score, sigmas = (rng.random((rows, cols)) < share).astype(np.float32), rng.random((rows, cols))
    rule = DecisionRule(0.5, opening=False, core_sigmas=0.9, fewest_pixels=2)
    alone = plume_mask(score, np.ones(score.shape, np.bool_), rule, sigmas)
    score, sigmas, expected = (np.pad(each, 13) for each in (score, sigmas, alone))
    np.testing.assert_array_equal(plume_mask(score, np.ones(score.shape, np.bool_), rule, sigmas), expected)
