"""What is sent first when the link is short: health and answers, then plumes, then raw blocks; the weightiest first."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from flame.detection import Plume
from flame.onboard.downlink import PacketError, encode_plume
from flame.onboard.link.channels import Channel, PacketMaker
from flame.onboard.link.raw_blocks import RawBlock, parts_of
from flame.onboard.link.space_packet import OVERHEAD_BYTES

__all__ = ["DownlinkQueue", "QueueSettings"]

_LEAST_PACKET_BYTES = 512
"""Room for any plume: 64 wide corners, its numbers and the space packet's own bytes."""


@dataclass(frozen=True)
class QueueSettings:
    """How much is held and how it is cut.

    Attributes:
        packet_bytes: Largest packet, header and checksum included.
        held_bytes: What may wait at most; beyond it the least weighty is dropped, raw blocks before plumes.
    """

    packet_bytes: int = 1024
    held_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if not _LEAST_PACKET_BYTES <= self.packet_bytes <= 65536:
            raise PacketError(f"packets must be {_LEAST_PACKET_BYTES} to 65536 bytes, got {self.packet_bytes}")
        if self.held_bytes < 2 * self.packet_bytes:
            raise PacketError(f"a queue of {self.held_bytes} bytes holds no two packets of {self.packet_bytes}")


class DownlinkQueue:
    """Packets that wait for the link.

    Args:
        maker: Wraps and counts; packets are counted when they are sent.
        settings: Sizes.
    """

    def __init__(self, maker: PacketMaker, settings: QueueSettings | None = None) -> None:
        self._maker, self._settings = maker, settings or QueueSettings()
        self._told: deque[tuple[Channel, bytes]] = deque()
        # Heaps by falling weight; a number keeps what is equally weighty in order.
        self._plumes: list[tuple[float, int, bytes]] = []
        self._blocks: list[tuple[float, int, RawBlock, int]] = []
        self._numbers = count()
        self._under_way: Iterator[bytes] | None = None
        self._ready: bytes | None = None
        self._left_under_way = 0
        self.held_bytes = 0
        self.dropped = 0
        self.sent_bytes = 0

    def tell(self, channel: Channel, data: bytes) -> None:
        """Health or an answer: before all else, in order. Of more than a thousand the oldest is dropped."""
        self._told.append((channel, data))
        self.held_bytes += len(data)
        if len(self._told) > 1000:
            self.held_bytes -= len(self._told.popleft()[1])
            self.dropped += 1

    def add_plume(self, plume: Plume, scene: int, number: int, block: int) -> None:
        """A plume; its weight is the sum of its pixels' probabilities, so that the surest and largest go first."""
        try:
            data = encode_plume(plume, scene, number % 65536, block)
        except PacketError:
            self.dropped += 1  # a plume that no packet can hold: the stream goes on
            return
        heapq.heappush(self._plumes, (-plume.confidence * plume.area_px, next(self._numbers), data))
        self.held_bytes += len(data)
        self._keep_within()

    def add_block(self, block: RawBlock) -> None:
        """A raw block, to be sent when no plume waits."""
        size = sum(8 * len(line.step) + line.counts.nbytes for line in block.lines)
        if size == 0:
            return
        heapq.heappush(self._blocks, (-block.weight, next(self._numbers), block, size))
        self.held_bytes += size
        self._keep_within()

    def take(self, budget_bytes: int) -> Iterator[bytes]:
        """Packets of together at most so many bytes, the most important first."""
        while True:
            size = self._next_size()
            if size is None or size > budget_bytes:
                return
            packet = self._next()
            budget_bytes -= len(packet)
            self.sent_bytes += len(packet)
            yield packet

    def unsent(self) -> dict[str, int]:
        """How many things wait, by kind; a raw block of which some parts were sent is one of them."""
        return {
            "health and answers": len(self._told),
            "plumes": len(self._plumes),
            "raw blocks": len(self._blocks) + (self._under_way is not None),
        }

    def _next_size(self) -> int | None:
        """An upper bound of the next packet's size, found without taking it out."""
        if self._told:
            return len(self._told[0][1]) + OVERHEAD_BYTES
        if self._plumes:
            return len(self._plumes[0][2]) + OVERHEAD_BYTES
        if self._ready is None:
            self._ready = self._next_part()
        return None if self._ready is None else len(self._ready)

    def _next(self) -> bytes:
        if self._told:
            channel, data = self._told.popleft()
            self.held_bytes -= len(data)
            return self._maker.make(channel, data)
        if self._plumes:
            data = heapq.heappop(self._plumes)[2]
            self.held_bytes -= len(data)
            return self._maker.make(Channel.PLUMES, data)
        packet, self._ready = self._ready, None
        assert packet is not None  # `_next_size` has just found it
        return packet

    def _next_part(self) -> bytes | None:
        """The next packet of the block under way, or of the weightiest that waits."""
        while True:
            if self._under_way is None:
                if not self._blocks:
                    return None
                _, _, block, size = heapq.heappop(self._blocks)
                parts = parts_of(block, self._maker.room(self._settings.packet_bytes))
                self._under_way, self._left_under_way = self._maker.make_parts(Channel.RAW, parts), size
            try:
                packet = next(self._under_way, None)
            except PacketError:  # a block whose numbers fit no header
                packet = None
                self.dropped += 1
            if packet is not None:
                return packet
            self.held_bytes -= self._left_under_way
            self._under_way, self._left_under_way = None, 0

    def _keep_within(self) -> None:
        """Drops the least weighty until the rest may be held."""
        while self.held_bytes > self._settings.held_bytes and (self._blocks or self._plumes):
            if self._blocks:
                last = max(self._blocks, key=lambda entry: entry[:2])
                self._blocks.remove(last)
                heapq.heapify(self._blocks)
                self.held_bytes -= last[3]
            else:
                least = max(self._plumes, key=lambda entry: entry[:2])
                self._plumes.remove(least)
                heapq.heapify(self._plumes)
                self.held_bytes -= len(least[2])
            self.dropped += 1
