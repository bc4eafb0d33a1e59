"""The loop of the flight process: lines, commands, health in time, and never more bytes than the link may carry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flame.onboard.link.flight import FlightProcess
from flame.onboard.link.line_frames import LineReader
from flame.onboard.link.ports import DatagramPort, PacketSink

__all__ = ["LoopSettings", "fly"]

_LONGEST_SAVED_S = 1.0
"""A link that was idle may catch up on so many seconds."""


@dataclass(frozen=True)
class LoopSettings:
    """How fast the loop sends and tells.

    Attributes:
        rate_bytes_s: Bytes a second that the link carries; None: no limit.
        budget_bytes: Bytes that may be sent in all; None: no limit.
        health_s: Seconds between health packets.
        listen_s: Seconds for which commands are still taken after the last line.
    """

    rate_bytes_s: int | None = None
    budget_bytes: int | None = None
    health_s: float = 10.0
    listen_s: float = 0.0


class _Link:
    """Sends within rate and budget."""

    def __init__(self, process: FlightProcess, sink: PacketSink, settings: LoopSettings) -> None:
        self._process, self._sink, self._settings = process, sink, settings
        self._saved, self._left = 0.0, settings.budget_bytes
        self._then = time.monotonic()

    def send(self, last: bool = False) -> None:
        """Sends what may be sent now; at the end all that the budget allows."""
        now = time.monotonic()
        commanded = self._process.rate_bytes_s
        rate = self._settings.rate_bytes_s if commanded is None else commanded
        may = 1 << 62
        if rate is not None and not last:
            self._saved = min(self._saved + rate * (now - self._then), max(rate * _LONGEST_SAVED_S, 65536.0))
            may = int(self._saved)
        self._then = now
        if self._left is not None:
            may = min(may, self._left)
        for packet in self._process.packets(may):
            self._sink.send(packet)
            self._saved -= len(packet) if rate is not None else 0
            if self._left is not None:
                self._left -= len(packet)


def fly(
    process: FlightProcess,
    lines: Iterable[bytes],
    sink: PacketSink,
    commands: DatagramPort | None = None,
    settings: LoopSettings | None = None,
    on_line: Callable[[], None] = lambda: None,
) -> None:
    """Runs until the lines end.

    Args:
        process: What judges lines and carries out commands.
        lines: Bytes of line frames in pieces of any size; empty ones where nothing has come.
        sink: Where packets go.
        commands: Where commands come in.
        settings: Rate and times.
        on_line: Called after each line.
    """
    settings = settings or LoopSettings()
    reader, link = LineReader(), _Link(process, sink, settings)
    told_at = time.monotonic()

    def attend(wait_s: float = 0.0) -> None:
        nonlocal told_at
        if commands is not None:
            for packet in commands.waiting(wait_s):
                process.take_packet(packet)
        elif wait_s:
            time.sleep(wait_s)
        if time.monotonic() - told_at >= settings.health_s:
            told_at = time.monotonic()
            process.tell_health()
        link.send()

    bad = 0
    for content in lines:
        for line in reader.feed(content):
            process.take_line(line)
            on_line()
            attend()
        process.note_bad_lines(reader.bad - bad)
        bad = reader.bad
        attend()
    process.end_scene()
    ends_at = time.monotonic() + settings.listen_s
    while time.monotonic() < ends_at:
        attend(min(0.05, max(ends_at - time.monotonic(), 0.0)))
    process.tell_health()
    link.send(last=True)
