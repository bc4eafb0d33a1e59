"""The health packet: how the flight process is, in 87 bytes; and the answer to a command."""

from __future__ import annotations

import math
import struct
from dataclasses import astuple, dataclass
from enum import IntEnum

from flame.onboard.downlink import PacketError

__all__ = ["Answer", "Health", "Mode", "Outcome", "decode_answer", "decode_health", "encode_answer", "encode_health"]

_VERSION = 1
_HEALTH = struct.Struct(">BdIIIIIIIIIIIIfffffBB8s")
_ANSWER = struct.Struct(">BQBB")
_MOST_WORDS = 400


class Mode(IntEnum):
    """How readily a pixel is called plume; see `flame.onboard.link.commands.threshold_of`."""

    NORMAL = 0
    SENSITIVE = 1
    SURE = 2


@dataclass(frozen=True)
class Health:
    """State of the flight process; counts are since its start.

    Attributes:
        running_s: Seconds since it was started.
        lines: Lines taken.
        bad_lines: Line frames that were damaged or of another shape.
        tiles: Tiles judged.
        flagged: Tiles that failed and whose mask was left empty.
        redone: Tiles that were done again because a check did not pass.
        corrected: Arrays of weights or constants that had changed and were restored.
        self_tests: Times the known tile was run.
        self_tests_failed: Times its answer was not the known one.
        overtime: Tiles that took longer than they may.
        accepted: Commands carried out.
        refused: Commands refused.
        dropped: Plumes and raw blocks that found no room in the queue.
        tile_ms: Time of the last tile.
        slowest_tile_ms: Longest time of a tile.
        temperature_degc: Of the hottest sensor; NaN if the computer has none.
        memory_mb: Most memory used so far.
        threshold: Probability above which a pixel is plume.
        mode: Sensitivity mode.
        healthy: 1 if the last self-test passed.
        model: First 8 bytes of the checksum of the model that runs.
    """

    running_s: float = 0.0
    lines: int = 0
    bad_lines: int = 0
    tiles: int = 0
    flagged: int = 0
    redone: int = 0
    corrected: int = 0
    self_tests: int = 0
    self_tests_failed: int = 0
    overtime: int = 0
    accepted: int = 0
    refused: int = 0
    dropped: int = 0
    tile_ms: float = 0.0
    slowest_tile_ms: float = 0.0
    temperature_degc: float = math.nan
    memory_mb: float = 0.0
    threshold: float = 0.0
    mode: Mode = Mode.NORMAL
    healthy: int = 1
    model: bytes = bytes(8)


def encode_health(health: Health) -> bytes:
    """The health packet's data; counts beyond 32 bits begin again at 0."""
    values = [value % (1 << 32) if type(value) is int else value for value in astuple(health)]
    return _HEALTH.pack(_VERSION, *values)


def decode_health(data: bytes) -> Health:
    """What a health packet tells.

    Raises:
        PacketError: If it is none.
    """
    if len(data) != _HEALTH.size or data[0] != _VERSION:
        raise PacketError(f"a health packet has {_HEALTH.size} bytes of version {_VERSION}, got {len(data)}")
    *values, mode, healthy, model = _HEALTH.unpack(data)[1:]
    if mode not in tuple(Mode):
        raise PacketError(f"sensitivity mode {mode} is not known")
    values += [Mode(mode), healthy, model]
    return Health(*values)


class Outcome(IntEnum):
    """What became of a command."""

    DONE = 0
    REFUSED = 1
    FAILED = 2


@dataclass(frozen=True)
class Answer:
    """What became of a command.

    Attributes:
        counter: The command's counter; 0 if it could not be read.
        kind: The command's kind; 255 if it could not be read.
        outcome: Carried out, refused or failed.
        reason: Why, in words, or what was done.
    """

    counter: int
    kind: int
    outcome: Outcome
    reason: str


def encode_answer(answer: Answer) -> bytes:
    """The answer packet's data; words beyond 400 bytes are cut."""
    words = answer.reason.encode()[:_MOST_WORDS]
    return _ANSWER.pack(_VERSION, answer.counter, answer.kind, answer.outcome) + words


def decode_answer(data: bytes) -> Answer:
    """What an answer packet tells.

    Raises:
        PacketError: If it is none.
    """
    if len(data) < _ANSWER.size or data[0] != _VERSION or data[_ANSWER.size - 1] not in tuple(Outcome):
        raise PacketError(f"an answer has at least {_ANSWER.size} bytes of version {_VERSION} and a known outcome")
    _, counter, kind, outcome = _ANSWER.unpack_from(data)
    return Answer(counter, kind, Outcome(outcome), data[_ANSWER.size :].decode(errors="replace"))
