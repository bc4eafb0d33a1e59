"""A scene that stays in its file: lines are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from threading import RLock
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, UInt16

from flame.physics import METHANE_WINDOW_NM, BandSet, ColumnBands
from flame.scene.carrier import Acquisition, Scene, SceneRows
from flame.scene.flags import KEEPABLE, MaskRule, SceneFlag, flag_counts
from flame.scene.geo import GeoGrid, SceneError

__all__ = ["AnyScene", "LinesRead", "SceneFile"]

_BLOCK_BYTES = 64_000_000
_ALL_BRIGHT = 0.9
"""Share of pixels above which flares and saturation speak of a wrong unit and not of the scene."""


class LinesRead(NamedTuple):
    """What a reader makes of some lines of its file: radiance and colour in `RADIANCE_UNIT`, and the causes."""

    radiance: Float32[np.ndarray, "band row col"]
    rgb: Float32[np.ndarray, "3 row col"] | None
    flags: UInt16[np.ndarray, "row col"]


class SceneFile:
    """A window on a file: bands, size, place and time are known at once, radiance comes line by line.

    Memory does not grow with the radiance. Of lines that were read, only the flags and the colours for pictures are
    kept (14 bytes a pixel), so that nothing has to be read twice.

    Args:
        bands: Bands that are read, in increasing wavelength.
        shape: Rows and columns.
        read: Reads the lines of a slice with a start and a stop inside the scene.
        acquisition: When and how it was taken; `source` names the file.
        has_rgb: Whether `read` brings red, green and blue.
        geo: Where the pixels are, if known.
        smile: The bands of each column, where they differ.
        rule: Which causes make a pixel invalid.
        close: Frees the file.
    """

    def __init__(
        self,
        bands: BandSet,
        shape: tuple[int, int],
        read: Callable[[slice], LinesRead],
        acquisition: Acquisition,
        *,
        has_rgb: bool = False,
        geo: GeoGrid | None = None,
        smile: ColumnBands | None = None,
        rule: MaskRule | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.bands, self.shape, self.acquisition = bands, shape, acquisition
        self.has_rgb, self.geo, self.smile = has_rgb, geo, smile
        self.rule = rule or MaskRule()
        self._read, self._close, self._lock = read, close, RLock()
        self._flags: UInt16[np.ndarray, "row col"] = np.zeros(shape, dtype=np.uint16)
        self._colour: Float32[np.ndarray, "layer row col"] = np.zeros((3 if has_rgb else 1, *shape), dtype=np.float32)
        self._seen = np.zeros(shape[0], dtype=np.bool_)
        if geo is not None and geo.shape is not None and geo.shape != shape:
            raise SceneError(f"{self._where}: latitude and longitude must have shape {shape}, got {geo.shape}")
        if smile is not None and smile.centres_nm.shape != (len(bands), shape[1]):
            raise SceneError(f"{self._where}: smile does not tell of {len(bands)} bands in {shape[1]} columns")

    def __enter__(self) -> SceneFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _where(self) -> str:
        return self.acquisition.source or "scene"

    @property
    def block_lines(self) -> int:
        """Lines of about 64 MB."""
        return max(1, _BLOCK_BYTES // (4 * (len(self.bands) + 8) * self.shape[1]))

    def close(self) -> None:
        """Frees the file; nothing can be read afterwards."""
        if self._close is not None:
            self._close()

    def rows(self, first: int, stop: int) -> SceneRows:
        """Reads the lines from `first` up to and without `stop`."""
        if not 0 <= first < stop <= self.shape[0]:
            raise SceneError(f"{self._where}: lines {first} to {stop} are not in a scene of {self.shape[0]} lines")
        with self._lock:
            radiance, rgb, flags = self._read(slice(first, stop))
            self._flags[first:stop] = flags
            self._colour[:, first:stop] = radiance[:1] if rgb is None else rgb
            self._seen[first:stop] = True
        return SceneRows(radiance, self.rule.valid(flags), rgb, flags)

    def blocks(self, lines: int | None = None) -> Iterator[SceneRows]:
        """All lines from top to bottom, so many at a time; about 64 MB of them unless told."""
        step = lines or self.block_lines
        for first in range(0, self.shape[0], step):
            yield self.rows(first, min(first + step, self.shape[0]))

    def _see_all(self) -> None:
        """Reads what has not been read yet, for the layers that are kept."""
        step = self.block_lines
        for first in range(0, self.shape[0], step):
            stop = min(first + step, self.shape[0])
            if not self._seen[first:stop].all():
                self.rows(first, stop)

    @property
    def flags(self) -> UInt16[np.ndarray, "row col"]:
        """Why pixels are doubtful, of the whole scene."""
        self._see_all()
        return self._flags

    @property
    def valid(self) -> Bool[np.ndarray, "row col"]:
        """Pixels that may be used, of the whole scene."""
        return self.rule.valid(self.flags)

    @property
    def rgb(self) -> Float32[np.ndarray, "3 row col"] | None:
        """Red, green and blue of the whole scene, if the file has them."""
        if not self.has_rgb:
            return None
        self._see_all()
        return self._colour

    def colour(self) -> Float32[np.ndarray, "3 row col"]:
        """Red, green and blue for pictures; the first band three times if the file has none."""
        self._see_all()
        return self._colour if self.has_rgb else np.repeat(self._colour, 3, axis=0)

    def methane(self) -> SceneFile:
        """The same scene, which has to be in the methane window already: readers take no other bands unless told."""
        inside = self.bands.within(*METHANE_WINDOW_NM)
        if not inside.all() or inside.sum() < 3:
            raise SceneError(
                f"{self._where}: expected at least 3 bands, all between {METHANE_WINDOW_NM[0]:.0f} and "
                f"{METHANE_WINDOW_NM[1]:.0f} nm; it has {self.bands.describe()}"
            )
        return self

    def check_usable(self) -> None:
        """Says why there is nothing to work on, if there is not.

        Raises:
            SceneError: If no pixel is usable; the message tells the causes and how to keep such pixels.
        """
        if self.valid.any():
            return
        counts = flag_counts(self.flags)
        causes = ", ".join(f"{name} {100 * count / self.flags.size:.0f} %" for name, count in counts.items())
        raise SceneError(f"{self._where}: no usable pixel ({causes}); {self._how_to_keep(counts)}")

    def _how_to_keep(self, counts: Mapping[str, int]) -> str:
        """What helps where no pixel is usable: only advice that would give some."""
        masking = [name for name in counts if KEEPABLE.get(name, SceneFlag.NONE) & self.rule.masked]
        if not MaskRule.keeping(KEEPABLE).valid(self.flags).any():
            always = " and ".join(name for name in counts if name in ("fill", "excluded"))
            return f"{always} cannot be kept: there is no measurement to use; give another scene"
        bright = max(counts.get(name, 0) for name in ("flare", "saturated")) / self.flags.size
        if bright > _ALL_BRIGHT:
            return "no ground is so bright: tell the file's unit with --unit or --scale, or give another scene"
        rules = {name: MaskRule(self.rule.masked & ~KEEPABLE[name]) for name in masking}
        helping = [name for name in masking if rules[name].valid(self.flags).any()]
        most = [max(helping, key=lambda name: counts[name])] if helping else masking
        return f"keep some with {' '.join(f'--keep-{name}' for name in most)}, or give another scene"

    def _noted(self, valid: Bool[np.ndarray, "row col"]) -> Acquisition:
        """The acquisition with a note on how many pixels are not valid."""
        missing = int(valid.size - np.count_nonzero(valid))
        extra = self.acquisition.extra | ({"invalid_pixels": str(missing)} if missing else {})
        return replace(self.acquisition, extra=extra)

    def window(self, rows: slice, cols: slice = slice(None)) -> Scene:
        """A part of the scene in memory; slices as for a list, without steps."""
        first, stop, _ = rows.indices(self.shape[0])
        left, right, _ = cols.indices(self.shape[1])
        part = self.rows(first, stop)
        across = slice(left, right)
        return Scene(
            np.ascontiguousarray(part.radiance[:, :, across]),
            self.bands,
            np.ascontiguousarray(part.valid[:, across]),
            None if part.rgb is None else np.ascontiguousarray(part.rgb[:, :, across]),
            None if self.geo is None else self.geo.window(slice(first, stop), across),
            self._noted(part.valid[:, across]),
            flags=None if part.flags is None else np.ascontiguousarray(part.flags[:, across]),
            smile=None if self.smile is None else self.smile.window(across),
        )

    def load(self) -> Scene:
        """The whole scene in memory.

        Raises:
            SceneError: If no pixel is usable.
        """
        radiance = np.empty((len(self.bands), *self.shape), dtype=np.float32)
        first = 0
        for part in self.blocks():
            stop = first + part.valid.shape[0]
            radiance[:, first:stop] = part.radiance
            first = stop
        self.check_usable()
        return Scene(
            radiance,
            self.bands,
            self.valid,
            self.rgb,
            self.geo,
            self._noted(self.valid),
            flags=self.flags,
            smile=self.smile,
        )


AnyScene: TypeAlias = Scene | SceneFile
"""A scene in memory or in its file: both have `bands`, `shape`, `geo`, `smile`, `acquisition`, `has_rgb`, `rows`,
`blocks`, `valid`, `flags`, `rgb`, `colour`, `methane` and `load`."""
