"""How many threads filters take: never more than the environment allows a worker."""

import os

import pytest

from flame.filters.pixels import MAX_THREADS, threads


@pytest.mark.parametrize(("asked", "expected"), [("1", 1), ("64", None), ("", None), ("0", None), ("two", None)])
def test_filters_take_no_more_threads_than_they_are_given(monkeypatch, asked, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = min(MAX_THREADS, len(os.sched_getaffinity(0)))
    assert threads() == cores
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads() == (expected or cores)
