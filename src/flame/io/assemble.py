"""From what a reader knows of its file to a `SceneFile`: bands chosen, units converted, every bad pixel flagged.

A reader describes its file as a `Cube` and reads stored numbers. Everything that is the same for all formats happens
here, once: which bands are read, fill values, gain and offset, the unit, and the causes found in the radiance where the
product brings no masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt16

from flame.io.band_choice import BandChoice, choose_bands
from flame.io.errors import ReaderError
from flame.io.hdf5 import Hdf5File
from flame.io.options import OpenOptions
from flame.io.validity import FILL_BELOW
from flame.physics import BandError, ColumnBands
from flame.scene import Acquisition, GeoGrid, SceneFile, SceneFlag
from flame.scene.lazy import LinesRead
from flame.scene.surface import FLARE_REACH_PX, RULE_BANDS_NM, RULE_FLAGS, surface_flags

__all__ = ["Cube", "scene_of", "scene_of_hdf5", "stacked"]

_RULE_TOLERANCE_NM = 15.0

ReadStored = Callable[[slice, Sequence[int]], Float32[np.ndarray, "band row col"]]
ReadFlags = Callable[[slice, Sequence[int]], UInt16[np.ndarray, "row col"]]


@dataclass(frozen=True, eq=False)
class Cube:
    """What a reader has found out about its file before any pixel is read.

    Attributes:
        path: What to name in messages.
        shape: Rows and columns.
        centres_nm: Centre of every stored band, in the file's order; NaN for bands that are none.
        read: Reads lines in some bands, as stored, in float32; bands by their place in the file.
        scale: Factor from the file's radiance to `RADIANCE_UNIT`.
        fwhm_nm: Width of every band; None if the file has none.
        good: Bands that the file does not call bad.
        gain: Radiance of one stored unit, for every band; None for 1.
        offset: Radiance of a stored zero, for every band; None for 0.
        fill: Stored values that mean no measurement.
        saturated_at: Stored value from which on the detector is saturated.
        flags: The product's own causes for lines, given the places of the bands that are read; None if it has none.
        known: Causes that the product's masks speak of: they are not looked for in the radiance.
        find_surface: False if the radiance is no physical one, so that tests on it mean nothing.
        geo: Where the pixels are.
        smile: Centre and width of every band in every column.
        acquisition: When and how it was taken.
        close: Frees the file.
    """

    path: Path
    shape: tuple[int, int]
    centres_nm: Float[np.ndarray, " band"]
    read: ReadStored
    scale: float
    fwhm_nm: Float[np.ndarray, " band"] | None = None
    good: Bool[np.ndarray, " band"] | None = None
    gain: Float[np.ndarray, " band"] | None = None
    offset: Float[np.ndarray, " band"] | None = None
    fill: tuple[float, ...] = ()
    saturated_at: float | None = None
    flags: ReadFlags | None = None
    known: SceneFlag = SceneFlag.NONE
    find_surface: bool = True
    geo: GeoGrid | None = None
    smile: ColumnBands | None = None
    acquisition: Acquisition = field(default_factory=Acquisition)
    close: Callable[[], None] | None = None


def stacked(parts: Sequence[tuple[int, ReadStored]]) -> ReadStored:
    """Several images of the same pixels as one, their bands counted through: (bands, read) of each."""

    def read(rows: slice, bands: Sequence[int]) -> Float32[np.ndarray, "band row col"]:
        pieces: list[tuple[list[int], Float32[np.ndarray, "band row col"]]] = []
        first = 0
        for count, read_part in parts:
            inside = [(at, band - first) for at, band in enumerate(bands) if first <= band < first + count]
            if inside:
                pieces.append(([at for at, _ in inside], read_part(rows, [band for _, band in inside])))
            first += count
        if len(pieces) == 1:
            return pieces[0][1]
        out = np.empty((len(bands), *pieces[0][1].shape[1:]), dtype=np.float32)
        for places, piece in pieces:
            out[places] = piece
        return out

    return read


def scene_of(cube: Cube, options: OpenOptions) -> SceneFile:
    """Opens a described file as a scene.

    Raises:
        ReaderError: If it has no usable band in the window.
    """
    choice = choose_bands(cube.path, cube.centres_nm, cube.fwhm_nm, cube.good, options.window_nm)
    for name, values in (("gain", cube.gain), ("offset", cube.offset)):
        if values is not None and not np.isfinite(values[choice.index]).all():
            raise ReaderError(cube.path, f"a band's {name} is not a number", "give the product as it was delivered")
    reader = _LineReader(cube, choice, options)
    extra = choice.notes | cube.acquisition.extra
    return SceneFile(
        choice.bands,
        cube.shape,
        reader.read,
        replace(cube.acquisition, extra=extra),
        has_rgb=choice.rgb is not None,
        geo=cube.geo,
        smile=_smile(cube, choice),
        rule=options.mask,
        close=cube.close,
    )


def scene_of_hdf5(
    path: Path, options: OpenOptions, describe: Callable[[Path, Hdf5File, OpenOptions], Cube]
) -> SceneFile:
    """Opens an HDF5 file, lets a reader describe it, and closes it again if that fails."""
    file = Hdf5File(path)
    try:
        return scene_of(describe(path, file, options), options)
    except BaseException:
        file.close()
        raise


def _smile(cube: Cube, choice: BandChoice) -> ColumnBands | None:
    if cube.smile is None:
        return None
    try:
        return ColumnBands(cube.smile.centres_nm[choice.index], cube.smile.fwhm_nm[choice.index])
    except BandError as failure:
        raise ReaderError(cube.path, str(failure), "give the product as it was delivered") from failure


class _LineReader:
    """Reads lines of one cube for one choice of bands."""

    def __init__(self, cube: Cube, choice: BandChoice, options: OpenOptions) -> None:
        self._cube, self._choice = cube, choice
        self._wanted = RULE_FLAGS & ~cube.known if cube.find_surface and options.find_surface else SceneFlag.NONE
        bands, colours = choice.index.tolist(), list(choice.rgb or ())
        self._rules = self._rule_bands() if self._wanted else {}
        self._stored = list(dict.fromkeys([*bands, *colours, *self._rules.values()]))
        self._colours = [self._stored.index(at) for at in colours]
        ones, zeros = np.ones(len(cube.centres_nm)), np.zeros(len(cube.centres_nm))
        gain = (ones if cube.gain is None else cube.gain)[self._stored] * cube.scale
        offset = (zeros if cube.offset is None else cube.offset)[self._stored] * cube.scale
        self._gain, self._offset = gain.astype(np.float32), offset.astype(np.float32)

    def _rule_bands(self) -> dict[int, int]:
        """The file's band for each wavelength that the surface tests use."""
        cube = self._cube
        usable = np.isfinite(cube.centres_nm) if cube.good is None else np.isfinite(cube.centres_nm) & cube.good
        # 1380 nm lies in the water-vapour band, which products call bad for what they need; here it is wanted as it is.
        found = {}
        wanted = {nm for flag, bands in RULE_BANDS_NM.items() if flag in self._wanted for nm in bands}
        for nm in sorted(wanted):
            allowed = np.isfinite(cube.centres_nm) if nm == 1380 else usable
            distance = np.where(allowed, np.abs(np.nan_to_num(cube.centres_nm) - nm), np.inf)
            if distance.min() <= _RULE_TOLERANCE_NM:
                found[nm] = int(distance.argmin())
        return found

    def read(self, rows: slice) -> LinesRead:
        """Reads lines; those a flare's rim may reach into are looked at as well."""
        cube, count = self._cube, len(self._choice.bands)
        reach = FLARE_REACH_PX if SceneFlag.FLARE in self._wanted else 0
        around = slice(max(rows.start - reach, 0), min(rows.stop + reach, cube.shape[0]))
        stored = cube.read(around, self._stored)
        flags = self._flags_of_stored(stored)
        stored *= self._gain[:, None, None]
        if self._offset.any():
            stored += self._offset[:, None, None]
        fill = (flags & np.uint16(SceneFlag.FILL)) != 0
        if fill.any():
            stored[:, fill] = 0.0
        if self._wanted and self._rules:
            layers = {nm: stored[self._stored.index(at)] for nm, at in self._rules.items()}
            flags |= np.where(
                fill, np.uint16(0), surface_flags(layers, cube.acquisition.solar_zenith_deg, self._wanted)
            )
        inner = slice(rows.start - around.start, rows.stop - around.start)
        flags = np.ascontiguousarray(flags[inner])
        if cube.flags is not None:
            flags |= cube.flags(rows, self._choice.index.tolist())
        radiance = stored[:count, inner]
        return LinesRead(radiance, stored[self._colours, inner] if self._colours else None, flags)

    def _flags_of_stored(self, stored: Float32[np.ndarray, "band row col"]) -> UInt16[np.ndarray, "row col"]:
        """Fill and saturation in the bands that matter: the window's and the colours'."""
        cube, count = self._cube, len(self._choice.bands)
        empty = np.ones(stored.shape[1:], dtype=np.bool_)
        fill, full = np.zeros_like(empty), np.zeros_like(empty)
        lowest = FILL_BELOW if cube.gain is None else -np.inf
        for at, layer in enumerate(stored):
            if at >= count and at not in self._colours:
                continue
            bad = ~np.isfinite(layer) | (layer < lowest)
            for value in cube.fill:
                bad |= layer == np.float32(value)
            fill |= bad
            if at < count:
                empty &= layer == 0
                if cube.saturated_at is not None:
                    full |= layer >= np.float32(cube.saturated_at)
        flags = (fill | empty).astype(np.uint16) * np.uint16(SceneFlag.FILL)
        flags |= full.astype(np.uint16) * np.uint16(SceneFlag.SATURATED)
        np.copyto(stored, 0.0, where=~np.isfinite(stored))
        return flags
