"""CCSDS space packets (133.0-B-2): header, CDS time by choice, CRC-16 at the end. The layout is in docs/flight.md."""

from __future__ import annotations

import binascii
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from flame.onboard.downlink import PacketError

__all__ = [
    "COUNTS",
    "IDLE_APID",
    "MOST_DATA_BYTES",
    "OVERHEAD_BYTES",
    "PacketSearch",
    "Sequence",
    "SpacePacket",
    "crc16",
    "decode_space_packet",
    "encode_space_packet",
    "split_packets",
]

IDLE_APID = 0x7FF
COUNTS = 1 << 14
"""The sequence count begins again after so many packets."""

_HEADER = struct.Struct(">HHH")
_TIME = struct.Struct(">BHI")
_CHECK = struct.Struct(">H")
_CDS_SHORT = 0x40
"""P-field of a CDS time: epoch of 1958, 16-bit days, milliseconds of the day (CCSDS 301.0-B-4, 3.3)."""
_EPOCH = datetime(1958, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000

OVERHEAD_BYTES = _HEADER.size + _TIME.size + _CHECK.size
"""Bytes of a packet that are not its own data, with a time."""

MOST_DATA_BYTES = 65536 - _TIME.size - _CHECK.size


class Sequence(IntEnum):
    """Sequence flags: which part of a larger thing a packet is."""

    CONTINUES = 0
    FIRST = 1
    LAST = 2
    WHOLE = 3


@dataclass(frozen=True)
class SpacePacket:
    """One packet.

    Attributes:
        apid: Which process of the spacecraft sent it or is to take it, 0 to 2046.
        count: Number of the packet among those of its APID, modulo 16,384.
        data: What it carries, without time and checksum.
        sequence: Which part of a larger thing it is.
        time: When it was made, to the millisecond; in UTC. None: it has no secondary header.
        command: Whether it goes up (a telecommand) or down (telemetry).
    """

    apid: int
    count: int
    data: bytes
    sequence: Sequence = Sequence.WHOLE
    time: datetime | None = None
    command: bool = False


def crc16(content: bytes) -> int:
    """CRC-16 of CCSDS frames and ECSS packets: polynomial 0x1021, all ones at the start."""
    return binascii.crc_hqx(content, 0xFFFF)


def encode_space_packet(packet: SpacePacket) -> bytes:
    """A packet as bytes.

    Raises:
        PacketError: If a number does not fit its field, or there is no data.
    """
    if not 0 <= packet.apid < IDLE_APID:
        raise PacketError(f"APID {packet.apid} is not from 0 to {IDLE_APID - 1}")
    if not 0 <= packet.count < COUNTS:
        raise PacketError(f"sequence count {packet.count} is not from 0 to {COUNTS - 1}")
    if not 1 <= len(packet.data) <= MOST_DATA_BYTES:
        raise PacketError(f"a space packet carries 1 to {MOST_DATA_BYTES} bytes, got {len(packet.data)}")
    timed = packet.time is not None
    body = (b"" if packet.time is None else _time_bytes(packet.time)) + packet.data
    head = _HEADER.pack(
        packet.command << 12 | timed << 11 | packet.apid,
        packet.sequence << 14 | packet.count,
        len(body) + _CHECK.size - 1,
    )
    return head + body + _CHECK.pack(crc16(head + body))


def decode_space_packet(content: bytes) -> SpacePacket:
    """The packet that these bytes are, no more and no fewer.

    Raises:
        PacketError: If they are too short or too long, of another version, damaged, or have a time of another kind.
    """
    if len(content) < _HEADER.size + _CHECK.size + 1:
        raise PacketError(f"a space packet has at least {_HEADER.size + _CHECK.size + 1} bytes, got {len(content)}")
    kind, sequence, length = _HEADER.unpack_from(content)
    if kind >> 13:
        raise PacketError(f"space packet version {(kind >> 13) + 1} is not known, expected 1")
    if len(content) != _HEADER.size + length + 1:
        raise PacketError(f"the packet says {_HEADER.size + length + 1} bytes, {len(content)} were given")
    if crc16(content):  # over data and its own checksum it is zero
        raise PacketError("the space packet's checksum does not fit: it was damaged on the way")
    apid = kind & 0x7FF
    if apid == IDLE_APID:
        raise PacketError("an idle packet, which carries nothing")
    body = content[_HEADER.size : -_CHECK.size]
    time = None
    if kind & 0x800:
        time, body = _time_of(body), body[_TIME.size :]
    if not body:
        raise PacketError("the space packet carries nothing")
    return SpacePacket(apid, sequence & 0x3FFF, body, Sequence(sequence >> 14), time, bool(kind & 0x1000))


class PacketSearch:
    """Finds every undamaged packet of some APIDs in a stretch of bytes, such as a file, and counts what else is there.

    Damage costs what it struck only. Packets of others are known as such at the beginning and behind whole packets;
    behind damage the search is for those that are wanted.

    Args:
        received: The bytes.
        apids: Which APIDs to look for.
        command: Whether commands are looked for, or telemetry.

    Attributes:
        foreign: Whole packets of others, by APID.
        damaged: Packets that were struck or cut off; a stretch of bytes that is no packet counts as one.
        damaged_bytes: How many bytes of what was searched are in no whole packet.
    """

    def __init__(self, received: bytes, apids: Iterable[int], command: bool = False) -> None:
        self._received = received
        self._wanted = {int(command) << 12 | apid for apid in apids}
        self.foreign: Counter[int] = Counter()
        self.damaged = self.damaged_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """The packets, one after another; the counts are right when there are no more."""
        self.foreign.clear()
        self.damaged = self.damaged_bytes = 0
        at = known = 0  # all bytes before `known` are accounted for
        while at + _HEADER.size <= len(self._received):
            (kind,) = _CHECK.unpack_from(self._received, at)
            wanted = kind & ~0x800 in self._wanted
            packet = self._whole(at) if wanted or (at == known and not kind >> 13) else None
            if packet is None:
                at += 1
                continue
            self._note_damage(known, at)
            at = known = at + len(packet)
            if wanted:
                yield packet
            else:
                self.foreign[kind & 0x7FF] += 1
        self._note_damage(known, len(self._received))

    def _end(self, at: int) -> int:
        """Where a packet that begins here says that it ends."""
        return at + _HEADER.size + int(_HEADER.unpack_from(self._received, at)[2]) + 1

    def _whole(self, at: int) -> bytes | None:
        packet = self._received[at : self._end(at)]
        return packet if len(packet) == self._end(at) - at > _HEADER.size + _CHECK.size and not crc16(packet) else None

    def _note_damage(self, at: int, end: int) -> None:
        """Counts the packets of a stretch by their headers, as far as these can be followed."""
        self.damaged_bytes += end - at
        while at < end:
            self.damaged += 1
            readable = at + _HEADER.size <= end and _CHECK.unpack_from(self._received, at)[0] & ~0x800 in self._wanted
            at = self._end(at) if readable else end


def split_packets(received: bytes, apids: Iterable[int], command: bool = False) -> Iterator[bytes]:
    """Every undamaged packet of these APIDs in a stretch of bytes, as `PacketSearch` finds them."""
    return iter(PacketSearch(received, apids, command))


def _time_bytes(time: datetime) -> bytes:
    if time.tzinfo is None:
        raise PacketError(f"the time {time} has no zone; give it in UTC")
    days, ms = divmod((time - _EPOCH) // timedelta(milliseconds=1), _DAY_MS)
    if not 0 <= days < 65536:
        raise PacketError(f"{time:%Y-%m-%d} is not from 1958 to 2137, which is all that CDS days can say")
    return _TIME.pack(_CDS_SHORT, days, ms)


def _time_of(body: bytes) -> datetime:
    if len(body) < _TIME.size or body[0] != _CDS_SHORT:
        raise PacketError("the packet's secondary header is not a CDS time of 16-bit days and milliseconds")
    _, days, ms = _TIME.unpack_from(body)
    if ms >= _DAY_MS + 1000:  # a day may end with a leap second
        raise PacketError(f"the packet's time says {ms} milliseconds of a day")
    return _EPOCH + timedelta(days=days, milliseconds=ms)
