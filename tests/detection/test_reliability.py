"""Reliability: its error is zero for honest probabilities, and known for others."""

from __future__ import annotations

import numpy as np
import pytest

from flame.detection.reliability import Reliability


def drawn(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probability = rng.random((400, 400)).astype(np.float32)
    return probability, rng.random((400, 400)) < probability, np.ones((400, 400), np.bool_)


def test_honest_probabilities_have_no_error() -> None:
    table = Reliability()
    for seed in range(3):
        table.add(*drawn(seed))
    assert table.error < 0.005
    said, true = table.curve()
    assert np.allclose(said, true, atol=0.02)


def test_boastful_ones_are_found_out() -> None:
    probability, label, valid = drawn()
    table = Reliability()
    table.add(np.minimum(probability + np.float32(0.2), 1.0), label, valid)
    assert table.error == pytest.approx(0.18, abs=0.02)  # a fifth, less where 1 is the most that can be said


def test_invalid_and_surely_empty_pixels_do_not_count() -> None:
    probability, label, valid = drawn()
    probability[:200] = 0.01
    valid[300:] = False
    table = Reliability()
    table.add(probability, label, valid)
    assert table.count.sum() == (probability[200:300] >= 0.05).sum()


def test_nothing_has_no_error() -> None:
    assert np.isnan(Reliability().error)
