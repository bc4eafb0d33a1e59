"""What goes up and down: an APID for each kind of packet, each with its own sequence count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from enum import IntEnum

from flame.onboard.downlink import PacketError
from flame.onboard.link.space_packet import (
    COUNTS,
    IDLE_APID,
    OVERHEAD_BYTES,
    Sequence,
    SpacePacket,
    encode_space_packet,
)

__all__ = ["DEFAULT_APID", "Channel", "PacketMaker", "apids_of", "channel_of"]

DEFAULT_APID = 0x2A0
"""First of the APIDs unless a mission says otherwise."""


class Channel(IntEnum):
    """Kinds of packets; the APID is the mission's first one plus this."""

    PLUMES = 0
    """One plume each, as in docs/downlink.md."""
    RAW = 1
    """Parts of raw blocks that hold plumes."""
    HEALTH = 2
    ANSWERS = 3
    """What became of a command."""
    COMMANDS = 4


def apids_of(first_apid: int) -> dict[Channel, int]:
    """APID of each channel.

    Raises:
        PacketError: If there is no room for all of them from that one on.
    """
    if not 0 <= first_apid <= IDLE_APID - len(Channel):
        raise PacketError(f"the first APID must be 0 to {IDLE_APID - len(Channel)}, got {first_apid}")
    return {channel: first_apid + channel for channel in Channel}


def channel_of(packet: SpacePacket, first_apid: int) -> Channel:
    """What kind of packet it is.

    Raises:
        PacketError: If it is none of this process, or a command where telemetry should be.
    """
    number = packet.apid - first_apid
    if not 0 <= number < len(Channel):
        raise PacketError(f"APID {packet.apid} is not from {first_apid} to {first_apid + len(Channel) - 1}")
    channel = Channel(number)
    if packet.command != (channel is Channel.COMMANDS):
        raise PacketError(f"a {'command' if packet.command else 'telemetry'} packet with the APID of {channel.name}")
    return channel


def _now() -> datetime:
    return datetime.now(UTC)


class PacketMaker:
    """Wraps data in space packets and counts them.

    Args:
        first_apid: First of the APIDs.
        timed: Whether packets carry the time of their making.
        clock: Gives the time, in UTC.
    """

    def __init__(
        self, first_apid: int = DEFAULT_APID, timed: bool = True, clock: Callable[[], datetime] = _now
    ) -> None:
        self._apids = apids_of(first_apid)
        self._timed, self._clock = timed, clock
        self._counts = dict.fromkeys(Channel, 0)

    def make(self, channel: Channel, data: bytes, sequence: Sequence = Sequence.WHOLE) -> bytes:
        """One packet."""
        count = self._counts[channel]
        self._counts[channel] = (count + 1) % COUNTS
        time = self._clock() if self._timed else None
        command = channel is Channel.COMMANDS
        return encode_space_packet(SpacePacket(self._apids[channel], count, data, sequence, time, command))

    def make_parts(self, channel: Channel, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Packets of the parts of one thing, marked first, continuing and last."""
        following = iter(parts)
        part, first = next(following, None), True
        while part is not None:
            after = next(following, None)
            place = (Sequence.FIRST if first else Sequence.CONTINUES) if after is not None else Sequence.LAST
            yield self.make(channel, part, Sequence.WHOLE if first and after is None else place)
            part, first = after, False

    @staticmethod
    def room(packet_bytes: int) -> int:
        """Bytes of data in a packet of so many bytes, with a time."""
        return packet_bytes - OVERHEAD_BYTES
