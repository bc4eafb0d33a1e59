"""Doubles, losses and restarts are told apart, whatever the link does and however far the count has gone."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.onboard.link.arrivals import Arrivals
from flame.onboard.link.space_packet import COUNTS

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def flight(name, numbers, began_s=None):
    """Packets of one flight: sequence count, content, time; a packet a second."""
    return [
        (n % COUNTS, f"{name} {n}".encode(), None if began_s is None else NOON + timedelta(seconds=began_s + n))
        for n in numbers
    ]


def counted(packets):
    arrivals = Arrivals()
    new = [packet for packet in packets if arrivals.take(*packet)]
    return arrivals, new


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("first", [1, 3, 60, 3000, 9000, 15000, COUNTS + 5])
def test_a_flight_that_is_started_again_loses_nothing(first, timed):
    before = flight("a", range(first), 0 if timed else None)
    after = flight("b", range(20), first + 60 if timed else None)
    arrivals, new = counted(before + after + after[:4])
    assert new == before + after
    assert (arrivals.restarts, arrivals.lost, arrivals.doubled) == (1, 0, 4)


@pytest.mark.parametrize("begin", [0, 16000, 5 * COUNTS - 7])
def test_a_count_that_begins_again_after_14_bits_is_no_restart(begin):
    packets = flight("a", range(begin, begin + 20000))
    arrivals, _ = counted(packets[:300] + packets[340:])
    assert (arrivals.restarts, arrivals.lost) == (0, 40)


def test_a_ground_that_came_late_sees_a_restart_by_the_time_and_loses_nothing():
    arrivals, _ = counted(flight("a", range(40, 50), 0) + flight("b", range(3), 100))
    assert (arrivals.restarts, arrivals.lost) == (1, 0)


def test_a_packet_that_is_late_over_a_restart_is_not_lost_and_no_restart_itself():
    before, after = flight("a", range(10), 0), flight("b", range(10), 100)
    arrivals, new = counted([*before[:8], before[9], after[1], after[0], before[8], *after[2:]])
    assert len(new) == 20
    assert (arrivals.restarts, arrivals.lost) == (1, 0)


def test_a_clock_that_was_set_back_hides_no_restart():
    arrivals, new = counted(flight("a", range(5), 1000) + flight("b", [0, 1, 2, 4], 0))
    assert len(new) == 9
    assert (arrivals.restarts, arrivals.lost) == (1, 1)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2 * COUNTS), st.booleans())
def test_over_a_lossy_link_the_counts_are_right(seed, begin, timed):
    draw = random.Random(seed)
    packets = flight("a", range(begin, begin + 60), 0 if timed else None)
    kept = [p for p in packets for _ in range(draw.choices([0, 1, 2], [1, 6, 1])[0])]
    order = sorted(range(len(kept)), key=lambda place: place + draw.uniform(0, 5))
    arrivals, new = counted([kept[place] for place in order])
    came = sorted(packets.index(packet) for packet in set(kept))
    assert len(new) == arrivals.received == len(came)
    assert arrivals.doubled == len(kept) - len(came)
    assert arrivals.restarts == 0
    assert arrivals.lost == came[-1] - came[0] + 1 - len(came)
