"""PRISMA L1 (HDF-EOS5): coregistered VNIR and SWIR cubes, in counts, in the sensor's grid.

The cubes are stored (across track, band, along track), across track from the last detector column to the first: here
they become lines and columns in the order of the detector, so that smile, which is told a column, fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt16

from flame.io.assemble import Cube, scene_of_hdf5, stacked
from flame.io.errors import ReaderError
from flame.io.glt import swath_geo
from flame.io.hdf5 import Hdf5File, holds
from flame.io.hdf5_cube import StoredCube
from flame.io.names import acquisition_time, time_of_text
from flame.io.options import OpenOptions
from flame.io.radiance_unit import scale_to_radiance
from flame.physics import ColumnBands
from flame.scene import Acquisition, SceneFile, SceneFlag

__all__ = ["LOOKS_LIKE", "is_prisma", "open_prisma"]

LOOKS_LIKE = "a PRISMA L1 product, PRS_L1_....he5"

UNIT = "W m-2 um-1 sr-1"
_SWATH = "HDFEOS/SWATHS/PRS_L1_HCO"
_FIELDS = f"{_SWATH}/Data Fields"
_GEO = f"{_SWATH}/Geolocation Fields"
_AXES = (1, 2, 0)
_SATURATED, _NO_RADIANCE, _DEFECTIVE = 2, 4, 1
_KDP_TOLERANCE_NM = 3.0


def is_prisma(path: Path) -> bool:
    """Whether a file is a PRISMA product of any level."""
    return holds(path, lambda file: any(name.startswith("PRS_L") for name in file.names("HDFEOS/SWATHS")))


def open_prisma(path: Path | str, options: OpenOptions | None = None) -> SceneFile:
    """Opens a product.

    Raises:
        ReaderError: If it is damaged, or of another level than 1.
    """
    return scene_of_hdf5(Path(path), options or OpenOptions(), _cube)


def _cube(path: Path, file: Hdf5File, options: OpenOptions) -> Cube:
    if not file.has(f"{_FIELDS}/SWIR_Cube"):
        raise ReaderError(path, "is a PRISMA product of another level than 1", "give the L1 product, PRS_L1_....he5")
    swir = _Part(path, file, "Swir")
    parts = [_Part(path, file, "Vnir"), swir] if file.has(f"{_FIELDS}/VNIR_Cube") else [swir]
    shape = (swir.stored.shape[1], swir.stored.shape[2])
    if any(part.stored.shape[1:] != shape for part in parts):
        raise ReaderError(path, "its VNIR and SWIR cubes are of different size", "download it again")
    scale, notes = scale_to_radiance(path, (), options, by_product=UNIT)
    sun = file.number("Sun_zenith_angle")
    latitude = _map_layer(file.array(f"{_GEO}/Latitude_SWIR", 2), path, shape).astype(np.float64)
    longitude = _map_layer(file.array(f"{_GEO}/Longitude_SWIR", 2), path, shape).astype(np.float64)
    latitude[~(np.abs(latitude) <= 90)] = np.nan
    longitude[~(np.abs(longitude) <= 360)] = np.nan
    geo, geo_notes = swath_geo(None, latitude, longitude, "location arrays (known to be off by hundreds of metres)")
    masks = _Masks(path, file, shape, parts)
    return Cube(
        path=path,
        shape=shape,
        centres_nm=np.concatenate([part.centres_nm for part in parts]),
        read=stacked([(part.count, part.stored.read) for part in parts]),
        scale=scale,
        fwhm_nm=np.concatenate([part.fwhm_nm for part in parts]),
        gain=np.concatenate([np.full(part.count, 1.0 / part.factor) for part in parts]),
        offset=np.concatenate([np.full(part.count, -part.offset) for part in parts]),
        saturated_at=65535.0,
        flags=masks.flags,
        known=masks.known,
        geo=geo,
        smile=_smile(parts, shape[1]),
        acquisition=Acquisition(
            "prisma",
            time_of_text(file.text("Product_StartTime")) or acquisition_time(path.name),
            sun if sun is not None and 0 <= sun <= 90 else None,
            None,
            str(path),
            notes | geo_notes,
        ),
        close=file.close,
    )


class _Part:
    """One of the two spectrometers."""

    def __init__(self, path: Path, file: Hdf5File, name: str) -> None:
        self.name = name
        self.stored = StoredCube(path, file.dataset(f"{_FIELDS}/{name.upper()}_Cube", 3), _AXES, mirrored=True)
        self.count = self.stored.shape[0]
        centres, widths = (file.numbers(f"List_{what}_{name}") for what in ("Cw", "Fwhm"))
        if centres is None or widths is None or centres.size != self.count or widths.size != self.count:
            raise ReaderError(
                path, f"does not list the wavelengths of its {self.count} {name} bands", "download it again"
            )
        used = (centres > 0) & (widths > 0)
        marks = file.numbers(f"List_Cw_{name}_Flags")
        if marks is not None and marks.size == self.count:
            used &= marks > 0
        self.centres_nm = np.where(used, centres, np.nan)
        self.fwhm_nm = np.where(used, widths, np.nan)
        factor, offset = file.number(f"ScaleFactor_{name}"), file.number(f"Offset_{name}")
        if factor is None or offset is None or factor <= 0:
            raise ReaderError(
                path, f"lacks ScaleFactor_{name} or Offset_{name}", "give the product as it was delivered"
            )
        self.factor, self.offset = factor, offset
        self.smile = self._smile(file)

    def _smile(self, file: Hdf5File) -> tuple[np.ndarray, np.ndarray] | None:
        """Centre and width (band, column) from the key data; its rows hold more elements than the cube has bands."""
        names = [f"KDP_AUX/{what}_{self.name}_Matrix" for what in ("Cw", "Fwhm")]
        if not all(file.has(name) for name in names):
            return None
        centres, widths = (file.array(name, 2).astype(np.float64) for name in names)
        cols = self.stored.shape[2]
        if centres.shape != widths.shape or centres.shape[0] != cols or centres.shape[1] < self.count:
            return None
        middle = np.median(centres, axis=0)
        used = np.isfinite(self.centres_nm)
        best, at = np.inf, 0
        for start in range(centres.shape[1] - self.count + 1):
            off = np.abs(middle[start : start + self.count][used] - self.centres_nm[used]).max(initial=0.0)
            if off < best:
                best, at = off, start
        if best > _KDP_TOLERANCE_NM:
            return None
        part = slice(at, at + self.count)
        return centres[:, part].T, widths[:, part].T


def _smile(parts: Sequence[_Part], cols: int) -> ColumnBands | None:
    swir = parts[-1].smile
    if swir is None:
        return None
    centres, widths = [], []
    for part in parts:
        flat = np.ones((part.count, cols))
        c, w = part.smile if part.smile is not None else (part.centres_nm[:, None] * flat, part.fwhm_nm[:, None] * flat)
        # Bands that are not used have no wavelength; they are never chosen, and any finite number will do.
        bad = ~((c > 0) & (w > 0)).all(axis=1) | ~np.isfinite(part.centres_nm)
        centres.append(np.where(bad[:, None], 1.0, c))
        widths.append(np.where(bad[:, None], 1.0, w))
    return ColumnBands(np.concatenate(centres), np.concatenate(widths))


def _map_layer(layer: np.ndarray, path: Path, shape: tuple[int, int]) -> np.ndarray:
    """A layer stored (across, along) as lines and columns."""
    turned = layer.T[:, ::-1]
    if turned.shape != shape:
        raise ReaderError(path, f"a layer has {layer.shape} pixels, the cubes {shape[::-1]}", "download it again")
    return np.ascontiguousarray(turned)


class _Masks:
    """PRISMA's masks: cloud, land cover, sun glint, and the error of every element of the SWIR cube."""

    def __init__(self, path: Path, file: Hdf5File, shape: tuple[int, int], parts: Sequence[_Part]) -> None:
        self._first = sum(part.count for part in parts[:-1])
        self.known = SceneFlag.NONE
        self._layers: UInt16[np.ndarray, "row col"] = np.zeros(shape, dtype=np.uint16)
        for name, value, flag in (
            ("Cloud_Mask", 1, SceneFlag.CLOUD),
            ("LandCover_Mask", 0, SceneFlag.WATER),
            ("LandCover_Mask", 1, SceneFlag.SNOW),
            ("SunGlint_Mask", 1, SceneFlag.GLINT),
        ):
            if file.has(f"{_FIELDS}/{name}"):
                layer = _map_layer(file.array(f"{_FIELDS}/{name}", 2), path, shape)
                # 10 is "not classified" and 255 an error: a mask that says nothing else speaks of nothing.
                if np.isin(layer, (10, 255)).all():
                    continue
                self._layers[layer == value] |= np.uint16(int(flag))
                self.known |= flag
        name = f"{_FIELDS}/SWIR_PIXEL_SAT_ERR_MATRIX"
        self._errors = StoredCube(path, file.dataset(name, 3), _AXES, mirrored=True) if file.has(name) else None
        if self._errors is not None and self._errors.shape != parts[-1].stored.shape:
            raise ReaderError(path, "its error matrix and its SWIR cube are of different size", "download it again")

    def flags(self, rows: slice, bands: Sequence[int]) -> UInt16[np.ndarray, "row col"]:
        flags = self._layers[rows].copy()
        swir = [band - self._first for band in bands if band >= self._first]
        if self._errors is not None and swir:
            errors = self._errors.read(rows, swir)
            flags[(errors == _SATURATED).any(axis=0)] |= np.uint16(SceneFlag.SATURATED)
            faulty = np.count_nonzero((errors == _DEFECTIVE) | (errors == _NO_RADIANCE), axis=0)
            flags[(faulty > 0) & (faulty <= 2)] |= np.uint16(SceneFlag.INTERPOLATED)
            flags[faulty > 2] |= np.uint16(SceneFlag.DETECTOR)
        return flags
