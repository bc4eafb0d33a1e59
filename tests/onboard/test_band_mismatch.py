"""A scene that no model takes: the message names the file, the models and what to do."""

import pickle

import numpy as np
import pytest

import flame
from flame.onboard import Detector, choose_model, packaged_models


def test_the_message_names_the_file_the_models_and_the_way_out():
    scene = flame.simulate_tile(1, size=32, sensor="prisma").tile.scene
    with pytest.raises(flame.BandMismatchError) as caught:
        choose_model("flame-plus", scene.bands, "flight.npz")
    text = str(caught.value)
    assert text.startswith("flight.npz has bands that do not fit.")
    for name in packaged_models():
        assert f"\n  {name}: " in text
    assert "flame filter mag1c flight.npz --out" in text
    # PRISMA's bands are wide, as EMIT's are.
    assert text.index("flame-plus-emit:") < text.index("flame-plus-aviris-ng:")
    assert len(caught.value.expected) == len(choose_model("flame-plus-emit", scene.bands).manifest.bands)


def test_a_named_model_says_the_same():
    scene = flame.simulate_tile(1, size=32, sensor="prisma").tile.scene
    with pytest.raises(flame.BandMismatchError, match=r"Packaged models, the nearest first:\n  flame-plus-emit"):
        Detector("flame-plus-aviris-ng").run(scene)


def test_the_error_comes_back_from_a_worker_whole():
    bands = flame.BandSet(np.array([2200.0, 2300.0]), np.array([5.0, 5.0]))
    error = flame.BandMismatchError(bands, bands, "a.npz", "Do that.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.where, again.advice) == ("a.npz", "Do that.")
