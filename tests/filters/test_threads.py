"""How many threads filters take: never more than the environment allows a worker."""

import pytest

from flame.filters.pixels import MAX_THREADS, threads


@pytest.mark.parametrize(("asked", "expected"), [("1", 1), ("64", None), ("", None), ("0", None), ("two", None)])
def test_filters_take_no_more_threads_than_they_are_given(monkeypatch, asked, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = threads()
    assert 1 <= cores <= MAX_THREADS
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads() == (expected or cores)
