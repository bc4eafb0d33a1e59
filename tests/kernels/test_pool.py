"""The threads of the kernels: the same answer for any number of them, for several callers at once, and after a fork."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from flame.kernels import Image, load_kernels, pack
from flame.onboard.native.operator import LINEAR, Crew

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")

FORKS = Path(__file__).with_name("forks.py")


def _convolved(threads, seed):
    rng = np.random.default_rng(seed)
    source, out = Image(9, 70, 50), Image(14, 70, 50)
    source.pixels[:] = rng.standard_normal((9, 70, 50))
    weight, bias = pack(rng.standard_normal((14, 81))), np.zeros(14, np.float32)
    Crew(load_kernels(), threads).convolve([(source, 3)], weight, bias, LINEAR, out)
    return out.pixels.copy()


def test_any_number_of_threads_gives_the_same_bits():
    alone = _convolved(1, 0)
    for threads in (2, 3, 8, 100_000):
        np.testing.assert_array_equal(_convolved(threads, 0), alone)


def test_several_callers_at_once_get_their_own_answers():
    expected = [_convolved(1, seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as callers:
        for _ in range(20):
            found = list(callers.map(_convolved, [3] * 6, range(6)))
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_a_forked_process_can_go_on():
    """The child has none of its parent's threads; it must neither wait for them nor give another answer."""
    done = subprocess.run([sys.executable, str(FORKS)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["same", "same", "same"]
