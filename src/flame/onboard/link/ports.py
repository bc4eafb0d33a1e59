"""Where lines come from and packets go to: files, UDP and TCP, by one word such as `udp:127.0.0.1:5600`."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from flame.errors import FlameError

__all__ = ["DatagramPort", "PacketSink", "PortError", "line_bytes", "parse_place"]

_READ_BYTES = 1 << 20
_LARGEST_DATAGRAM = 65535


class PortError(FlameError):
    """A place that is no file and no address, or that cannot be opened."""


def parse_place(place: str, kind: str) -> tuple[str, int] | None:
    """Host and port of `KIND:HOST:PORT` or `KIND:PORT` (this computer); None if it is of another kind.

    Raises:
        PortError: If it begins like an address and is none.
    """
    begin, _, rest = place.partition(":")
    if begin != kind:
        return None
    host, _, port = rest.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise PortError(f"'{place}' is no address; give {kind}:HOST:PORT, or {kind}:PORT for this computer")
    return host or "127.0.0.1", int(port)


class DatagramPort:
    """A UDP port that packets come in at.

    Args:
        place: `udp:PORT` or `udp:HOST:PORT` to listen at.
    """

    def __init__(self, place: str) -> None:
        address = parse_place(place, "udp")
        if address is None:
            raise PortError(f"'{place}': give udp:PORT or udp:HOST:PORT to listen at")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            self._socket.bind(address)
        except OSError as failure:
            self._socket.close()
            raise PortError(f"cannot listen at {place}: {failure}") from None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._socket.getsockname()
        return host, port

    def waiting(self, seconds: float = 0.0) -> Iterator[bytes]:
        """What has come; waits so long for the first."""
        while select.select([self._socket], [], [], seconds)[0]:
            yield self._socket.recvfrom(_LARGEST_DATAGRAM)[0]
            seconds = 0.0

    def send(self, content: bytes, to: tuple[str, int]) -> None:
        """Sends a packet from this port; one that cannot leave is lost like any other."""
        try:
            self._socket.sendto(content, to)
        except OSError:
            return

    def close(self) -> None:
        """Listens no more."""
        self._socket.close()


class PacketSink:
    """Where packets go: `udp:HOST:PORT`, one packet a datagram, or a file, one after another.

    Args:
        place: The address or the path.
    """

    def __init__(self, place: str) -> None:
        self._to = parse_place(place, "udp")
        self._file: BinaryIO | None = None
        if self._to is None:
            try:
                Path(place).parent.mkdir(parents=True, exist_ok=True)
                self._file = Path(place).open("ab")  # noqa: SIM115  closed by `close`
            except OSError as failure:
                words = f"cannot write packets to {place}: {failure.strerror}; give a file or udp:HOST:PORT"
                raise PortError(words) from None
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self, content: bytes) -> None:
        """Sends a packet; one that cannot leave is lost like any other."""
        if self._file is not None:
            self._file.write(content)
        elif self._to is not None:
            try:
                self._socket.sendto(content, self._to)
            except OSError:
                return

    def close(self) -> None:
        """Sends no more."""
        self._socket.close()
        if self._file is not None:
            self._file.close()


def line_bytes(place: str, seconds: float = 0.05) -> Iterator[bytes]:
    """Bytes of line frames from a file, or from whoever connects to `tcp:PORT` first, until they end.

    Empty bytes are given where nothing comes for so many seconds, so that other work can be done.
    """
    address = parse_place(place, "tcp")
    if address is None:
        with Path(place).open("rb") as file:
            while content := file.read(_READ_BYTES):
                yield content
        return
    try:
        server = socket.create_server(address)
    except OSError as failure:
        raise PortError(f"cannot listen at {place}: {failure}") from None
    with server:
        while not select.select([server], [], [], seconds)[0]:
            yield b""
        connection, _ = server.accept()
    with connection:
        while True:
            if not select.select([connection], [], [], seconds)[0]:
                yield b""
                continue
            content = connection.recv(_READ_BYTES)
            if not content:
                return
            yield content
