"""Packets survive the round trip, fit a few hundred bytes, and no damaged one is ever taken for whole."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from flame.detection import find_plumes
from flame.onboard.downlink import (
    PacketError,
    PacketFlag,
    data_reduction,
    decode_all,
    decode_packet,
    encode_plume,
)
from flame.onboard.outlines import simplified


def _blob(shape=(200, 300), seed=0, threshold=0.4):
    """A wind-blown shape with rough edges."""
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=shape), (4, 12))
    mask = noise > threshold * noise.max()
    score = (np.abs(noise) * 1e4).astype(np.float32)
    return mask, max(find_plumes(mask, np.clip(score / 500, 0, 1), score), key=lambda p: p.area_px)


def _inside(ring, shape):
    """Pixel centres inside a polygon, by crossing number."""
    rows, cols = np.mgrid[0 : shape[0], 0 : shape[1]] + 0.5
    inside = np.zeros(shape, dtype=bool)
    for (r0, c0), (r1, c1) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
        if r0 != r1:
            between = (rows > min(r0, r1)) & (rows <= max(r0, r1))
            inside ^= between & (cols > c0 + (rows - r0) * (c1 - c0) / (r1 - r0))
    return inside


@pytest.mark.parametrize("seed", range(4))
def test_a_plume_survives_the_round_trip(seed):
    _, plume = _blob(seed=seed)
    packet = encode_plume(plume, scene=7, number=seed)
    assert len(packet) < 400
    got = decode_packet(packet + b"whatever follows")
    for name in ("first_row", "first_col", "area_px", "peak_row", "peak_col"):
        assert getattr(got, name) == getattr(plume, name)
    for name in ("centroid_row", "centroid_col", "peak_ppm_m", "mean_ppm_m", "integrated_ppm_m_px"):
        assert getattr(got, name) == pytest.approx(getattr(plume, name), rel=1e-6)
    assert got.confidence == pytest.approx(plume.confidence, abs=1e-5)
    assert (got.scene, got.plume, got.rows, got.cols) == (
        7,
        seed,
        plume.end_row - plume.first_row,
        plume.end_col - plume.first_col,
    )
    exact, sent = (_inside(ring, (200, 300)) for ring in (plume.polygons[0].exterior, got.outline))
    assert (exact & sent).sum() / (exact | sent).sum() > 0.85


def test_short_outlines_are_sent_exactly_and_long_ones_say_so():
    mask = np.zeros((20, 20), dtype=bool)
    mask[5:9, 5:15] = True
    (plume,) = find_plumes(mask, mask.astype(float), mask * 100.0)
    got = decode_packet(encode_plume(plume, 1, 1))
    np.testing.assert_array_equal(got.outline, plume.polygons[0].exterior)
    assert got.flags == 0
    mask[6, 7] = False
    (holed,) = find_plumes(mask, mask.astype(float), mask * 100.0)
    assert decode_packet(encode_plume(holed, 1, 1)).flags == PacketFlag.SIMPLIFIED
    assert decode_packet(encode_plume(holed.shifted(5000), 1, 1, block=512)).block_row == 9


def test_plumes_longer_than_a_byte_take_two():
    mask = np.zeros((400, 20), dtype=bool)
    mask[:, 5:9] = True
    (plume,) = find_plumes(mask, mask.astype(float), mask * 100.0)
    got = decode_packet(encode_plume(plume.shifted(100_000), 1, 1))
    assert got.flags == PacketFlag.WIDE
    assert got.outline.max(axis=0).tolist() == [100_400, 9]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damaged_packet_is_accepted(data):
    packet = bytearray(encode_plume(_blob()[1], 1, 1))
    at = data.draw(st.integers(0, len(packet) - 1))
    packet[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(PacketError):
        decode_packet(bytes(packet))


def test_truncated_packets_are_refused():
    packet = encode_plume(_blob()[1], 1, 1)
    for length in range(len(packet)):
        with pytest.raises(PacketError):
            decode_packet(packet[:length])


def test_whole_packets_are_found_among_damage():
    packets = [encode_plume(_blob(seed=s)[1], 3, s) for s in range(4)]
    broken = bytearray(packets[2])
    broken[40] ^= 4
    received = b"\x00FP\xff" + packets[0] + packets[1] + bytes(broken) + packets[3] + packets[0][:30]
    found, lost = decode_all(received)
    assert [p.plume for p in found] == [0, 1, 3]
    assert lost == len(received) - sum(len(packets[i]) for i in (0, 1, 3))


def test_numbers_that_do_not_fit_are_refused():
    _, plume = _blob()
    with pytest.raises(PacketError, match="does not fit"):
        encode_plume(plume, scene=2**32, number=1)
    with pytest.raises(PacketError, match="does not fit"):
        encode_plume(plume, scene=1, number=70_000)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 60), st.integers(0, 5))
def test_simplified_rings_keep_some_of_their_corners_in_order(limit, seed):
    ring = _blob(seed=seed)[1].polygons[0].exterior
    kept = simplified(ring, limit)
    assert len(kept) == min(limit, len(ring))
    places = [np.flatnonzero((ring == corner).all(axis=1)) for corner in kept]
    assert all(place.size for place in places)


def test_the_layout_is_the_documented_one():
    packet = encode_plume(_blob()[1], scene=0x01020304, number=0x0506)
    assert packet[:3] == b"FP\x01"
    assert struct.unpack_from(">H", packet, 4) == (len(packet),)
    assert packet[6:12] == bytes([1, 2, 3, 4, 5, 6])
    assert struct.unpack_from(">H", packet, 56)[0] * 2 + 58 + 4 == len(packet)


def test_data_reduction_counts_blocks_with_plumes():
    mask = np.zeros((1000, 600), dtype=bool)
    mask[10, 10] = mask[900, 550] = True
    saved = data_reduction(mask, [b"x" * 200, b"x" * 100], bands=425, block=512)
    assert saved.scene_bytes == 1000 * 600 * 850
    assert saved.raw_blocks == 2
    assert saved.block_bytes == (512 * 512 + 488 * 88) * 850
    assert saved.packets_only == pytest.approx(1_700_000)
    assert saved.with_blocks == pytest.approx(600_000 / (512 * 512 + 488 * 88), rel=1e-3)


def _forged(**changes):
    """A packet with a right checksum and other numbers."""
    from dataclasses import replace

    mask = np.zeros((20, 20), dtype=bool)
    mask[5:9, 5:15] = True
    (plume,) = find_plumes(mask, mask.astype(float), mask * 100.0)
    return encode_plume(replace(plume, **changes), 1, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"peak_ppm_m": float("nan")}, "not finite"),
        ({"integrated_ppm_m_px": float("inf")}, "not finite"),
        ({"peak_ppm_m": 1e39}, "does not fit"),
        ({"area_px": 41}, "area"),
        ({"area_px": 0}, "area"),
        ({"mean_ppm_m": 200.0}, "mean above"),
        ({"integrated_ppm_m_px": 1.0}, "sum"),
        ({"centroid_row": 19.0}, "centroid"),
        ({"peak_row": 9}, "peak"),
        ({"confidence": float("nan")}, "does not fit"),
    ],
)
def test_what_no_plume_can_have_is_neither_sent_nor_taken(changes, words, monkeypatch):
    with pytest.raises(PacketError, match=words):
        _forged(**changes)
    if "does not fit" in words:
        return
    with monkeypatch.context() as patch:  # a forger does not check what it sends
        patch.setattr("flame.onboard.downlink.decode_packet", lambda _: None)
        packet = _forged(**changes)
    with pytest.raises(PacketError, match=words):
        decode_packet(packet)
    assert decode_all(packet + _forged())[1] == len(packet)


def test_an_outline_beyond_its_box_is_refused():
    packet = bytearray(_forged())
    packet[58] = 200
    packet[-4:] = struct.pack(">I", zlib.crc32(packet[:-4]))
    with pytest.raises(PacketError, match="outline beyond"):
        decode_packet(bytes(packet))


def test_decoding_looks_at_each_byte_a_bounded_number_of_times(monkeypatch):
    """The work of `decode_all` grows as the bytes do: counted in bytes given to the checksum, not in time."""
    import flame.onboard.downlink as module

    class Counting:
        seen = 0

        @classmethod
        def crc32(cls, content):
            cls.seen += len(content)
            return zlib.crc32(content)

    class Watched(bytes):
        copied = 0

        def __getitem__(self, key):
            part = super().__getitem__(key)
            if isinstance(key, slice):
                Watched.copied += len(part)
            return part

    packet = _forged()
    monkeypatch.setattr(module, "zlib", Counting)
    found, lost = decode_all(Watched(packet * 2000))
    assert (len(found), lost) == (2000, 0)
    assert Counting.seen <= 2000 * len(packet)
    assert Watched.copied <= 2000 * len(packet)
