"""Pushbroom lines in, detections out, with bounded delay and memory, and no exception for anything in the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Real, UInt8

from flame.detection import DecisionRule, Plume, PlumeTracker, TileGrid, plume_mask
from flame.errors import FlameError
from flame.onboard.guard import Guard
from flame.onboard.manifest import Manifest
from flame.onboard.strip import Rows, StripEngine, TileReport

__all__ = ["LineStream", "StreamBlock", "StreamError"]

_REACH = 2
"""An opening by a 3x3 cross looks two rows up and down."""


class StreamError(FlameError):
    """Lines that are no lines of this stream: another width, band count or type than it was opened for."""


@dataclass(frozen=True, eq=False)
class StreamBlock:
    """Finished lines.

    Attributes:
        first_row: Number of the first line since the stream was opened.
        probability: Plume probability, 0 where unusable.
        score_ppm_m: Methane score, 0 where unusable.
        mask: Plume pixels after threshold and opening, also those of plumes that may turn out to have no core.
        quality: `Quality` bits of each pixel.
        plumes: Plumes that ended and have a core, if the rule asks for one; their rows count from the opening of the
            stream.
        tiles: What happened to the tiles that were run for these lines.
    """

    first_row: int
    probability: Float32[np.ndarray, "row col"]
    score_ppm_m: Float32[np.ndarray, "row col"]
    mask: Bool[np.ndarray, "row col"]
    quality: UInt8[np.ndarray, "row col"]
    plumes: tuple[Plume, ...]
    tiles: tuple[TileReport, ...]


class LineStream:
    """Takes lines as they come. Made by `Detector.stream`.

    Holds one tile of lines and one of results. A line is given out at the latest when one tile of lines after it has
    arrived; a plume when it has ended, or after `max_plume_rows`. Bad lines (NaN, zero, saturated, all invalid) and
    tiles whose inference fails come out flagged with an empty mask.

    Args:
        engine: Runs rows of tiles.
        manifest: The model's facts.
        grid: How the strip is cut.
        width: Columns of a line.
        max_plume_rows: Rows after which a plume that has not ended is given out in pieces.

    Attributes:
        listener: Called with each block while the radiance of its lines is still held; see `radiance_of`.
    """

    def __init__(
        self, engine: StripEngine, manifest: Manifest, grid: TileGrid, width: int, max_plume_rows: int = 2048
    ) -> None:
        self.listener: Callable[[StreamBlock], None] | None = None
        bands = len(manifest.band_centres_nm)
        self._engine = engine
        self._rule = manifest.rule
        self._grid = grid
        self._shape = (bands, width)
        # Rings: line n stands at n modulo the tile, so they always hold the newest tile of lines.
        self._radiance = np.zeros((bands, grid.tile, width), dtype=np.float32)
        self._rgb = np.zeros((3, grid.tile, width), dtype=np.float32) if "rgb" in manifest.inputs else None
        self._valid = np.zeros((grid.tile, width), dtype=np.bool_)
        self._lines = 0
        self._index = 0
        self._context = 0
        self._tracker = PlumeTracker(max_plume_rows)
        self._carry: Rows | None = None
        self._closed = False

    @property
    def lines_in(self) -> int:
        """Lines taken so far."""
        return self._lines

    @property
    def width(self) -> int:
        """Columns of a line."""
        return self._shape[1]

    @property
    def guard(self) -> Guard | None:
        """What watches the runtime."""
        return self._engine.guard

    @property
    def rule(self) -> DecisionRule:
        """How probabilities become masks and plumes; a new one counts for lines that are not given out yet."""
        return self._rule

    @rule.setter
    def rule(self, rule: DecisionRule) -> None:
        if rule.fewest_pixels > 1:
            raise StreamError("a stream gives out pixels before a plume's end is seen: its rule can ask for no size")
        if rule.core_sigmas and not self._engine.tells_core:
            raise StreamError("a core is asked for, but this model does not tell how sure it is of gas; leave it out")
        self._rule = rule

    def push(
        self,
        radiance: Real[np.ndarray, "band line col"],
        rgb: Real[np.ndarray, "3 line col"] | None = None,
        valid: Bool[np.ndarray, "line col"] | None = None,
    ) -> list[StreamBlock]:
        """Takes some lines and returns what they finish, often nothing. Lines that are refused leave no trace.

        Args:
            radiance: Radiance in the model's bands, as whole numbers or floats; kept as float32.
            rgb: Radiance near 640, 550 and 460 nm, if the model takes it.
            valid: Pixels known to be good; all unless given. Bad values are found anyway.

        Raises:
            StreamError: If the lines lack the stream's width, bands or RGB, or it was closed.
        """
        if self._closed:
            raise StreamError("the stream was closed; open another for more lines")
        bands, width = self._shape
        _require(radiance, "radiance", (bands, None, width), "fiu")
        lines = radiance.shape[1]
        if rgb is None and self._rgb is not None:
            raise StreamError("the model takes RGB; give it with each line")
        if rgb is not None:
            _require(rgb, "RGB", (3, lines, width), "fiu")
        if valid is not None:
            _require(valid, "valid", (lines, width), "b")
        blocks: list[StreamBlock] = []
        taken = 0
        while taken < lines:
            # A full tile is run when the next line comes: only then is it known not to be the last.
            if self._lines == self._index * self._grid.step + self._grid.tile:
                blocks += self._run_tile(last=False)
            at = self._lines % self._grid.tile
            full = self._index * self._grid.step + self._grid.tile
            count = min(lines - taken, self._grid.tile - at, full - self._lines)
            source, target = slice(taken, taken + count), slice(at, at + count)
            with np.errstate(over="ignore", invalid="ignore"):  # what no float32 can hold is flagged as not finite
                self._radiance[:, target] = radiance[:, source]
                if self._rgb is not None and rgb is not None:
                    self._rgb[:, target] = rgb[:, source]
            self._valid[target] = True if valid is None else valid[source]
            self._lines += count
            taken += count
        return blocks

    def close(self) -> list[StreamBlock]:
        """Ends the stream and returns everything that was held."""
        if self._closed:
            return []
        self._closed = True
        return self._run_tile(last=True) if self._lines else []

    def _run_tile(self, last: bool) -> list[StreamBlock]:
        """Runs the tile that ends with the newest line; only on closing may it be shorter, or begin earlier."""
        span = self._grid.span(self._index, self._lines if last else None)
        held = span.stop - span.start
        order = np.arange(span.start, span.stop) % self._grid.tile
        rgb = None if self._rgb is None else self._rgb[:, order]
        finished = self._engine.tile_row(span, self._radiance[:, :held], self._valid[order], rgb, first=int(order[0]))
        self._index += 1
        block = self._decide(finished, last)
        if self.listener is not None:
            self.listener(block)
        return [block]

    def radiance_of(self, first_row: int, end_row: int) -> Float32[np.ndarray, "band row col"]:
        """A copy of lines that are still held: those of a block while the `listener` is called with it.

        Raises:
            StreamError: If some of them are not held any more, or not yet.
        """
        if not max(0, self._lines - self._grid.tile) <= first_row <= end_row <= self._lines:
            raise StreamError(f"lines {first_row} to {end_row} are not held; {self._lines} have come")
        return self._radiance[:, np.arange(first_row, end_row) % self._grid.tile]

    def _decide(self, new: Rows, last: bool) -> StreamBlock:
        """Masks the rows whose opening can be known; the last two wait for the next, and two stay as context."""
        before = self._carry
        rows = new if before is None else _joined(before, new)
        shown = 0 if before is None else self._context
        count = rows.probability.shape[0]
        end = count if last else max(shown, count - _REACH)
        mask = plume_mask(rows.probability, rows.usable, self._rule.of_pixels)
        give = slice(shown, end)
        core = self._core(rows)
        self._context = min(_REACH, end)
        self._carry = _cut(rows, end - self._context)
        plumes = self._tracker.push(
            *(mask[give], rows.probability[give], rows.score_ppm_m[give]),
            end=last,
            core=None if core is None else core[give],
        )
        return StreamBlock(
            rows.first + shown,
            rows.probability[give],
            rows.score_ppm_m[give],
            mask[give],
            rows.quality[give],
            plumes,
            new.tiles,
        )

    def _core(self, rows: Rows) -> Bool[np.ndarray, "row col"] | None:
        """Pixels that make a plume one; None if the rule asks for no core."""
        if not self._rule.core_sigmas:
            return None
        return rows.usable & (rows.more["core"] > self._rule.core_sigmas)


def _require(layer: object, name: str, shape: tuple[int | None, ...], kinds: str) -> None:
    """Refuses what is not an array of that shape (None for any length) and of numbers of those kinds."""
    if not isinstance(layer, np.ndarray):
        raise StreamError(f"{name} must be a NumPy array, got {type(layer).__name__}")
    if layer.dtype.kind not in kinds:
        raise StreamError(f"{name} must hold {'booleans' if kinds == 'b' else 'real numbers'}, got {layer.dtype}")
    fits = layer.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, layer.shape, strict=True))
    if not fits:
        wanted = " x ".join("lines" if want is None else str(want) for want in shape)
        raise StreamError(f"{name} must be {wanted} (axes band, line, column), got {' x '.join(map(str, layer.shape))}")


def _joined(above: Rows, below: Rows) -> Rows:
    return Rows(
        above.first,
        np.concatenate([above.probability, below.probability]),
        np.concatenate([above.score_ppm_m, below.score_ppm_m]),
        np.concatenate([above.usable, below.usable]),
        np.concatenate([above.quality, below.quality]),
        more={name: np.concatenate([held, below.more[name]]) for name, held in above.more.items()},
    )


def _cut(rows: Rows, start: int) -> Rows:
    """What decisions need of the rows from `start` on, copied so that the rest is freed."""
    return Rows(
        rows.first + start,
        rows.probability[start:].copy(),
        rows.score_ppm_m[start:].copy(),
        rows.usable[start:].copy(),
        rows.quality[start:].copy(),
        more={name: layer[start:].copy() for name, layer in rows.more.items() if name == "core"},
    )
