"""A flipped bit in weights, copies or buffers never reaches a mask; what is only unusual is not taken for a fault."""

import ctypes
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.errors import FlameError
from flame.onboard import Detector
from flame.onboard.guard import GuardCounts, GuardSettings, Watchdog, known_tile
from flame.onboard.guard.golden import Golden
from flame.onboard.guard.memory import find_arrays
from flame.onboard.guard.ranges import Ranges
from flame.prepare import Quality
from tiny_models import TAU_PPM_M, filter_model, manifest, plume_scene

SIDE = 32


def flip(array, byte, bit):
    """Strikes as a particle does, whatever Python allows."""
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.ctypes.data)
    memory[byte % array.nbytes] ^= 1 << bit


class ArrayBackend:
    """A matched filter whose constants and buffers are arrays that can be struck at three moments of a tile."""

    name, block_rows, more = "arrays", SIDE, ()

    def __init__(self):
        self.weights = {"taps": np.array([1, 1, -3, 1], "f4") / 3, "slope": np.array([40.0], "f4")}
        self.response = np.zeros((SIDE, SIDE), "f4")
        self.strikes = {}
        self.calls = 0

    def infer(self, inputs):
        self.calls += 1
        self._strike("before")
        self.response[...] = np.einsum("b,brc->rc", self.weights["taps"], inputs["log_radiance"][0])
        self.response -= np.median(self.response)
        self._strike("between")
        probability = 1 / (1 + np.exp(-np.clip(self.weights["slope"] * self.response - 4, -80, 80)))
        self._strike("after")
        return probability.astype("f4"), self.response / np.float32(1e3 / TAU_PPM_M)

    def _strike(self, when):
        if (work := self.strikes.pop(when, None)) is not None:
            work()


ArrayBackend.__module__ = "flame.arrays"  # the walk looks into FLAME's own objects only


@pytest.fixture
def scene():
    return plume_scene(SIDE, SIDE, [(8, 8, 14, 14)])


@pytest.fixture
def guarded(monkeypatch):
    """A detector on array backends, which also opens anew."""
    monkeypatch.setattr("flame.onboard.detector.open_backend", lambda *_: ArrayBackend())
    return Detector(filter_model())


GUARDED = GuardSettings()


def judged(detector, scene, guard=GUARDED):
    """Guard, with its counts of this tile only, and what came of it."""
    stream = detector.stream(SIDE, guard=guard)
    if stream.guard is not None:
        stream.guard.counts = GuardCounts()
    (block,) = stream.push(scene.radiance) + stream.close()
    return stream.guard, block


def test_every_array_of_a_runtime_is_found_once_and_views_are_not(guarded):
    arrays = find_arrays(backend=guarded._backend)
    assert set(arrays) == {"backend.weights.taps", "backend.weights.slope", "backend.response"}
    base = np.arange(6.0)
    assert list(find_arrays(a=[base[1:], base], b=base)) == ["a.0"]
    assert find_arrays(a=[base[1:]])["a.0"] is base


def test_constants_are_told_from_buffers(guarded, scene):
    guard, _ = judged(guarded, scene[0])
    assert "backend.weights.taps" in guard.golden.names
    assert "backend.response" not in guard.golden.names
    assert "preparer.absorption" in guard.golden.names
    assert guard.healthy


@pytest.mark.parametrize("when", ["between tiles", "before", "between", "after"])
@pytest.mark.parametrize("bit", [30, 23, 22, 3])
def test_a_flip_in_a_weight_never_reaches_the_result(guarded, scene, when, bit):
    guard, clean = judged(guarded, scene[0])
    backend = guarded._backend

    def strike():
        flip(backend.weights["slope"], bit // 8, bit % 8)

    if when == "between tiles":
        strike()
    else:
        backend.strikes[when] = strike
    _, block = judged(guarded, scene[0])
    np.testing.assert_array_equal(block.probability, clean.probability)
    assert backend.weights["slope"][0] == 40.0
    assert guard.counts.corrected == 1
    assert guard.counts.redone == 1
    assert guard.counts.corrected_names == {"backend.weights.slope": 1}


def test_without_a_guard_the_same_flip_stays(guarded, scene):
    _, clean = judged(guarded, scene[0], None)
    flip(guarded._backend.weights["slope"], 3, 6)
    guard, block = judged(guarded, scene[0], None)
    assert guard is None
    assert (block.probability != clean.probability).any()


def test_a_flip_that_makes_a_buffer_too_large_is_done_again(guarded, scene):
    guard, clean = judged(guarded, scene[0])
    backend = guarded._backend
    backend.strikes["between"] = lambda: backend.response.__setitem__((20, 20), 1e20)
    _, block = judged(guarded, scene[0])
    np.testing.assert_array_equal(block.probability, clean.probability)
    assert guard.counts.redone == 1
    assert guard.counts.corrected == 0


def test_unusual_data_is_run_twice_once_and_then_believed(guarded, scene):
    guard, _ = judged(guarded, scene[0])
    strange, _ = plume_scene(SIDE, SIDE, [(8, 8, 14, 14)], alpha_ppm_m=2e6)
    _, first = judged(guarded, strange)
    assert guard.counts.redone == 1
    assert first.mask[8:14, 8:14].any()
    _, second = judged(guarded, strange)
    assert guard.counts.redone == 0
    np.testing.assert_array_equal(first.probability, second.probability)


def test_what_fails_every_time_differently_is_flagged(guarded, scene):
    guard, _ = judged(guarded, scene[0])
    real, rng = ArrayBackend.infer, np.random.default_rng(0)

    def broken(self, inputs):
        answer = real(self, inputs)
        self.response[0, 0] = 1e20 * rng.random()
        return answer[0] + np.float32(rng.random()), answer[1]

    ArrayBackend.infer = broken
    try:
        _, block = judged(guarded, scene[0])
    finally:
        ArrayBackend.infer = real
    assert block.tiles[0].flags == Quality.FAILED
    assert not block.mask.any()
    assert guard.counts.flagged == 1
    assert guard.counts.renewed == 1


def test_a_lasting_fault_that_no_array_shows_is_found_by_the_known_tile_and_the_runtime_opened_anew(guarded, scene):
    every = GuardSettings(self_test_tiles=1)
    guard, clean = judged(guarded, scene[0], every)
    assert (guard.counts.self_tests, guard.counts.self_tests_failed) == (1, 0)
    struck = guarded._backend
    struck.infer = lambda inputs: tuple(0.5 * part for part in ArrayBackend.infer(struck, inputs))
    judged(guarded, scene[0], every)
    assert guard.counts.self_tests_failed == 1
    assert guard.counts.renewed == 1
    assert guard.healthy
    assert guarded._backend is not struck
    _, block = judged(guarded, scene[0], every)
    np.testing.assert_array_equal(block.probability, clean.probability)


def test_memory_that_cannot_be_restored_is_left_for_a_runtime_opened_anew(guarded, scene, monkeypatch):
    guard, clean = judged(guarded, scene[0])
    struck = guarded._backend
    flip(struck.weights["slope"], 3, 6)
    monkeypatch.setattr("flame.onboard.guard.golden.overwrite", lambda *_: None)  # a cell that is stuck
    _, block = judged(guarded, scene[0])
    np.testing.assert_array_equal(block.probability, clean.probability)
    assert guard.counts.renewed == 1
    assert guarded._backend is not struck
    assert any(array is struck.weights["slope"] for array in guard._broken)


def test_an_array_that_changes_with_every_run_is_no_constant(guarded, scene):
    guard, clean = judged(guarded, scene[0])
    backend, real = guarded._backend, ArrayBackend.infer

    def counting(inputs):
        backend.weights["slope"] += 0  # the array stays the same object
        answer = real(backend, inputs)
        backend.weights["slope"][0] = 40.0 + backend.calls / 1e3
        return answer

    backend.infer = counting
    _, block = judged(guarded, scene[0])
    assert "backend.weights.slope" not in guard.golden.names
    assert block.tiles[0].flags == Quality.GOOD
    np.testing.assert_array_equal(block.mask, clean.mask)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["live", "first", "second", "check"]), st.integers(0, 63), st.integers(0, 7))
def test_any_one_fault_is_outvoted(which, byte, bit):
    array = np.arange(16, dtype=np.float32)
    golden = Golden({"a": array})
    kept = golden._kept["a"]
    if which == "check":
        kept.check ^= 1 << bit
    else:
        flip(getattr(kept, which), byte, bit)
    wrong = golden.scrub() + golden.scrub()
    assert wrong == (("a",) if which == "live" else ())
    np.testing.assert_array_equal(array, np.arange(16))
    flip(array, byte, bit)  # whatever was struck, it still heals
    assert golden.scrub() == ("a",)
    np.testing.assert_array_equal(array, np.arange(16))


@settings(deadline=None)
@given(st.floats(0.1, 1e3), st.sampled_from([1.0, -1.0]), st.booleans())
def test_ranges_end_at_the_margin(largest, sign, beyond):
    buffer = np.zeros((3, 100_000), "f4")
    buffer[1, 7] = sign * largest
    ranges = Ranges({"a": buffer}, 2.0)
    ranges.learn()
    assert ranges.odd() == ()
    buffer[2, 99_999] = -sign * largest * (2.1 if beyond else 1.9)
    assert ranges.odd() == (("a",) if beyond else ())
    buffer[0, 0] = np.nan
    assert ranges.odd() == ("a",)


def test_complex_buffers_are_ranged_too():
    buffer = np.array([1 + 1j, -2j], "c8")
    ranges = Ranges({"a": buffer}, 1.0)
    ranges.learn()
    buffer[0] = 3j
    assert ranges.odd() == ("a",)


def test_the_known_tile_is_always_the_same_and_its_plumes_are_found():
    facts = filter_model().manifest
    one, two = known_tile(facts), known_tile(facts)
    np.testing.assert_array_equal(one.radiance, two.radiance)
    assert one.rgb is None
    coloured = manifest(b"", inputs=("log_radiance", "rgb"), prepare=replace(facts.prepare, rgb="fixed"))
    assert known_tile(coloured).rgb is not None
    assert one.plumes.any()
    assert (one.mirrored().radiance != one.radiance).any()


def test_the_watchdog_speaks_when_the_time_is_up_and_only_then():
    hung = threading.Event()
    dog = Watchdog(0.05, hung.set)
    with dog.watching():
        assert hung.wait(20)
    calm = threading.Event()
    patient = Watchdog(60.0, calm.set)
    for _ in range(3):
        with patient.watching():
            pass
    assert not calm.wait(0.2)


@pytest.mark.parametrize("wrong", [{"margin": 0.5}, {"attempts": 1}, {"self_test_tiles": 0}, {"hang_s": 0.0}])
def test_guards_that_make_no_sense_are_refused(wrong):
    with pytest.raises(FlameError):
        GuardSettings(**wrong)
