"""The ground's side: packets decoded, doubles dropped, losses counted, everything stored as it comes."""

from __future__ import annotations

import json
import zlib
from collections import deque
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from flame.files import whole_file
from flame.onboard.downlink import PacketError, PlumePacket, decode_packet
from flame.onboard.link.channels import DEFAULT_APID, Channel, channel_of
from flame.onboard.link.health import Answer, Health, decode_answer, decode_health
from flame.onboard.link.raw_blocks import BlockPart, decode_part, lines_of
from flame.onboard.link.space_packet import COUNTS, SpacePacket, decode_space_packet

__all__ = ["GroundStation", "Received", "StoredBlock"]

_WINDOW = COUNTS // 2
"""A count that is behind by less than this is an old packet, else a new one."""


@dataclass(frozen=True, eq=False)
class StoredBlock:
    """A raw block that is whole, or as much of it as came.

    Attributes:
        name: Of its file, without ending.
        missing_bytes: What has not come yet.
        total_bytes: What it has.
    """

    name: str
    missing_bytes: int
    total_bytes: int


Received = PlumePacket | Health | Answer | StoredBlock


class _Count:
    """Which packets of one channel came."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self._first = 0
        # As many as may be told from a new round of the count.
        self._recent: deque[int] = deque(maxlen=_WINDOW)
        self._seen: set[int] = set()
        self.received = self.doubled = 0

    def take(self, count: int) -> bool:
        """Whether this packet is new."""
        full = count
        if self._newest is None:
            self._newest = self._first = count
        else:
            ahead = (count - self._newest) % COUNTS
            full = self._newest + (ahead if ahead < _WINDOW else ahead - COUNTS)
            self._newest = max(self._newest, full)
            self._first = min(self._first, full)
        if full in self._seen:
            self.doubled += 1
            return False
        if len(self._recent) == self._recent.maxlen:
            self._seen.discard(self._recent[0])
        self._recent.append(full)
        self._seen.add(full)
        self.received += 1
        return True

    @property
    def lost(self) -> int:
        """Packets between the first and the newest that have not come."""
        return 0 if self._newest is None else self._newest - self._first + 1 - self.received


class _Gathering:
    """Parts of one raw block."""

    def __init__(self, part: BlockPart) -> None:
        self.facts = part
        self.content = bytearray(part.total)
        self.have = np.zeros(part.total, dtype=np.bool_)

    def take(self, part: BlockPart) -> None:
        self.content[part.at : part.at + len(part.data)] = part.data
        self.have[part.at : part.at + len(part.data)] = True

    @property
    def missing(self) -> int:
        return int((~self.have).sum())

    def radiance(self) -> np.ndarray:
        """Band, row and column; NaN in lines of which something is missing."""
        facts = self.facts
        lines = np.stack([line.radiance() for line in lines_of(bytes(self.content), facts.bands, facts.cols)], axis=1)
        whole = self.have.reshape(facts.rows, -1).all(axis=1)
        lines[:, ~whole] = np.nan
        return lines


class GroundStation:
    """Takes packets in any order, some twice, and stores what they tell.

    Files in `out`: `packets.bin` (every new packet as it came), `plumes.jsonl`, `health.jsonl`, `answers.jsonl`, and a
    file `raw/SCENE-ROW-COLUMN.npy` for each raw block (radiance by band, row and column).

    Args:
        out: Folder for what comes.
        first_apid: First of the spacecraft's APIDs.
    """

    def __init__(self, out: Path, first_apid: int = DEFAULT_APID) -> None:
        self._out, self._first_apid = out, first_apid
        (out / "raw").mkdir(parents=True, exist_ok=True)
        self._packets: BinaryIO = (out / "packets.bin").open("ab")
        self._logs: dict[Channel, TextIO] = {
            channel: (out / f"{channel.name.lower()}.jsonl").open("a", encoding="utf-8")
            for channel in (Channel.PLUMES, Channel.HEALTH, Channel.ANSWERS)
        }
        self._counts = {channel: _Count() for channel in Channel}
        self._gathering: dict[tuple[int, int, int], _Gathering] = {}
        self.damaged = 0

    def receive(self, content: bytes) -> Received | None:
        """Takes what should be one packet; None if it is damaged, foreign or came before."""
        try:
            packet = decode_space_packet(content)
            channel = channel_of(packet, self._first_apid)
            told = self._decoded(channel, packet)
        except PacketError:
            self.damaged += 1
            return None
        if told is None or not self._counts[channel].take(packet.count):
            return None
        self._packets.write(content)
        if isinstance(told, BlockPart):
            return self._gather(told)
        self._log(channel, packet.time, told)
        return told

    def close(self) -> list[StoredBlock]:
        """Stores raw blocks of which something is missing, their lines as far as they came, and closes the files."""
        left = [self._store(name, gathering) for name, gathering in self._gathering.items()]
        self._packets.close()
        for log in self._logs.values():
            log.close()
        return left

    def summary(self) -> dict[str, dict[str, int]]:
        """Packets received, lost and doubled, by channel."""
        return {
            channel.name.lower(): {"received": count.received, "lost": count.lost, "doubled": count.doubled}
            for channel, count in self._counts.items()
            if count.received
        }

    def _decoded(self, channel: Channel, packet: SpacePacket) -> PlumePacket | Health | Answer | BlockPart | None:
        if channel is Channel.PLUMES:
            return decode_packet(packet.data)
        if channel is Channel.RAW:
            return decode_part(packet.data)
        if channel is Channel.HEALTH:
            return decode_health(packet.data)
        return decode_answer(packet.data) if channel is Channel.ANSWERS else None

    def _gather(self, part: BlockPart) -> StoredBlock | None:
        key = (part.scene, part.first_row, part.first_col)
        gathering = self._gathering.get(key)
        if gathering is None or gathering.facts.check != part.check:
            gathering = self._gathering[key] = _Gathering(part)
        gathering.take(part)
        if gathering.missing or zlib.crc32(gathering.content) != part.check:
            return None
        del self._gathering[key]
        return self._store(key, gathering)

    def _store(self, key: tuple[int, int, int], gathering: _Gathering) -> StoredBlock:
        name = "-".join(map(str, key))
        with whole_file(self._out / "raw" / f"{name}.npy") as partial:
            np.save(partial, gathering.radiance())
        return StoredBlock(name, gathering.missing, gathering.facts.total)

    def _log(self, channel: Channel, time: datetime | None, told: PlumePacket | Health | Answer) -> None:
        entries = {key: _plain(value) for key, value in asdict(told).items()}
        stamp = {} if time is None else {"time": time.isoformat(timespec="milliseconds")}
        self._logs[channel].write(json.dumps(stamp | entries) + "\n")
        self._logs[channel].flush()


def _plain(value: Any) -> Any:
    """What JSON can say."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not np.isfinite(value) else value
