"""The one judgement: a grey opening is every opened mask at once, and each row is what its rule says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage

from flame.detection import RULES, DecisionRule, PixelCounts, ScoreError, ScoreJudge, judge_scores, plume_mask
from flame.detection.judge import opened_score, smoothed_score

SHAPE = (9, 11)


def scene(seed, shape=(40, 48), noise=1.0):
    """A soft round plume in noise, with a corner that is not valid."""
    rng = np.random.default_rng(seed)
    row, col = np.indices(shape)
    strength = 3.0 * np.exp(-((row - shape[0] / 2) ** 2 + (col - shape[1] / 2) ** 2) / 40.0)
    valid = np.ones(shape, np.bool_)
    valid[:6, :6] = False
    score = (strength + noise * rng.standard_normal(shape)).astype(np.float32)
    return score, (strength > 1.0) & valid, valid


@settings(deadline=None)
@given(
    score=arrays(np.float32, SHAPE, elements=st.integers(-3, 3).map(float)),
    valid=arrays(np.bool_, SHAPE),
    threshold=st.sampled_from((-2.5, -0.5, 0.5, 1.5, 2.5)),
)
def test_above_any_threshold_the_grey_opening_is_the_opened_mask(score, valid, threshold):
    np.testing.assert_array_equal(
        opened_score(score, valid) > threshold, plume_mask(score, valid, DecisionRule(threshold))
    )


def test_what_lies_under_invalid_pixels_has_no_influence():
    score, label, valid = scene(0)
    spoiled = np.where(valid, score, np.float32(np.nan))
    assert judge_scores([(spoiled, label, valid)], 1.0) == judge_scores([(score, label, valid)], 1.0)


def test_smoothing_averages_valid_pixels_and_keeps_a_flat_map():
    score, _, valid = scene(1)
    flat = smoothed_score(np.where(valid, 7.0, 1e6).astype(np.float32), valid, 1.5)
    np.testing.assert_allclose(flat[valid], 7.0, rtol=1e-5)
    assert not flat[~valid].any()
    everywhere = np.ones_like(valid)
    inside = slice(12, -12), slice(12, -12)
    np.testing.assert_allclose(
        smoothed_score(score, everywhere, 1.5)[inside], ndimage.gaussian_filter(score, 1.5)[inside], atol=1e-5
    )


def test_each_row_is_what_its_rule_says():
    tiles = [scene(seed, shape) for seed, shape in ((0, (40, 48)), (1, (32, 32)))]
    rows = judge_scores(tiles, threshold=1.25)
    assert list(rows) == list(RULES)

    def counted(threshold, opening, smooth=None):
        total = PixelCounts()
        for score, label, valid in tiles:
            shown = score if smooth is None else smoothed_score(score, valid, smooth)
            total += PixelCounts.of(plume_mask(shown, valid, DecisionRule(threshold, opening)), label, valid)
        return total

    for name, row in rows.items():
        assert row.counts == counted(row.threshold, name.endswith("opened"), row.smoothing_px), name
    for name, opening in (("best", False), ("best_opened", True)):
        tried = max(counted(threshold, opening).f1 for threshold in np.linspace(-1, 4, 200))
        assert rows[name].f1 >= tried - 1e-9
    wrong_width = max(counted(threshold, False, 0.7).f1 for threshold in np.linspace(-1, 4, 200))
    assert rows["best_smoothed"].f1 >= wrong_width - 1e-9
    assert rows["best_smoothed"].smoothing_px > 0.7, "white noise over a broad plume calls for more smoothing"
    assert rows["best_smoothed"].f1 > rows["best_opened"].f1 > rows["best"].f1


def test_probabilities_are_judged_by_the_same_rules_and_their_thresholds_are_probabilities():
    score, label, valid = scene(2)
    probability = (1.0 / (1.0 + np.exp(-score.astype(np.float64)))).astype(np.float32)
    of_scores = judge_scores([(score, label, valid)], 0.0)
    of_probabilities = judge_scores([(probability, label, valid)], 0.5, probabilities=True)
    for name, row in of_probabilities.items():
        assert 0 < row.threshold < 1
        assert row.f1 == pytest.approx(of_scores[name].f1, abs=5e-3)


def test_a_method_without_a_canonical_threshold_has_no_such_rows():
    assert list(judge_scores([scene(0)])) == ["best", "best_opened", "best_smoothed"]


def test_rows_are_ready_for_json():
    score, label, valid = scene(0)
    row = judge_scores([(score, label, valid)], threshold=1e6)["canonical_opened"].to_dict()
    assert row["precision"] is None, "nothing found: no precision"
    assert (row["tp"], row["fp"], row["threshold"]) == (0, 0, 1e6)
    assert "smoothing_px" not in row


def test_scores_that_cannot_be_judged_are_refused():
    score, label, valid = scene(0)
    with pytest.raises(ScoreError, match="no labelled plume pixel"):
        judge_scores([(score, np.zeros_like(label), valid)])
    with pytest.raises(ScoreError, match="NaN"):
        ScoreJudge().add(np.full_like(score, np.nan), label, valid)
