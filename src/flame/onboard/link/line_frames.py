"""Lines as they come from the instrument: a small frame around each, so that one that is damaged costs itself only."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Real

from flame.onboard.downlink import PacketError
from flame.onboard.link.space_packet import crc16

__all__ = ["MAGIC", "Line", "LineReader", "encode_line"]

MAGIC = b"FL"
_FACTS = struct.Struct(">2sBBIHH")
_HEAD = struct.Struct(f"{_FACTS.format}H")
"""Facts and their own checksum, so that a wrong length is never waited for."""
_FACTS_CHECK, _CHECK = struct.Struct(">H"), struct.Struct(">I")
_VERSION = 1
_COUNTS, _COLOURED = 1, 2
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Line:
    """One line.

    Attributes:
        number: Since the instrument was switched on.
        radiance: In the model's bands.
        rgb: Near 640, 550 and 460 nm, if given.
    """

    number: int
    radiance: Float32[np.ndarray, "band col"]
    rgb: Float32[np.ndarray, "3 col"] | None = None


def encode_line(
    number: int, radiance: Real[np.ndarray, "band col"], rgb: Real[np.ndarray, "3 col"] | None = None
) -> bytes:
    """A line as bytes: 16-bit counts are sent as such, all else as float32; little-endian, band after band.

    Raises:
        PacketError: If it does not fit.
    """
    counts = radiance.dtype.kind == "u" and radiance.dtype.itemsize <= 2
    layers = radiance if rgb is None else np.concatenate([radiance, rgb])
    bands, cols = radiance.shape
    try:
        facts = _FACTS.pack(MAGIC, _VERSION, counts * _COUNTS | (rgb is not None) * _COLOURED, number, bands, cols)
    except struct.error as mistake:
        raise PacketError(f"line {number} does not fit a frame: {mistake}") from None
    body = facts + _FACTS_CHECK.pack(crc16(facts)) + layers.astype("<u2" if counts else "<f4").tobytes()
    return body + _CHECK.pack(zlib.crc32(body))


class LineReader:
    """Finds lines in bytes that arrive in pieces of any size.

    Attributes:
        bad: Frames that were damaged, by number of times the start of the next had to be looked for.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self.bad = 0
        self._lost = False

    def feed(self, content: bytes) -> Iterator[Line]:
        """Takes bytes and gives the lines that they finish."""
        self._held += content
        while True:
            start = self._held.find(MAGIC)
            if start < 0:
                start = len(self._held) - self._held.endswith(MAGIC[:1])  # which may be the beginning of a frame
            if start:
                self._note_lost()
                del self._held[:start]
            if len(self._held) < _HEAD.size:
                return
            _, version, flags, number, bands, cols, _ = _HEAD.unpack_from(self._held)
            counted, coloured = flags & _COUNTS, bool(flags & _COLOURED)
            size = (bands + 3 * coloured) * cols * (2 if counted else 4)
            whole = _HEAD.size + size + _CHECK.size
            right = not crc16(bytes(self._held[: _HEAD.size]))
            possible = right and version == _VERSION and flags <= 3 and 0 < size <= _MOST_BYTES
            if possible and len(self._held) < whole:
                return
            frame = bytes(self._held[:whole]) if possible else b""
            if not possible or _CHECK.unpack(frame[-4:])[0] != zlib.crc32(frame[:-4]):
                self._note_lost()
                del self._held[:1]
                continue
            del self._held[:whole]
            self._lost = False
            layers = np.frombuffer(frame, "<u2" if counted else "<f4", size // (2 if counted else 4), _HEAD.size)
            layers = layers.astype(np.float32).reshape(-1, cols)
            yield Line(number, layers[:bands], layers[bands:] if coloured else None)

    def _note_lost(self) -> None:
        """Counts a stretch of damage once."""
        self.bad += not self._lost
        self._lost = True
