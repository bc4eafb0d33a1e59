"""The ground's side: packets decoded, doubles dropped, losses counted, everything stored once, as it comes."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from flame.files import whole_file
from flame.onboard.downlink import PacketError, PlumePacket, decode_packet
from flame.onboard.link.arrivals import Arrivals
from flame.onboard.link.channels import DEFAULT_APID, Channel, apids_of, channel_of
from flame.onboard.link.health import Answer, Health, decode_answer, decode_health
from flame.onboard.link.raw_blocks import BlockPart, decode_part, lines_of
from flame.onboard.link.space_packet import SpacePacket, decode_space_packet, split_packets

__all__ = ["GroundStation", "Received", "StoredBlock"]


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
_BlockKey = tuple[int, int, int, int]
"""Scene, first row, first column and CRC-32 of a raw block."""


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
    file `raw/SCENE-ROW-COLUMN.npy` for each raw block (radiance by band, row and column); another block of the same
    place, as of a flight that was started again, has its CRC-32 in its name too. What `packets.bin` holds already is
    known: the same packets once more are doubles, and raw blocks go on where they were.

    Args:
        out: Folder for what comes.
        first_apid: First of the spacecraft's APIDs.

    Attributes:
        damaged: Packets that could not be read.
        foreign: Packets of other processes or spacecraft.
    """

    def __init__(self, out: Path, first_apid: int = DEFAULT_APID) -> None:
        self._out, self._first_apid = out, first_apid
        (out / "raw").mkdir(parents=True, exist_ok=True)
        self._packets: BinaryIO = (out / "packets.bin").open("ab")
        self._logs: dict[Channel, TextIO] = {
            channel: (out / f"{channel.name.lower()}.jsonl").open("a", encoding="utf-8")
            for channel in (Channel.PLUMES, Channel.HEALTH, Channel.ANSWERS)
        }
        self._arrivals = {channel: Arrivals() for channel in Channel}
        self._gathering: dict[_BlockKey, _Gathering] = {}
        self._whole: set[_BlockKey] = set()
        self._checks: dict[str, int] = {}
        self.damaged = self.foreign = 0
        self._remember()

    def receive(self, content: bytes) -> Received | None:
        """Takes what should be one packet; None if it is damaged, foreign or came before."""
        try:
            packet = decode_space_packet(content)
        except PacketError:
            self.damaged += 1
            return None
        try:
            channel = channel_of(packet, self._first_apid)
        except PacketError:
            self.foreign += 1
            return None
        try:
            told = _decoded(channel, packet)
        except PacketError:
            self.damaged += 1
            return None
        if told is None or not self._arrivals[channel].take(packet.count, content, packet.time):
            return None
        stored: Received | None
        if isinstance(told, BlockPart):
            whole = self._gathered(told)
            stored = None if whole is None else self._store(whole)
        else:
            self._log(channel, packet.time, told)
            stored = told
        # Noted last: a packet that is noted here is never stored again.
        self._packets.write(content)
        self._packets.flush()
        return stored

    def close(self) -> list[StoredBlock]:
        """Stores raw blocks of which something is missing, their lines as far as they came, and closes the files."""
        left = [self._store(gathering) for gathering in self._gathering.values()]
        self._packets.close()
        for log in self._logs.values():
            log.close()
        return left

    def summary(self) -> dict[str, dict[str, int]]:
        """Packets received, lost and doubled, and restarts of the flight, by channel."""
        return {
            channel.name.lower(): {
                "received": came.received,
                "lost": came.lost,
                "doubled": came.doubled,
                "restarts": came.restarts,
            }
            for channel, came in self._arrivals.items()
            if came.received or came.doubled
        }

    def _remember(self) -> None:
        """Takes in what was stored here before."""
        apids = apids_of(self._first_apid).values()
        for content in split_packets((self._out / "packets.bin").read_bytes(), apids):
            try:
                packet = decode_space_packet(content)
                channel = channel_of(packet, self._first_apid)
                told = _decoded(channel, packet)
            except PacketError:  # not of this station's writing
                continue
            self._arrivals[channel].know(content)
            if isinstance(told, BlockPart):
                self._gathered(told)

    def _gathered(self, part: BlockPart) -> _Gathering | None:
        """The block of this part if it is whole now."""
        key = _key_of(part)
        if key in self._whole:
            return None
        gathering = self._gathering.get(key)
        if gathering is None:
            gathering = self._gathering[key] = _Gathering(part)
            self._checks.setdefault(_place_of(part), part.check)
        gathering.take(part)
        if gathering.missing or zlib.crc32(gathering.content) != part.check:
            return None
        self._whole.add(key)
        return self._gathering.pop(key)

    def _store(self, gathering: _Gathering) -> StoredBlock:
        facts = gathering.facts
        name = _place_of(facts)
        if self._checks[name] != facts.check:
            name += f"-{facts.check:08x}"
        with whole_file(self._out / "raw" / f"{name}.npy") as partial:
            np.save(partial, gathering.radiance())
        return StoredBlock(name, gathering.missing, facts.total)

    def _log(self, channel: Channel, time: datetime | None, told: PlumePacket | Health | Answer) -> None:
        entries = {key: _plain(value) for key, value in asdict(told).items()}
        stamp = {} if time is None else {"time": time.isoformat(timespec="milliseconds")}
        self._logs[channel].write(json.dumps(stamp | entries) + "\n")
        self._logs[channel].flush()


def _decoded(channel: Channel, packet: SpacePacket) -> PlumePacket | Health | Answer | BlockPart | None:
    if channel is Channel.PLUMES:
        return decode_packet(packet.data)
    if channel is Channel.RAW:
        return decode_part(packet.data)
    if channel is Channel.HEALTH:
        return decode_health(packet.data)
    return decode_answer(packet.data) if channel is Channel.ANSWERS else None


def _key_of(part: BlockPart) -> _BlockKey:
    return part.scene, part.first_row, part.first_col, part.check


def _place_of(part: BlockPart) -> str:
    return f"{part.scene}-{part.first_row}-{part.first_col}"


def _plain(value: Any) -> Any:
    """What JSON can say."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not np.isfinite(value) else value
