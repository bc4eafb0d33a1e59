"""Lines one by one give what the whole scene gives: nothing lost, late by at most a tile, in bounded memory."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.onboard import Asked, Detector, Quality, StreamError
from tiny_models import filter_model, plume_scene, whitening_model

BOXES = [(3, 3, 9, 30), (28, 10, 36, 16), (60, 20, 118, 26), (130, 2, 131, 20), (150, 30, 156, 40)]


@pytest.fixture(scope="module")
def detector():
    return Detector(filter_model(tile=32, centred=True), threads=1)


def _pushed(stream, radiance, sizes):
    blocks, at = [], 0
    for size in sizes:
        blocks += stream.push(radiance[:, at : at + size])
        at += size
    return blocks + stream.push(radiance[:, at:]) + stream.close()


def _check_same(blocks, whole):
    for name in ("probability", "score_ppm_m", "mask", "quality"):
        np.testing.assert_array_equal(np.concatenate([getattr(b, name) for b in blocks]), getattr(whole, name))
    starts = np.cumsum([0, *(b.mask.shape[0] for b in blocks)])
    assert [b.first_row for b in blocks] == starts[:-1].tolist()

    def key(plume):
        return plume.first_row, plume.first_col, plume.end_row, plume.end_col, plume.area_px

    streamed = sorted((p for b in blocks for p in b.plumes), key=key)
    expected = sorted(whole.plumes, key=key)
    assert [key(p) for p in streamed] == [key(p) for p in expected]
    for a, b in zip(streamed, expected, strict=True):
        np.testing.assert_array_equal(a.polygons[0].exterior, b.polygons[0].exterior)
        assert a.integrated_ppm_m_px == pytest.approx(b.integrated_ppm_m_px)
    assert [t.flags for b in blocks for t in b.tiles] == [t.flags for t in whole.tiles]


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 170), sizes=st.lists(st.integers(0, 70), max_size=6))
def test_any_chopping_of_any_length_equals_the_whole_scene(detector, rows, sizes):
    scene, _ = plume_scene(rows, 45, BOXES)
    _check_same(_pushed(detector.stream(45), scene.radiance, sizes), detector.run(scene))


def test_line_by_line_with_the_tiles_own_background():
    scene, _ = plume_scene(100, 40, BOXES)
    detector = Detector(whitening_model(tile=32), threads=2)
    _check_same(_pushed(detector.stream(40), scene.radiance, [1] * 100), detector.run(scene))


def test_lines_are_cut_at_the_threshold_that_was_asked_for():
    scene, _ = plume_scene(100, 45, BOXES)
    sure = Detector(filter_model(tile=32, centred=True), threads=1, asked=Asked(threshold=0.9))
    stream = sure.stream(45)
    assert stream.rule == sure.rule
    _check_same(_pushed(stream, scene.radiance, [100]), sure.run(scene))


def test_no_line_waits_for_more_than_a_tile(detector):
    radiance = plume_scene(300, 20)[0].radiance
    stream, given_out = detector.stream(20), 0
    for row in range(300):
        for block in stream.push(radiance[:, row : row + 1]):
            given_out += block.mask.shape[0]
        assert stream.lines_in - given_out <= 32 + 3
    assert given_out + sum(b.mask.shape[0] for b in stream.close()) == stream.lines_in == 300


def test_memory_does_not_grow_with_the_lines(detector):
    radiance = plume_scene(32, 256, [(0, 10, 32, 20)])[0].radiance  # one plume without end
    stream = detector.stream(256, max_plume_rows=64)

    def peak_over(pushes):
        tracemalloc.reset_peak()
        for _ in range(pushes):
            stream.push(radiance)
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    stream.push(radiance)
    early, _, late = peak_over(5), peak_over(20), peak_over(5)
    tracemalloc.stop()
    assert late - early < 2 * radiance.nbytes  # of 20 times as much that went through


def test_wrong_lines_are_refused_at_once(detector):
    stream = detector.stream(20)
    with pytest.raises(StreamError, match=r"4 x lines x 20 .*, got 3 x 1 x 20"):
        stream.push(np.ones((3, 1, 20), dtype=np.float32))
    assert stream.close() == []
    assert stream.close() == []
    with pytest.raises(StreamError, match="was closed"):
        stream.push(np.ones((4, 1, 20), dtype=np.float32))


WRONG_TYPES = """
import numpy as np
from flame.onboard import Detector, StreamError
from tiny_models import filter_model, plume_scene

scene, _ = plume_scene(50, 20)
detector = Detector(filter_model(tile=32), threads=1)
stream, whole = detector.stream(20), detector.run(scene)
lines = scene.radiance[:, :1]
wrong = [
    (None,), ([[1.0]],), ("line",), (3.0,), (lines[0],), (lines.astype(complex),), (lines.astype(object),),
    (lines.astype("S8"),), (np.zeros((4, 1, 0), np.float32),), (np.float32(1),),
    (lines, "rgb"), (lines, np.ones((3, 2, 20))), (lines, np.ones((2, 1, 20))), (lines, None, 1),
    (lines, None, np.ones((1, 19), bool)), (lines, None, np.ones((1, 20))), (lines, None, np.ones((2, 20), bool)),
]
blocks, refused = [], 0
for row in range(50):
    for arguments in wrong:
        try:
            stream.push(*arguments)
        except StreamError as error:
            refused += 1
            assert "\\n" not in str(error)
    blocks += stream.push(scene.radiance[:, row : row + 1].astype([np.float64, np.float32][row % 2]))
blocks += stream.close()
assert refused == 50 * len(wrong), refused
np.testing.assert_array_equal(np.concatenate([b.mask for b in blocks]), whole.mask)
np.testing.assert_array_equal(np.concatenate([b.score_ppm_m for b in blocks]), whole.score_ppm_m)
"""


def test_wrong_types_are_refused_in_the_streams_own_words_and_no_line_is_lost():
    """In a process of its own: here the type checker of the tests would speak first."""
    path = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    done = subprocess.run([sys.executable, "-c", path + WRONG_TYPES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_tile_that_cannot_be_prepared_costs_its_own_lines_only(detector, monkeypatch):
    scene, _ = plume_scene(100, 20, BOXES)
    stream, calls = detector.stream(20), []
    real = detector._preparer.prepare

    def prepare(*arguments):
        calls.append(1)
        if len(calls) in (2, 3):  # the second tile, which the guard has done again
            raise np.linalg.LinAlgError("singular")
        return real(*arguments)

    monkeypatch.setattr(detector._preparer, "prepare", prepare)
    blocks = _pushed(stream, scene.radiance, [7] * 10)
    quality = np.concatenate([b.quality for b in blocks])
    assert quality.shape[0] == 100
    failed = (quality & Quality.FAILED) != 0
    assert failed.any()
    assert not failed[:24].any()
    assert not failed[70:].any()


def test_values_beyond_float32_are_flagged_and_raise_nothing(detector):
    lines = plume_scene(40, 20)[0].radiance.astype(np.float64)
    lines[1, 3, 4] = 1e300
    blocks = _pushed(detector.stream(20), lines, [])
    quality = np.concatenate([b.quality for b in blocks])
    assert Quality.NOT_FINITE in Quality(int(quality[3, 4]))
    assert (quality != 0).sum() == 1
