"""The losses are the paper's equations over valid pixels."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from flame.models import FlameOutput, FlameSettings
from flame.training.batches import TrainingBatch
from flame.training.losses import LossSettings, auxiliary_loss, gamma, retrieval_loss, segmentation_loss, training_loss

PAPER = LossSettings()


def example(seed=0, shape=(2, 6, 7)):
    rng = np.random.default_rng(seed)
    logit = torch.from_numpy(rng.normal(0, 2, shape))
    return logit, torch.from_numpy(rng.random(shape) < 0.1), torch.from_numpy(rng.random(shape) < 0.8)


def test_segmentation_loss_is_dice_plus_beta_cross_entropy():
    logit, label, valid = example()
    p = 1 / (1 + np.exp(-logit.numpy()[valid.numpy()]))
    y = label.numpy()[valid.numpy()].astype(float)
    dice = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
    entropy = -(y * np.log(p) + (1 - y) * np.log(1 - p))
    beta = min((1 - y).sum() / y.sum(), 50)
    found = segmentation_loss(logit, label, valid, PAPER)
    assert float(found) == pytest.approx(dice + beta * entropy.mean(), rel=1e-9)
    on_plume = segmentation_loss(logit, label, valid, replace(PAPER, beta_on="plume"))
    assert float(on_plume) == pytest.approx(dice + (entropy * np.where(y, beta, 1)).mean(), rel=1e-9)


def test_beta_is_capped_and_batches_without_plume_are_finite():
    logit, _, valid = example()
    nothing = torch.zeros_like(valid)
    p = torch.sigmoid(logit[valid])
    expected = 1 - 1 / (p.sum() + 1) + 50 * -torch.log(1 - p).mean()
    assert float(segmentation_loss(logit, nothing, valid, PAPER)) == pytest.approx(float(expected), rel=1e-9)


def test_auxiliary_loss_weighs_by_the_teacher():
    score, teacher = torch.tensor([[[0.5, 1.0, 9.0]]]), torch.tensor([[[0.0, 2.0, 0.0]]])
    valid = torch.tensor([[[True, True, False]]])
    assert float(auxiliary_loss(score, teacher, valid, 10.0)) == pytest.approx((1 * 0.5 + 21 * 1.0) / 2)


def test_invalid_pixels_have_neither_value_nor_gradient():
    logit, label, valid = example()
    score = torch.rand_like(logit)
    poisoned = torch.where(valid, torch.rand_like(logit), torch.full_like(logit, float("nan")))
    for values in (logit, score):
        values.requires_grad_()
    batch = TrainingBatch({}, label | ~valid, valid, poisoned * 1750, None)
    loss = training_loss(FlameOutput(logit, score, score), batch, FlameSettings(), PAPER, 0).total
    loss.backward()
    assert math.isfinite(loss.item())
    for values in (logit, score):
        assert (values.grad[~valid] == 0).all()
        assert (values.grad[valid] != 0).any()


def test_gamma_is_half_a_cosine_over_ten_epochs():
    weights = [gamma(epoch, PAPER) for epoch in range(13)]
    assert weights[0] == 1.0
    assert weights[5] == pytest.approx(0.5)
    assert weights[10:] == [0.0, 0.0, 0.0]
    assert all(a > b for a, b in pairwise(weights[:11]))


def test_teacher_is_normalised_and_clipped_like_the_score():
    logit, label, valid = example()
    logit, valid = logit.float(), torch.ones_like(valid)
    teacher = torch.full_like(logit, 1e6)
    score = torch.full_like(logit, 2.0)
    batch = TrainingBatch({}, label, valid, teacher, torch.zeros_like(teacher))
    output = FlameOutput(logit, score, score)
    assert float(training_loss(output, batch, FlameSettings(), PAPER, 0).auxiliary) == 0.0
    assert float(training_loss(FlameOutput(logit, None, None), batch, FlameSettings(), PAPER, 0).auxiliary) == 0.0


def test_a_score_of_zero_is_no_refuge_from_the_retrieval_loss():
    """On a tile with one plume pixel in a hundred, answering nothing costs as much as answering plume everywhere."""
    truth = torch.zeros(1, 10, 10)
    truth[0, 3, 4] = 1750.0
    valid = torch.ones(1, 10, 10, dtype=torch.bool)
    nothing, everywhere = torch.zeros(1, 10, 10), torch.full((1, 10, 10), 1750.0)
    assert float(retrieval_loss(nothing, truth, valid, 1750.0)) == pytest.approx(0.5)
    assert float(retrieval_loss(everywhere, truth, valid, 1750.0)) == pytest.approx(0.5)
    assert float(retrieval_loss(truth, truth, valid, 1750.0)) == 0.0
    below = torch.full((1, 10, 10), -500.0, requires_grad=True)
    retrieval_loss(below, truth, valid, 1750.0).backward()
    assert (below.grad < 0).all()
    assert float(below.grad[0, 3, 4]) == pytest.approx(99 * float(below.grad[0, 0, 0]))


def test_the_true_teacher_is_compared_with_the_score_before_its_clip():
    logit, label, valid = (part.float() if part.is_floating_point() else part for part in example())
    score_ppm_m = torch.full_like(logit, -875.0)
    batch = TrainingBatch({}, label, valid, None, torch.zeros_like(logit))
    output = FlameOutput(logit, torch.zeros_like(logit), score_ppm_m)
    found = training_loss(output, batch, FlameSettings(), replace(PAPER, teacher="truth"), 0)
    assert float(found.auxiliary) == pytest.approx(0.25)
