"""Packets are what a stock decoder reads, and nothing damaged is taken for whole."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacepackets.ccsds import PacketType, SequenceFlags, SpacePacketHeader
from spacepackets.ccsds.spacepacket import PacketId, parse_space_packets
from spacepackets.ccsds.time import CdsShortTimestamp

from flame.onboard.downlink import PacketError
from flame.onboard.link.channels import Channel, PacketMaker, apids_of, channel_of
from flame.onboard.link.space_packet import (
    PacketSearch,
    Sequence,
    SpacePacket,
    crc16,
    decode_space_packet,
    encode_space_packet,
    split_packets,
)

TIMES = st.datetimes(datetime(1958, 1, 1), datetime(2137, 1, 1), timezones=st.just(UTC)).map(
    lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
)
PACKETS = st.builds(
    SpacePacket,
    apid=st.integers(0, 2046),
    count=st.integers(0, 16383),
    data=st.binary(min_size=1, max_size=300),
    sequence=st.sampled_from(Sequence),
    time=st.none() | TIMES,
    command=st.booleans(),
)


@settings(deadline=None)
@given(PACKETS)
def test_a_packet_comes_back_as_it_was(packet):
    assert decode_space_packet(encode_space_packet(packet)) == packet


@settings(deadline=None)
@given(PACKETS)
def test_a_stock_decoder_reads_every_field(packet):
    content = encode_space_packet(packet)
    header = SpacePacketHeader.unpack(content)
    assert header.apid == packet.apid
    assert header.seq_count == packet.count
    assert header.seq_flags == SequenceFlags(int(packet.sequence))
    assert header.packet_type == (PacketType.TC if packet.command else PacketType.TM)
    assert header.sec_header_flag == (packet.time is not None)
    assert header.ccsds_version == 0
    assert header.packet_len == len(content)
    if packet.time is not None:
        stamp = CdsShortTimestamp.unpack(content[6:13])
        since = packet.time - datetime(1958, 1, 1, tzinfo=UTC)
        assert stamp.ccsds_days == since.days
        assert stamp.ms_of_day == (since - timedelta(days=since.days)) // timedelta(milliseconds=1)
        if packet.time.year >= 1970:  # its dates before that are off by the fraction of a day
            assert abs(stamp.as_datetime() - packet.time) < timedelta(milliseconds=1)
    body = content[6 + 7 * (packet.time is not None) : -2]
    assert body == packet.data


def test_the_checksum_is_that_of_the_standards():
    assert crc16(b"123456789") == 0x29B1  # the check value of CRC-16/IBM-3740 in every catalogue


@settings(deadline=None)
@given(PACKETS, st.data())
def test_no_damaged_packet_is_taken_for_whole(packet, data):
    content = bytearray(encode_space_packet(packet))
    first = data.draw(st.integers(0, 8 * len(content) - 1))
    burst = data.draw(st.integers(1, (1 << 16) - 1)) | 1
    for bit in range(16):
        if burst >> bit & 1 and first + bit < 8 * len(content):
            content[(first + bit) // 8] ^= 1 << (7 - (first + bit) % 8)
    with pytest.raises(PacketError):
        decode_space_packet(bytes(content))


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_noise_is_refused_in_our_own_words(noise):
    try:
        decode_space_packet(noise)
    except PacketError as error:
        assert "\n" not in str(error)  # noqa: PT017  what is not refused must be a packet, which noise may be


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"apid": 2047}, "APID 2047"),
        ({"count": 16384}, "sequence count"),
        ({"data": b""}, "carries 1 to"),
        ({"time": datetime(2026, 1, 1)}, "no zone"),
        ({"time": datetime(1957, 1, 1, tzinfo=UTC)}, "1958"),
    ],
)
def test_what_fits_no_field_is_refused(change, words):
    with pytest.raises(PacketError, match=words):
        encode_space_packet(SpacePacket(**({"apid": 1, "count": 0, "data": b"x"} | change)))


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.binary(max_size=30), min_size=7))
def test_packets_are_found_between_noise_as_a_stock_parser_finds_them(datas, noises):
    maker = PacketMaker(0x100, timed=False)
    packets = [maker.make(Channel.HEALTH, data) for data in datas]
    apid = apids_of(0x100)[Channel.HEALTH]
    received = b"".join(noise.replace(b"\x01", b"") + packet for noise, packet in zip(noises, packets, strict=False))
    assert list(split_packets(received, [apid])) == packets
    clean = b"".join(packets)
    found = parse_space_packets(clean, [PacketId(PacketType.TM, False, apid)]).tm_list
    assert [bytes(packet) for packet in found] == packets


def three_packets():
    maker = PacketMaker(0x100, timed=False)
    return [bytearray(maker.make(Channel.HEALTH, b"%d of three" % number)) for number in range(3)]


@pytest.mark.parametrize("struck", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_every_damaged_packet_is_counted_also_the_first_and_the_last(struck):
    packets = three_packets()
    for number in struck:
        packets[number][9] ^= 0x40
    search = PacketSearch(b"".join(packets), [0x102])
    assert len(list(search)) == 3 - len(struck)
    assert search.damaged == len(struck)
    assert search.damaged_bytes == sum(len(packets[number]) for number in struck)
    assert not search.foreign


def test_what_is_cut_off_and_what_is_noise_is_counted():
    content = b"noise" + b"".join(three_packets())[:-3]
    search = PacketSearch(content, [0x102])
    assert len(list(search)) == 2
    assert search.damaged == 2
    assert search.damaged_bytes == 5 + len(three_packets()[2]) - 3


def test_packets_of_others_are_counted_by_apid():
    others = PacketMaker(0x300)
    content = b"".join([others.make(Channel.RAW, b"x"), *three_packets(), others.make(Channel.COMMANDS, b"y")])
    search = PacketSearch(content, [0x102])
    for _ in range(2):  # a second look counts the same
        assert len(list(search)) == 3
        assert dict(search.foreign) == {0x301: 1, 0x304: 1}
        assert search.damaged == search.damaged_bytes == 0


def test_each_channel_counts_for_itself_and_begins_again_after_14_bits():
    maker = PacketMaker(timed=False)
    first = [decode_space_packet(maker.make(Channel.PLUMES, b"p")).count for _ in range(16385)]
    assert first[:3] == [0, 1, 2]
    assert first[-2:] == [16383, 0]
    assert decode_space_packet(maker.make(Channel.RAW, b"r")).count == 0


def test_parts_are_marked_as_the_standard_says():
    maker = PacketMaker(timed=False)

    def flags(parts):
        return [decode_space_packet(p).sequence for p in maker.make_parts(Channel.RAW, parts)]

    assert flags([]) == []
    assert flags([b"a"]) == [Sequence.WHOLE]
    assert flags([b"a", b"b"]) == [Sequence.FIRST, Sequence.LAST]
    assert flags([b"a", b"b", b"c"]) == [Sequence.FIRST, Sequence.CONTINUES, Sequence.LAST]


def test_packets_of_other_processes_are_told_apart():
    with pytest.raises(PacketError, match="APID 5"):
        channel_of(SpacePacket(5, 0, b"x"), 0x100)
    with pytest.raises(PacketError, match="telemetry packet with the APID of COMMANDS"):
        channel_of(SpacePacket(0x104, 0, b"x"), 0x100)
    with pytest.raises(PacketError, match="first APID"):
        apids_of(2045)
