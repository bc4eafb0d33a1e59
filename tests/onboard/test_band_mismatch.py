"""A scene that no model takes: the message names the file, the models and what to do."""

import pickle

import numpy as np
import pytest

import flame
from flame.onboard import Detector, choose_model, packaged_models

COARSE = flame.BandSet(np.arange(2130.0, 2480.0, 20.0), np.full(18, 20.0))
"""Twenty nanometres apart: no model was trained for these."""


def coarse_scene():
    radiance = np.random.default_rng(0).uniform(0.5, 1.0, (len(COARSE), 32, 32)).astype(np.float32)
    return flame.Scene(radiance, COARSE, np.ones((32, 32), np.bool_))


def test_the_message_names_the_file_the_models_and_the_way_out():
    with pytest.raises(flame.BandMismatchError) as caught:
        choose_model("flame-plus", COARSE, "flight.npz")
    text = str(caught.value)
    assert text.startswith("flight.npz has bands that do not fit.")
    for name in packaged_models():
        assert f"\n  {name}: " in text
    assert "flame filter mag1c flight.npz --out" in text


def test_a_named_model_says_the_same():
    with pytest.raises(flame.BandMismatchError, match=r"Packaged models, the nearest first:\n  flame-plus: any"):
        Detector("flame-plus").run(coarse_scene())


def test_the_error_comes_back_from_a_worker_whole():
    bands = flame.BandSet(np.array([2200.0, 2300.0]), np.array([5.0, 5.0]))
    error = flame.BandMismatchError(bands, bands, "a.npz", "Do that.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.where, again.advice) == ("a.npz", "Do that.")
