"""Raw samples of the blocks that hold plumes, in parts that are each of use alone.

A line is kept as 16-bit numbers with an offset and a step for each band. Whole numbers up to 65,534 are kept exactly;
radiance to half of 1/65,534 of the spread of zero and its band's values in the line, far below any sensor's noise.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Real, UInt16

from flame.onboard.downlink import PacketError

__all__ = [
    "NO_SAMPLE",
    "BlockPart",
    "PackedLine",
    "RawBlock",
    "decode_part",
    "lines_of",
    "pack_line",
    "parts_of",
]

NO_SAMPLE = 65535
"""Where a sample was not finite."""

_STEPS = NO_SAMPLE - 1
_PART = struct.Struct(">BIIHHHHfIII")
_VERSION = 1
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class PackedLine:
    """One line of samples.

    Attributes:
        offset: Radiance of a sample of 0, for each band.
        step: Radiance of one count, for each band.
        counts: The samples.
    """

    offset: Float32[np.ndarray, " band"]
    step: Float32[np.ndarray, " band"]
    counts: UInt16[np.ndarray, "band col"]

    def radiance(self) -> Float32[np.ndarray, "band col"]:
        """The samples as radiance, NaN where there was none."""
        values = self.offset[:, None] + self.step[:, None] * self.counts.astype(np.float32)
        return np.where(self.counts == NO_SAMPLE, np.float32(np.nan), values).astype(np.float32)


def pack_line(radiance: Real[np.ndarray, "band col"]) -> PackedLine:
    """A line as 16-bit numbers."""
    values = radiance.astype(np.float64)
    finite = np.isfinite(values) & (np.abs(values) < 1e30)
    known = np.where(finite, values, 0.0)
    low = np.min(known, axis=1, initial=0.0)
    spread = np.max(known, axis=1, initial=0.0) - low
    # Detector counts, which are whole, stay what they are.
    whole = (spread <= _STEPS) & (known == np.rint(known)).all(axis=1)
    step = np.where(whole, 1.0, np.maximum(spread / _STEPS, 1e-30)).astype(np.float32)
    offset = low.astype(np.float32)
    counts = np.rint((known - offset[:, None]) / step[:, None].astype(np.float64)).clip(0, _STEPS)
    return PackedLine(offset, step, np.where(finite, counts, NO_SAMPLE).astype(np.uint16))


@dataclass(frozen=True, eq=False)
class RawBlock:
    """A block of the scene with plume pixels.

    Attributes:
        scene: Number of the scene or pass.
        first_row: Where it begins; with `first_col` in pixels of the stream.
        first_col: See `first_row`.
        lines: Its lines, cut to its columns.
        weight: Sum of the plume probability in it: sure and large plumes weigh most.
    """

    scene: int
    first_row: int
    first_col: int
    lines: tuple[PackedLine, ...]
    weight: float

    def content(self) -> bytes:
        """Its bytes, line after line: offsets and steps, then samples band by band."""
        return b"".join(
            np.stack([line.offset, line.step]).astype(">f4").tobytes() + line.counts.astype(">u2").tobytes()
            for line in self.lines
        )


@dataclass(frozen=True)
class BlockPart:
    """Some bytes of a block.

    Attributes:
        scene: As in `RawBlock`.
        first_row: As in `RawBlock`.
        first_col: As in `RawBlock`.
        rows: Lines of the block.
        bands: Bands.
        cols: Columns.
        weight: As in `RawBlock`.
        check: CRC-32 of the whole block's bytes.
        total: Bytes of the whole block.
        at: Where these bytes stand in it.
        data: The bytes.
    """

    scene: int
    first_row: int
    first_col: int
    rows: int
    bands: int
    cols: int
    weight: float
    check: int
    total: int
    at: int
    data: bytes


def parts_of(block: RawBlock, most_bytes: int) -> Iterator[bytes]:
    """The block in parts of at most so many bytes, in order; each says which bytes of which block it has.

    Raises:
        PacketError: If a part of that size has no room for data, or the block does not fit the header.
    """
    room = most_bytes - _PART.size
    if room < 1:
        raise PacketError(f"parts of {most_bytes} bytes have no room for data; give at least {_PART.size + 1}")
    content = block.content()
    check = zlib.crc32(content)
    bands, cols = block.lines[0].counts.shape if block.lines else (0, 0)
    numbers = (block.scene, block.first_row, block.first_col, len(block.lines), bands, cols, block.weight, check)
    for at in range(0, len(content), room):
        try:
            head = _PART.pack(_VERSION, *numbers, len(content), at)
        except struct.error as mistake:
            raise PacketError(f"the raw block at row {block.first_row} does not fit a packet: {mistake}") from None
        yield head + content[at : at + room]


def decode_part(data: bytes) -> BlockPart:
    """A part of a block.

    Raises:
        PacketError: If it is none, or says what no block can be.
    """
    if len(data) <= _PART.size:
        raise PacketError(f"a part of a raw block has more than {_PART.size} bytes, got {len(data)}")
    version, *numbers = _PART.unpack_from(data)
    if version != _VERSION:
        raise PacketError(f"raw blocks of version {version} are not known, expected {_VERSION}")
    values = (*numbers, data[_PART.size :])
    part = BlockPart(*values)
    expected = part.rows * part.bands * (8 + 2 * part.cols)
    if part.total != expected or expected > _MOST_BYTES or part.at + len(part.data) > part.total:
        raise PacketError(
            f"a raw block of {part.rows} x {part.bands} x {part.cols} has {expected} bytes; the part says "
            f"{part.total}, with {len(part.data)} of them from {part.at} on"
        )
    return part


def lines_of(content: bytes, bands: int, cols: int) -> Iterator[PackedLine]:
    """The lines in a block's bytes; see `RawBlock.content`."""
    size = bands * (8 + 2 * cols)
    for at in range(0, len(content), size):
        facts = np.frombuffer(content, ">f4", 2 * bands, at).astype(np.float32).reshape(2, bands)
        counts = np.frombuffer(content, ">u2", bands * cols, at + 8 * bands).astype(np.uint16).reshape(bands, cols)
        yield PackedLine(facts[0], facts[1], counts)
