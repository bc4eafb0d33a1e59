"""The downlink packet: one plume in a few hundred bytes, with a checksum. The layout is in docs/downlink.md."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np
from jaxtyping import Bool, Int

from flame.detection import Plume
from flame.errors import FlameError
from flame.onboard.outlines import simplified

__all__ = [
    "MAGIC",
    "VERSION",
    "DataReduction",
    "PacketError",
    "PacketFlag",
    "PlumePacket",
    "data_reduction",
    "decode_all",
    "decode_packet",
    "encode_plume",
]

MAGIC = b"FP"
VERSION = 1
_HEAD = struct.Struct(">2sBBHIHHHIHHHIffHHfffHH")
_CHECK = struct.Struct(">I")
_CONFIDENCE_STEPS = 65535


class PacketError(FlameError):
    """Bytes that are not a whole, undamaged packet."""


class PacketFlag(IntFlag):
    """Bits of a packet's flag byte."""

    CUT = 1
    """The plume was ended by the stream's memory and goes on in another packet."""
    SIMPLIFIED = 2
    """Corners, holes or smaller parts of the outline were left out."""
    WIDE = 4
    """Corners are two bytes a coordinate instead of one."""


@dataclass(frozen=True, eq=False)
class PlumePacket:
    """What a packet tells.

    Attributes:
        scene: Number of the scene or pass.
        plume: Number of the plume in it.
        block_row: Row of the raw block (see `data_reduction`) that holds the peak.
        block_col: Its column.
        flags: See `PacketFlag`.
        first_row: Bounding box with `first_col`, `rows` and `cols`.
        first_col: See `first_row`.
        rows: See `first_row`.
        cols: See `first_row`.
        area_px: Number of pixels.
        centroid_row: Mean row of the pixels' centres.
        centroid_col: Mean column.
        peak_row: Pixel with the highest score.
        peak_col: Its column.
        peak_ppm_m: Highest score.
        mean_ppm_m: Mean score.
        integrated_ppm_m_px: Sum of the score.
        confidence: Mean probability.
        outline: Corners of the outline as (row, col).
    """

    scene: int
    plume: int
    block_row: int
    block_col: int
    flags: PacketFlag
    first_row: int
    first_col: int
    rows: int
    cols: int
    area_px: int
    centroid_row: float
    centroid_col: float
    peak_row: int
    peak_col: int
    peak_ppm_m: float
    mean_ppm_m: float
    integrated_ppm_m_px: float
    confidence: float
    outline: Int[np.ndarray, "corner 2"]


def encode_plume(plume: Plume, scene: int, number: int, block: int = 512, max_corners: int = 64) -> bytes:
    """A plume as bytes.

    Args:
        plume: What to send.
        scene: Number of the scene or pass, up to 4,294,967,295.
        number: Number of the plume in it, up to 65,535.
        block: Side of the raw blocks.
        max_corners: Corners of the outline at most.

    Raises:
        PacketError: If a number does not fit its field, or is not finite.
    """
    exact = plume.polygons[0]
    corners = simplified(exact.exterior, max_corners) - np.array([plume.first_row, plume.first_col])
    rows, cols = plume.end_row - plume.first_row, plume.end_col - plume.first_col
    wide = max(rows, cols) > 255
    dropped = len(corners) < len(exact.exterior) or bool(exact.holes) or len(plume.polygons) > 1
    flags = PacketFlag.CUT * plume.cut | PacketFlag.SIMPLIFIED * dropped | PacketFlag.WIDE * wide
    shape: bytes = corners.astype(">u2" if wide else ">u1").tobytes()
    length = _HEAD.size + len(shape) + _CHECK.size
    try:
        head = _HEAD.pack(
            MAGIC,
            VERSION,
            int(flags),
            length,
            scene,
            number,
            plume.peak_row // block % 65536,
            plume.peak_col // block,
            plume.first_row,
            plume.first_col,
            rows,
            cols,
            plume.area_px,
            plume.centroid_row - plume.first_row,
            plume.centroid_col - plume.first_col,
            plume.peak_row - plume.first_row,
            plume.peak_col - plume.first_col,
            plume.peak_ppm_m,
            plume.mean_ppm_m,
            plume.integrated_ppm_m_px,
            round(min(max(plume.confidence, 0.0), 1.0) * _CONFIDENCE_STEPS),
            len(corners),
        )
    except (struct.error, OverflowError, ValueError) as mistake:
        raise PacketError(f"plume {number} of scene {scene} does not fit a packet: {mistake}") from None
    packet = head + shape + _CHECK.pack(zlib.crc32(head + shape))
    decode_packet(packet)  # what the ground would refuse is not worth sending
    return packet


def decode_packet(packet: bytes, at: int = 0) -> PlumePacket:
    """The plume in a packet; bytes after it are not looked at.

    Args:
        packet: The bytes.
        at: Where in them the packet begins.

    Raises:
        PacketError: If the bytes are too short, of another kind or version, damaged, or tell of no possible plume.
    """
    given = len(packet) - at
    if given < _HEAD.size + _CHECK.size:
        raise PacketError(f"a packet has at least {_HEAD.size + _CHECK.size} bytes, got {given}")
    fields = _HEAD.unpack_from(packet, at)
    magic, version, flag_bits, length = fields[:4]
    if magic != MAGIC:
        raise PacketError(f"not a plume packet: it begins with {magic!r}, expected {MAGIC!r}")
    if version != VERSION:
        raise PacketError(f"packet version {version} is not known, expected {VERSION}")
    count, flags = fields[-1], PacketFlag(flag_bits & 7)
    size = 2 if PacketFlag.WIDE in flags else 1
    if length != _HEAD.size + 2 * size * count + _CHECK.size or given < length:
        raise PacketError(f"the packet says {length} bytes for {count} corners, {given} were given")
    (check,) = _CHECK.unpack_from(packet, at + length - _CHECK.size)
    if check != zlib.crc32(memoryview(packet)[at : at + length - _CHECK.size]):
        raise PacketError("the packet's checksum does not fit: it was damaged on the way")
    corners = np.frombuffer(packet, ">u2" if size == 2 else ">u1", 2 * count, at + _HEAD.size).reshape(count, 2)
    scene, number, block_row, block_col, first_row, first_col, rows, cols, area = fields[4:13]
    centroid_row, centroid_col, peak_row, peak_col, peak, mean, integrated, confidence = fields[13:21]
    plume = PlumePacket(
        scene=scene,
        plume=number,
        block_row=block_row,
        block_col=block_col,
        flags=flags,
        first_row=first_row,
        first_col=first_col,
        rows=rows,
        cols=cols,
        area_px=area,
        centroid_row=first_row + centroid_row,
        centroid_col=first_col + centroid_col,
        peak_row=first_row + peak_row,
        peak_col=first_col + peak_col,
        peak_ppm_m=peak,
        mean_ppm_m=mean,
        integrated_ppm_m_px=integrated,
        confidence=confidence / _CONFIDENCE_STEPS,
        outline=corners.astype(np.int64) + np.array([first_row, first_col]),
    )
    _refuse_impossible(plume)
    return plume


def _refuse_impossible(plume: PlumePacket) -> None:
    """A right checksum proves no sender: what no plume can have is refused."""
    end = np.array([plume.first_row + plume.rows, plume.first_col + plume.cols])
    numbers = (
        plume.centroid_row,
        plume.centroid_col,
        plume.peak_ppm_m,
        plume.mean_ppm_m,
        plume.integrated_ppm_m_px,
    )
    slack = 1e-4 * (abs(plume.mean_ppm_m) + abs(plume.peak_ppm_m))  # the numbers were rounded to 4 bytes
    laws = {
        "a number that is not finite": all(map(math.isfinite, numbers)),
        "an area that its box cannot hold": 1 <= plume.area_px <= plume.rows * plume.cols,
        "an outline of fewer than three corners": len(plume.outline) >= 3,
        "an outline beyond its box": bool((plume.outline <= end).all()),
        "a peak beyond its box": plume.peak_row < end[0] and plume.peak_col < end[1],
        "a centroid beyond its box": plume.first_row <= plume.centroid_row <= end[0]
        and plume.first_col <= plume.centroid_col <= end[1],
        "a mean above its peak": plume.mean_ppm_m <= plume.peak_ppm_m + slack,
        "a sum that is not its mean times its area": abs(plume.integrated_ppm_m_px - plume.mean_ppm_m * plume.area_px)
        <= slack * plume.area_px,
    }
    broken = [words for words, holds in laws.items() if not holds]
    if broken:
        raise PacketError(f"the packet tells of no possible plume: {broken[0]}")


def decode_all(received: bytes) -> tuple[list[PlumePacket], int]:
    """Every whole packet in a stretch of bytes, and how many bytes belonged to none.

    After damage the next packet is found by its first bytes; a damaged one is never returned.
    """
    packets: list[PlumePacket] = []
    at = lost = 0
    while at < len(received):
        try:
            packets.append(decode_packet(received, at))
            at += int.from_bytes(received[at + 4 : at + 6], "big")
        except PacketError:
            start = received.find(MAGIC, at + 1)
            start = len(received) if start < 0 else start
            lost += start - at
            at = start
    return packets, lost


@dataclass(frozen=True)
class DataReduction:
    """What is sent instead of everything.

    Attributes:
        scene_bytes: The scene's bands as 16-bit samples.
        packet_bytes: Packets of all plumes.
        raw_blocks: Blocks with plume pixels, whose samples are sent too.
        block_bytes: Their samples.
    """

    scene_bytes: int
    packet_bytes: int
    raw_blocks: int
    block_bytes: int

    @property
    def packets_only(self) -> float:
        """How many times less the packets alone are."""
        return self.scene_bytes / max(self.packet_bytes, 1)

    @property
    def with_blocks(self) -> float:
        """How many times less packets and raw blocks are."""
        return self.scene_bytes / max(self.packet_bytes + self.block_bytes, 1)


def data_reduction(
    mask: Bool[np.ndarray, "row col"], packets: Sequence[bytes], bands: int, block: int = 512, sample_bytes: int = 2
) -> DataReduction:
    """What the packets save, and what they save if the raw blocks with plumes are sent as well.

    Args:
        mask: Plume mask of the scene.
        packets: From `encode_plume`.
        bands: Bands of the sensor's full samples.
        block: Side of the blocks in which the scene is kept, counted from its first pixel.
        sample_bytes: Bytes of one sample as the sensor delivers it.
    """
    rows, cols = mask.shape
    sent = pixels = 0
    for top in range(0, rows, block):
        for left in range(0, cols, block):
            part = mask[top : top + block, left : left + block]
            if part.any():
                sent += 1
                pixels += part.size
    per_pixel = bands * sample_bytes
    return DataReduction(rows * cols * per_pixel, sum(map(len, packets)), sent, pixels * per_pixel)
