"""Raw lines come back within half a step, and a short link carries what matters most."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.detection import find_plumes
from flame.onboard.downlink import PacketError, decode_packet
from flame.onboard.link.channels import Channel, PacketMaker, channel_of
from flame.onboard.link.health import (
    Answer,
    Health,
    Mode,
    Outcome,
    decode_answer,
    decode_health,
    encode_answer,
    encode_health,
)
from flame.onboard.link.queue import DownlinkQueue, QueueSettings
from flame.onboard.link.raw_blocks import RawBlock, decode_part, lines_of, pack_line, parts_of
from flame.onboard.link.space_packet import decode_space_packet


def _plumes(sizes, confidence=0.9):
    mask = np.zeros((40, 40 * len(sizes)), dtype=bool)
    for place, side in enumerate(sizes):
        mask[2 : 2 + side, 40 * place + 2 : 40 * place + 2 + side] = True
    return find_plumes(mask, np.full(mask.shape, confidence, "f4"), np.full(mask.shape, 500.0, "f4"))


def _block(weight, rows=3, seed=0, scene=1):
    rng = np.random.default_rng(seed)
    lines = tuple(pack_line(rng.uniform(0, 9, (4, 16))) for _ in range(rows))
    return RawBlock(scene, 64, 32, lines, weight)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.floats(1e-6, 1e6), st.floats(-1, 1))
def test_radiance_comes_back_within_half_a_step(seed, scale, low):
    line = scale * (np.random.default_rng(seed).random((3, 9)) + low)
    line[1, 2] = np.nan
    line[2, 3] = np.inf
    back = pack_line(line).radiance()
    finite = np.isfinite(line)
    np.testing.assert_array_equal(np.isfinite(back), finite)
    known = np.where(finite, line, 0)
    span = known.max(axis=1, initial=0) - known.min(axis=1, initial=0)
    rounding = 3e-7 * (np.abs(known) + span[:, None])
    assert (np.where(finite, np.abs(back - line), 0) <= 0.5 * span[:, None] / 65534 + rounding).all()


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_counts_of_a_detector_come_back_exactly(seed):
    line = np.random.default_rng(seed).integers(0, 65535, (5, 17))
    np.testing.assert_array_equal(pack_line(line).radiance(), line)


@settings(max_examples=30, deadline=None)
@given(st.integers(48, 900), st.randoms(use_true_random=False))
def test_a_block_is_whole_again_from_parts_in_any_order(size, random):
    block = _block(3.5)
    parts = [decode_part(part) for part in parts_of(block, size)]
    random.shuffle(parts)
    content = bytearray(parts[0].total)
    for part in parts:
        content[part.at : part.at + len(part.data)] = part.data
    assert bytes(content) == block.content()
    for line, again in zip(block.lines, lines_of(bytes(content), 4, 16), strict=True):
        np.testing.assert_array_equal(line.radiance(), again.radiance())


def test_parts_that_no_block_has_are_refused():
    part = next(parts_of(_block(1.0), 100))
    with pytest.raises(PacketError, match="no room"):
        next(parts_of(_block(1.0), 30))
    with pytest.raises(PacketError, match="version 9"):
        decode_part(b"\x09" + part[1:])
    with pytest.raises(PacketError, match="more than"):
        decode_part(part[:20])
    with pytest.raises(PacketError, match="the part says"):
        decode_part(part[:9] + b"\xff\xff" + part[11:13] + b"\x00\x09" + part[15:])


def test_the_surest_and_largest_go_first_and_the_budget_holds():
    queue = DownlinkQueue(PacketMaker(timed=False), QueueSettings(packet_bytes=512))
    queue.add_block(_block(5.0, seed=1))
    queue.add_block(_block(50.0, seed=2, scene=2))
    for number, plume in enumerate((*_plumes([4, 9, 2]), replace(_plumes([4])[0], confidence=0.1))):
        queue.add_plume(plume, 1, number, 64)
    queue.tell(Channel.HEALTH, b"well")
    first = list(queue.take(200))
    assert sum(map(len, first)) <= 200
    packets = [decode_space_packet(packet) for packet in first + list(queue.take(10**6))]
    channels = [channel_of(packet, 0x2A0) for packet in packets]
    assert channels == sorted(channels, key=[Channel.HEALTH, Channel.PLUMES, Channel.RAW].index)
    sent = [decode_packet(p.data) for p, c in zip(packets, channels, strict=True) if c is Channel.PLUMES]
    weights = [plume.confidence * plume.area_px for plume in sent]
    assert len(weights) == 4
    assert all(a >= b for a, b in pairwise(weights))
    raw = [decode_part(p.data) for p, c in zip(packets, channels, strict=True) if c is Channel.RAW]
    assert [part.weight for part in raw] == sorted((part.weight for part in raw), reverse=True)
    assert queue.held_bytes == 0
    assert list(queue.take(10**6)) == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("hpb"), st.integers(1, 30)), max_size=30), st.lists(st.integers(0, 3000)))
def test_whatever_comes_the_budget_holds_and_nothing_is_lost(things, budgets):
    queue = DownlinkQueue(PacketMaker(), QueueSettings(packet_bytes=512))
    for kind, size in things:
        if kind == "h":
            queue.tell(Channel.HEALTH, bytes(size))
        elif kind == "p":
            queue.add_plume(_plumes([size])[0], 1, size, 64)
        else:
            queue.add_block(_block(float(size), seed=size))
    sent = []
    for budget in budgets:
        taken = list(queue.take(budget))
        assert sum(map(len, taken)) <= budget
        assert all(len(packet) <= 512 for packet in taken)
        sent += taken
    sent += queue.take(10**8)
    assert queue.held_bytes == 0
    assert queue.dropped == 0
    assert queue.sent_bytes == sum(map(len, sent))
    packets = [decode_space_packet(packet) for packet in sent]
    kinds = [channel_of(packet, 0x2A0) for packet in packets]
    assert kinds.count(Channel.PLUMES) == sum(kind == "p" for kind, _ in things)
    whole = sum(p.sequence in (2, 3) for p, c in zip(packets, kinds, strict=True) if c is Channel.RAW)
    assert whole == sum(kind == "b" for kind, _ in things)
    for channel in Channel:
        counts = [p.count for p, c in zip(packets, kinds, strict=True) if c is channel]
        assert counts == list(range(len(counts)))


def test_a_full_queue_drops_the_least_weighty_raw_block_first():
    queue = DownlinkQueue(PacketMaker(), QueueSettings(packet_bytes=512, held_bytes=1400))
    for weight in (3.0, 1.0, 2.0):
        queue.add_block(_block(weight))
    queue.add_plume(_plumes([9])[0], 1, 0, 64)
    assert queue.held_bytes <= 1400
    packets = [decode_space_packet(packet) for packet in queue.take(10**6)]
    assert {decode_part(p.data).weight for p in packets if p.apid == 0x2A1} == {3.0, 2.0}
    assert queue.dropped == 1
    assert packets[0].apid == 0x2A0


def test_sizes_that_hold_nothing_are_refused():
    with pytest.raises(PacketError, match="512 to"):
        QueueSettings(packet_bytes=100)
    with pytest.raises(PacketError, match="no two packets"):
        QueueSettings(held_bytes=600)


def test_health_and_answers_come_back():
    health = Health(
        12.5, 3, tiles=7, corrected=2, temperature_degc=41.5, threshold=0.25, mode=Mode.SURE, model=b"12345678"
    )
    assert decode_health(encode_health(health)) == health
    assert math.isnan(decode_health(encode_health(Health())).temperature_degc)
    assert decode_health(encode_health(Health(lines=2**32 + 5))).lines == 5
    answer = Answer(9, 1, Outcome.REFUSED, "zu spät")
    assert decode_answer(encode_answer(answer)) == answer
    assert len(encode_answer(replace(answer, reason="x" * 5000))) < 450
    with pytest.raises(PacketError):
        decode_health(b"")
    with pytest.raises(PacketError):
        decode_answer(encode_answer(answer)[:9])
