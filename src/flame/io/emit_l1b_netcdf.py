"""EMIT L1B radiance at the sensor (netCDF4), with its OBS and L2A MASK files if they lie beside it.

Follows version 001 of the products (EMITL1BRAD, EMITL2ARFL user guides); see docs/formats.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt16

from flame.io.angles import mean_angle_deg, sample_lines
from flame.io.assemble import Cube, scene_of_hdf5
from flame.io.errors import ReaderError
from flame.io.glt import affine_of_geotransform, lookup_table, swath_geo
from flame.io.hdf5 import Hdf5File, holds, looking_into
from flame.io.hdf5_cube import StoredCube
from flame.io.names import acquisition_time, time_of_text
from flame.io.options import OpenOptions
from flame.io.radiance_unit import scale_to_radiance
from flame.io.raster import crs_of_text
from flame.physics import RADIANCE_UNIT
from flame.scene import Acquisition, GeoGrid, SceneFile, SceneFlag

__all__ = ["LOOKS_LIKE", "is_emit", "open_emit"]

LOOKS_LIKE = "an EMIT L1B radiance granule, EMIT_L1B_RAD_....nc"

_GRANULE = re.compile(r"EMIT_L\w\w_[A-Z]+_\w+?_(\d{8}T\d{6}_.*)\.nc", re.IGNORECASE)
_MASKS = {
    "cloud": SceneFlag.CLOUD,
    "dilated cloud": SceneFlag.CLOUD,
    "cirrus": SceneFlag.CIRRUS,
    "water": SceneFlag.WATER,
    "spacecraft": SceneFlag.EXCLUDED,
}
_SENSOR_ZENITH, _SUN_ZENITH = 2, 4
_FEW_BANDS = 2


def is_emit(path: Path) -> bool:
    """Whether a file is an EMIT product: HDF5 with EMIT's groups."""
    return holds(path, lambda file: file.has("sensor_band_parameters") and file.has("location"))


def open_emit(path: Path | str, options: OpenOptions | None = None) -> SceneFile:
    """Opens a granule.

    Raises:
        ReaderError: If it is damaged, or another EMIT product than radiance.
    """
    return scene_of_hdf5(Path(path), options or OpenOptions(), _cube)


def _cube(path: Path, file: Hdf5File, options: OpenOptions) -> Cube:
    if not file.has("radiance"):
        kind = next((name for name in ("reflectance", "obs", "mask") if file.has(name)), "something else")
        raise ReaderError(path, f"is an EMIT product of {kind}", "give the radiance granule, EMIT_L1B_RAD_....nc")
    stored = StoredCube(path, file.dataset("radiance", 3), (2, 0, 1))
    bands, rows, cols = stored.shape
    shape = (rows, cols)
    scale, notes = scale_to_radiance(path, [file.text("units", "radiance") or ""], options, by_product=RADIANCE_UNIT)
    geo, geo_notes = _geo(path, file, shape)
    sun, view = _angles(_beside(path, "L1B_OBS"))
    mask = _beside(path, "L2A_MASK")
    masks = None if mask is None else _Masks(mask, shape, bands)
    fill = file.number("_FillValue", "radiance")
    notes |= geo_notes
    notes |= {"masks": f"from {mask.name}" if mask is not None else "tests on the radiance, no L2A MASK file beside it"}
    build = file.text("software_build_version")
    if build:
        notes["software_build_version"] = build
    return Cube(
        path=path,
        shape=shape,
        centres_nm=file.array("sensor_band_parameters/wavelengths", 1, (bands,)).astype(np.float64),
        read=stored.read,
        scale=scale,
        fwhm_nm=file.array("sensor_band_parameters/fwhm", 1, (bands,)).astype(np.float64),
        good=_good(file, bands),
        fill=(-9999.0,) if fill is None else (fill, -9999.0),
        flags=None if masks is None else masks.flags,
        known=SceneFlag.NONE if masks is None else masks.known,
        geo=geo,
        acquisition=Acquisition(
            "emit",
            time_of_text(file.text("time_coverage_start")) or acquisition_time(path.name),
            sun,
            view,
            str(path),
            notes,
        ),
        close=file.close,
    )


def _good(file: Hdf5File, bands: int) -> Bool[np.ndarray, " band"] | None:
    name = "sensor_band_parameters/good_wavelengths"
    return file.array(name, 1, (bands,)) > 0 if file.has(name) else None


def _geo(path: Path, file: Hdf5File, shape: tuple[int, int]) -> tuple[GeoGrid | None, dict[str, str]]:
    latitude = file.positions("location/lat", shape, 90.0)
    longitude = file.positions("location/lon", shape, 360.0)
    table = None
    if file.has("location/glt_x") and file.has("location/glt_y"):
        affine = affine_of_geotransform(path, file.numbers("geotransform"))
        crs = crs_of_text(path, file.text("spatial_ref"))
        line, sample = file.array("location/glt_y", 2), file.array("location/glt_x", 2)
        table = lookup_table(path, crs, affine, line, sample, shape)
    return swath_geo(table, latitude, longitude, "location arrays")


def _beside(path: Path, product: str) -> Path | None:
    """Another product of the same granule in the same folder."""
    match = _GRANULE.fullmatch(path.name)
    if match is None:
        return None
    pattern = re.compile(rf"EMIT_{product}_\w+?_{re.escape(match[1])}\.nc", re.IGNORECASE)
    return next((other for other in sorted(path.parent.iterdir()) if pattern.fullmatch(other.name)), None)


def _angles(path: Path | None) -> tuple[float | None, float | None]:
    """Mean zenith angles of the sun and of the sensor, in degrees, from three lines of the OBS file."""
    if path is None:
        return None, None
    file = Hdf5File(path)
    try:
        obs = StoredCube(path, file.dataset("obs", 3), (2, 0, 1))
        bands, rows, _ = obs.shape
        if bands <= _SUN_ZENITH:
            raise ReaderError(path, f"has {bands} bands of angles, expected 11", "download it again or move it away")
        at = sample_lines(rows)
        lines = np.concatenate([obs.read(slice(r, r + 1), [_SUN_ZENITH, _SENSOR_ZENITH]) for r in at], axis=1)
    finally:
        file.close()
    return mean_angle_deg(lines[0]), mean_angle_deg(lines[1])


class _Masks:
    """The L2A MASK file: flags a pixel by name, and which bands were filled in by interpolation.

    A band that is marked in every line of a column is a faulty element of the focal plane; where it is marked in some
    lines only, the pixel was saturated.
    """

    def __init__(self, path: Path, shape: tuple[int, int], bands: int) -> None:
        self._path = path
        file = Hdf5File(path)
        with looking_into(path):
            names = [name.lower() for name in file.strings("sensor_band_parameters/mask_bands")]
        stored = StoredCube(path, file.dataset("mask", 3), (2, 0, 1))
        if stored.shape[1:] != shape or len(names) != stored.shape[0]:
            raise ReaderError(
                path,
                f"has {stored.shape[1]} x {stored.shape[2]} pixels and {len(names)} names for {stored.shape[0]} masks; "
                f"the granule has {shape[0]} x {shape[1]} pixels",
                "give the MASK file of the same granule, or move it away",
            )
        self._stored = stored
        self._bits = {
            at: flag for at, name in enumerate(names) for word, flag in _MASKS.items() if name.startswith(word)
        }
        self.known = SceneFlag.NONE
        for flag in self._bits.values():
            self.known |= flag
        self._packed: Any = None
        if file.has("band_mask"):
            self._packed = file.dataset("band_mask", 3)
            if self._packed.shape[:2] != shape or self._packed.shape[2] * 8 < bands or self._packed.dtype != np.uint8:
                raise ReaderError(path, f"its band_mask has shape {self._packed.shape}", "download it again")
            rows = shape[0]
            spread = sorted({min(rows - 1, rows * at // 8) for at in range(8)})
            with looking_into(path):
                self._always = np.bitwise_and.reduce([self._packed[row] for row in spread], axis=0)

    def flags(self, rows: slice, bands: Sequence[int]) -> UInt16[np.ndarray, "row col"]:
        layers = self._stored.read(rows, list(self._bits))
        flags = np.zeros(layers.shape[1:], dtype=np.uint16)
        for layer, flag in zip(layers, self._bits.values(), strict=True):
            flags[layer > 0.5] |= np.uint16(int(flag))
        if self._packed is not None:
            flags |= self._band_flags(rows, bands)
        return flags

    def _band_flags(self, rows: slice, bands: Sequence[int]) -> UInt16[np.ndarray, "row col"]:
        first, last = min(bands) // 8, max(bands) // 8 + 1
        with looking_into(self._path):
            packed = self._packed[rows, :, first:last]
        unpack = partial(np.unpackbits, axis=-1)
        chosen = [band - first * 8 for band in bands]
        always = self._always[:, first:last]
        faulty = np.count_nonzero(unpack(always)[:, chosen], axis=-1)
        saturated = unpack(packed & ~always)[:, :, chosen].any(axis=-1)
        flags: UInt16[np.ndarray, "row col"] = np.where(saturated, np.uint16(SceneFlag.SATURATED), np.uint16(0))
        flags[:, (faulty > 0) & (faulty <= _FEW_BANDS)] |= np.uint16(SceneFlag.INTERPOLATED)
        flags[:, faulty > _FEW_BANDS] |= np.uint16(SceneFlag.DETECTOR)
        return flags
