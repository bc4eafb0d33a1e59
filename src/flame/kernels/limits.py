"""What the kernels have room for: read from `limits.h`, which the compiler reads too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "CHUNK",
    "MOST_BANDS",
    "MOST_BLUR",
    "MOST_COLUMNS",
    "MOST_HIDDEN",
    "MOST_MODES",
    "MOST_OUTPUTS",
    "MOST_REACH",
    "MOST_RESPONSES",
    "MOST_TAPS",
    "MOST_THREADS",
    "MOST_TILE",
    "MOST_WIDTH",
    "SIDE",
    "SUM_STEP",
    "TILE_STEP",
    "block_sizes",
    "packed_rows",
    "takes",
    "why_no_level",
    "why_no_network",
]

_STATED = dict(re.findall(r"#define (\w+) (\d+)", Path(__file__).with_name("limits.h").read_text()))

MOST_THREADS = int(_STATED["MOST_THREADS"])
MOST_TILE = int(_STATED["MOST_TILE"])
TILE_STEP = int(_STATED["TILE_STEP"])
MOST_BANDS = int(_STATED["MOST_BANDS"])
MOST_TAPS = int(_STATED["MOST_TAPS"])
MOST_WIDTH = int(_STATED["MOST_WIDTH"])
MOST_HIDDEN = int(_STATED["MOST_HIDDEN"])
MOST_OUTPUTS = int(_STATED["MOST_OUTPUTS"])
MOST_MODES = int(_STATED["MOST_MODES"])
MOST_REACH = int(_STATED["MOST_REACH"])
MOST_COLUMNS = int(_STATED["MOST_COLUMNS"])
MOST_RESPONSES = int(_STATED["MOST_RESPONSES"])
CHUNK = int(_STATED["CHUNK"])
SUM_STEP = int(_STATED["SUM_STEP"])
MOST_BLUR = int(_STATED["MOST_BLUR"])
SIDE = int(_STATED["SIDE"])

_UNET_STRIDE = 8


def block_sizes(channels: int) -> list[int]:
    """Fives and fours that make up a number of channels.

    Raises:
        ValueError: If they cannot: 1, 2, 3, 6, 7 and 11.
    """
    fours = -channels % 5
    if channels < 1 or 4 * fours > channels:
        raise ValueError(f"the kernels cannot divide {channels} channels into blocks of five and four")
    return [5] * ((channels - 4 * fours) // 5) + [4] * fours


def _in_blocks(channels: int) -> bool:
    return channels > 0 and 4 * (-channels % 5) <= channels


def packed_rows(rows: int) -> int:
    """The least number from `rows` on that fives and fours make up; 0 for none."""
    return next(count for count in range(rows, rows + 12) if count == 0 or _in_blocks(count))


def takes(bands: int, cols: int) -> bool:
    """Whether the kernels can prepare tiles of so many bands and columns."""
    return _in_blocks(bands) and bands <= MOST_BANDS and cols <= MOST_TILE


def why_no_level(channels: int) -> str | None:
    """Why the kernels cannot run a coarser level of so many channels; None if they can."""
    if not _in_blocks(channels):
        return f"{channels} channels cannot be divided into blocks of five and four"
    if channels > MOST_WIDTH or 9 * channels > MOST_TAPS:
        return f"{channels} channels are more than the kernels take"
    return None


def why_no_network(
    *, tile: int, grid: int, bands: int, fields: int, width: int, hidden: int, last: int, modes: int
) -> str | None:
    """What of a network's sizes the kernels have no room for; None if they can run it.

    Args:
        tile: Side of its tile, in pixels.
        grid: Pixels to a step of the operator's grid, 1 or 2.
        bands: Bands of the spectra.
        fields: Pixel fields beside them.
        width: Feature channels.
        hidden: Channels after the first convolution of the segmentation head.
        last: Channels after its second.
        modes: Fourier modes.
    """

    def reasons() -> Iterator[str]:
        for what, value, most in (
            ("pixels a side", tile, MOST_TILE),
            ("bands", bands, MOST_BANDS),
            ("bands and pixel fields", bands + fields, MOST_TAPS),
            ("features", width, MOST_WIDTH),
            ("hidden channels", hidden, MOST_HIDDEN),
            ("last channels", last, MOST_HIDDEN),
            ("Fourier modes", modes, MOST_MODES),
        ):
            if not 1 <= value <= most:
                yield f"{value} {what}; the kernels have room for 1 to {most}"
        for what, value in (
            ("bands", bands),
            ("features", width),
            ("hidden channels", hidden),
            ("last channels", last),
        ):
            if not _in_blocks(value):
                yield f"{value} {what} cannot be divided into blocks of five and four"
        if tile % TILE_STEP or tile % (grid * _UNET_STRIDE):
            yield f"tiles of {tile} pixels a side; the kernels take multiples of {TILE_STEP}"
        if tile // grid < 2 * modes:
            yield f"{modes} Fourier modes on a grid of {tile // grid} steps; it must have twice as many"

    return next(reasons(), None)
