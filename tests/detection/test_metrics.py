"""Laws of the pixel metrics: definitions, additivity, blindness to invalid pixels, exact precision-recall areas."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flame.detection import Evaluation, PixelCounts, ScoreError, ScoreHistogram
from flame.detection.metrics import plume_size_bin

counts = st.builds(PixelCounts, *[st.integers(0, 10**6)] * 4)


@st.composite
def tiles(draw):
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    score = draw(hnp.arrays(np.float32, shape, elements=st.floats(0, 1, width=32)))
    return score, *(draw(hnp.arrays(np.bool_, shape)) for _ in range(3))


@given(counts)
def test_f1_is_the_harmonic_mean_and_iou_follows_from_it(c):
    if c.tp:
        assert c.f1 == pytest.approx(2 / (1 / c.precision + 1 / c.recall))
        assert c.iou == pytest.approx(c.f1 / (2 - c.f1))
    elif c.fp + c.fn == 0:
        assert math.isnan(c.f1)
    else:
        assert c.f1 == 0


@settings(max_examples=20, deadline=None)
@given(tiles(), tiles())
def test_counts_and_histograms_add_up_over_tiles(first, second):
    both = Evaluation()
    parts = [both.add(*tile) for tile in (first, second)]
    assert both.metrics().counts == parts[0] + parts[1]
    single = Evaluation()
    single.add(*first)
    other = Evaluation()
    other.add(*second)
    summed = single.histogram + other.histogram
    np.testing.assert_array_equal(both.histogram.plume, summed.plume)
    np.testing.assert_array_equal(both.histogram.background, summed.background)


@settings(max_examples=20, deadline=None)
@given(tiles())
def test_every_valid_pixel_is_counted_once_and_invalid_ones_never(tile):
    score, mask, label, valid = tile
    assert sum(vars(PixelCounts.of(mask, label, valid)).values()) == valid.sum()
    clean, dirty = Evaluation(), Evaluation()
    clean.add(score, mask, label, valid)
    dirty.add(np.where(valid, score, np.float32(np.nan)), mask ^ ~valid, label ^ ~valid, valid)
    assert json.dumps(clean.metrics().to_dict()) == json.dumps(dirty.metrics().to_dict())


def _average_precision(score, label):
    """By definition, ties of score taken together."""
    area = recall_before = 0.0
    for threshold in np.unique(score)[::-1]:
        hit = score >= threshold
        recall = (hit & label).sum() / label.sum()
        area += (recall - recall_before) * (hit & label).sum() / hit.sum()
        recall_before = recall
    return area


@settings(max_examples=20, deadline=None)
@given(hnp.arrays(np.int8, (6, 7)), hnp.arrays(np.bool_, (6, 7)))
def test_auprc_is_average_precision_exactly_where_bins_tell_scores_apart(levels, label):
    score = levels.astype(np.float32) / 4
    area = ScoreHistogram.of(score, label, np.ones(label.shape, dtype=bool)).auprc()
    if label.any():
        assert area == pytest.approx(_average_precision(score, label), rel=1e-12)
    else:
        assert math.isnan(area)


@pytest.mark.parametrize("sharpness", [1.0, 4.0])
def test_auprc_of_smooth_scores_is_within_a_thousandth(sharpness):
    rng = np.random.default_rng(3)
    label = rng.random((100, 100)) < 0.03
    logit = sharpness * (rng.normal(size=label.shape) + 2.0 * label)
    probability = 1 / (1 + np.exp(-logit))
    evaluation = Evaluation()
    evaluation.add(probability, probability > 0.5, label, np.ones(label.shape, dtype=bool))
    assert evaluation.metrics().auprc == pytest.approx(_average_precision(logit, label), abs=1e-3)


def test_best_threshold_beats_every_other_and_is_what_it_says():
    rng = np.random.default_rng(5)
    label = rng.random((80, 80)) < 0.05
    score = rng.normal(size=label.shape) * 200 + 700 * label - 50
    valid = rng.random(label.shape) < 0.9
    choice = ScoreHistogram.of(score, label, valid).best_threshold()
    assert PixelCounts.of(score > choice.threshold, label, valid).f1 == pytest.approx(choice.f1, abs=2e-3)
    best = max(PixelCounts.of(score > t, label, valid).f1 for t in np.sort(score[valid]))
    assert choice.f1 == pytest.approx(best, abs=2e-3)


def test_scores_that_cannot_be_ranked_are_refused():
    yes = np.ones((2, 2), dtype=bool)
    with pytest.raises(ScoreError, match="4 valid pixels"):
        ScoreHistogram.of(np.full((2, 2), np.nan), yes, yes)
    with pytest.raises(ScoreError, match="no labelled plume"):
        ScoreHistogram.of(np.zeros((2, 2)), ~yes, yes).best_threshold()


def test_tile_fpr_sizes_and_strength_count_whole_tiles():
    shape = (512, 512)
    valid, nothing = np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
    small, large = nothing.copy(), nothing.copy()
    small[:5, :5], large[:100, :40] = True, True
    evaluation = Evaluation()
    evaluation.add(np.zeros(shape), nothing, nothing, valid)
    evaluation.add(small.astype(float), small, nothing, valid, emission_kg_h=0.0)
    evaluation.add(small.astype(float), small, small, valid, emission_kg_h=999.0)
    evaluation.add(np.zeros(shape), nothing, large, valid, emission_kg_h=1000.0)
    metrics = evaluation.metrics()
    assert (metrics.tiles, metrics.plume_free_tiles, metrics.tile_fpr) == (4, 2, 0.5)
    assert metrics.by_plume_size["1-99"].recall == 1.0
    assert metrics.by_plume_size["3000+"].recall == 0.0
    assert metrics.by_plume_size["0"].fp == 25
    assert metrics.weak.f1 == 1.0
    assert metrics.strong == PixelCounts(0, 0, 4000, 512 * 512 - 4000)
    plain = metrics.to_dict()
    assert plain["by_plume_size"]["300-999"]["f1"] is None
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_plume_size_edges_scale_with_the_side_of_the_tile():
    assert plume_size_bin(99, (512, 512)) == plume_size_bin(24, (128, 128)) == "1-99"
    assert plume_size_bin(100, (512, 512)) == plume_size_bin(25, (128, 128)) == "100-299"
    assert plume_size_bin(1, (4096, 4096)) == "1-99"
