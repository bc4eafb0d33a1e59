"""All maps of a scene in one CF netCDF-4 file, on the scene's own pixels: nothing is moved onto a map for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from flame.files import printable, write_whole
from flame.prepare import Quality
from flame.products.layers import LAYERS, SceneMaps
from flame.scene import GeoGrid, SceneFlag

__all__ = ["write_netcdf"]

_CHUNK_PX = 256
_ROWS_AT_ONCE = 4 * _CHUNK_PX
_GRID_MAPPING = "crs"
_LATITUDE = {"standard_name": "latitude", "long_name": "latitude of the pixel's centre", "units": "degrees_north"}
_LONGITUDE = {"standard_name": "longitude", "long_name": "longitude of the pixel's centre", "units": "degrees_east"}
_SIGNED: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.bool_): np.dtype(np.int8),
    np.dtype(np.uint16): np.dtype(np.int16),
}
"""CF-1.8 knows no unsigned numbers of two bytes; no flag needs the sign's bit."""


def write_netcdf(
    path: Path, maps: SceneMaps, geo: GeoGrid | None, time: datetime | None, attributes: Mapping[str, str]
) -> None:
    """Writes the maps, compressed, a block of rows at a time.

    A scene on a map has coordinates `x` and `y` and a grid mapping; a swath has a latitude and a longitude for each
    pixel. Plain HDF5 calls make the file, so that no netCDF library has to be installed; every one reads it.

    Args:
        path: The file.
        maps: What to write.
        geo: Where the pixels are, if known.
        time: When the scene was taken, if known.
        attributes: Global attributes besides those that CF and ACDD want: title, source, history.

    Raises:
        WriteError: If it cannot be written.
    """
    import h5py

    # In memory, compressed: a full disk in the middle of a file ends HDF5 with more than an exception.
    with h5py.File(path.name, "w", "core", libver=("v108", "v110"), track_order=True, backing_store=False) as file:
        _Writer(file, maps.mask.shape).write(maps, geo, time, attributes)
        file.flush()
        image = file.id.get_file_image()
    write_whole(path, image)


class _Writer:
    """One file that is being written."""

    def __init__(self, file: Any, shape: tuple[int, int]) -> None:
        self._file, self._shape = file, shape
        self._dims: tuple[str, str] = ("row", "col")

    def write(self, maps: SceneMaps, geo: GeoGrid | None, time: datetime | None, attributes: Mapping[str, str]) -> None:
        conventions = {
            "Conventions": "CF-1.8, ACDD-1.3",
            "date_created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        for key, text in (conventions | dict(attributes)).items():
            self._file.attrs[key] = _text(text)
        shared = self._place(geo)
        if time is not None:
            self._time(time)
            shared["coordinates"] = " ".join(filter(None, [shared.get("coordinates", ""), "time"]))
        for name in maps.names:
            bands = maps.bands(name)
            names = (name, "scene_flags") if name == "quality" else (name,)
            for variable, band in zip(names, bands, strict=True):
                shown = None if name == "quality" else maps.shown(name)
                self._layer(variable, band, shown, _attributes(variable) | shared)

    def _place(self, geo: GeoGrid | None) -> dict[str, str]:
        """Writes the coordinates; returns the attributes by which variables refer to them."""
        if geo is not None and geo.affine is not None and geo.affine[1] == geo.affine[3] == 0:
            return self._grid(geo)
        for name, size in zip(self._dims, self._shape, strict=True):
            words = {"long_name": f"{'row' if name == 'row' else 'column'} of the scene", "units": "1"}
            self._dimension(name, np.arange(size, dtype=np.int32), words)
        if geo is None:
            return {}
        return self._positions(geo)

    def _positions(self, geo: GeoGrid) -> dict[str, str]:
        """A latitude and a longitude for each pixel."""
        lon, lat = _degrees(geo, self._shape)
        self._layer("lat", lat, np.isfinite(lat), _LATITUDE)
        self._layer("lon", lon, np.isfinite(lon), _LONGITUDE)
        return {"coordinates": "lat lon"}

    def _grid(self, geo: GeoGrid) -> dict[str, str]:
        """Coordinates of a map grid that is not turned, and its reference system."""
        assert geo.affine is not None
        assert geo.crs is not None
        from rasterio.crs import CRS

        a, _, c, _, e, f = geo.affine
        crs = CRS.from_user_input(geo.crs)
        rows, cols = np.arange(self._shape[0]) + 0.5, np.arange(self._shape[1]) + 0.5
        if crs.is_geographic:
            self._dims = ("lat", "lon")
            vertical, horizontal = _LATITUDE, _LONGITUDE
        else:
            self._dims = ("y", "x")
            unit = "m" if crs.linear_units == "metre" else crs.linear_units.replace(" ", "_")  # as UDUNITS writes it
            vertical = {"standard_name": "projection_y_coordinate", "units": unit}
            horizontal = {"standard_name": "projection_x_coordinate", "units": unit}
        self._dimension(self._dims[0], f + e * rows, vertical | {"axis": "Y"})
        self._dimension(self._dims[1], c + a * cols, horizontal | {"axis": "X"})
        mapping = self._file.create_dataset(_GRID_MAPPING, data=np.int32(0))
        for key, value in _grid_mapping(crs).items():
            mapping.attrs[key] = _text(value) if isinstance(value, str) else value
        mapping.attrs["GeoTransform"] = _text(f"{c!r} {a!r} 0.0 {f!r} 0.0 {e!r}")
        shared = {"grid_mapping": _GRID_MAPPING}
        return shared if crs.is_geographic else shared | self._positions(geo)

    def _time(self, time: datetime) -> None:
        seconds = time.replace(tzinfo=time.tzinfo or UTC).timestamp()
        variable = self._file.create_dataset("time", data=np.float64(seconds))
        words = {"standard_name": "time", "units": "seconds since 1970-01-01 00:00:00 UTC", "calendar": "standard"}
        for key, text in (words | {"long_name": "start of acquisition"}).items():
            variable.attrs[key] = _text(text)

    def _dimension(self, name: str, values: np.ndarray, attributes: Mapping[str, str]) -> None:
        variable = self._file.create_dataset(name, data=values)
        variable.make_scale(name)
        for key, text in attributes.items():
            variable.attrs[key] = _text(text)

    def _layer(self, name: str, values: np.ndarray, shown: np.ndarray | None, attributes: Mapping[str, Any]) -> None:
        kind = _SIGNED.get(values.dtype, values.dtype)
        chunks = tuple(min(_CHUNK_PX, side) for side in self._shape)
        missing = None if shown is None else np.array(-1 if kind == np.int8 else np.nan, kind)
        variable = self._file.create_dataset(
            name,
            self._shape,
            kind,
            chunks=chunks,
            compression="gzip",
            compression_opts=4,
            shuffle=True,
            fillvalue=missing,
        )
        for first in range(0, self._shape[0], _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            block = values[rows].astype(kind, copy=False)
            variable[rows] = block if shown is None or missing is None else np.where(shown[rows], block, missing)
        if missing is not None:
            variable.attrs["_FillValue"] = missing
        for axis, dimension in enumerate(self._dims):
            variable.dims[axis].attach_scale(self._file[dimension])
        for key, value in attributes.items():
            variable.attrs[key] = _text(value) if isinstance(value, str) else value


def _text(text: str) -> np.bytes_:
    """A netCDF text attribute: characters of a fixed length, which every library reads."""
    return np.bytes_(printable(text).encode() or b" ")


def _attributes(name: str) -> dict[str, Any]:
    """CF attributes of a variable."""
    if name == "scene_flags":
        causes = [flag for flag in SceneFlag if flag]
        words = {"long_name": "why the product doubts a pixel"}
        return words | _flag_attributes([str(c.name) for c in causes], np.array([int(c) for c in causes], np.int16))
    kind = LAYERS[name]
    words = {"long_name": kind.title, "comment": kind.about}
    if name == "quality":
        bits = [bit for bit in Quality if bit]
        named = _flag_attributes([str(b.name) for b in bits], np.array([int(b) for b in bits], np.int16))
        return {"long_name": "quality of the detection"} | named
    if name == "mask":
        return words | {"flag_values": np.array([0, 1], np.int8), "flag_meanings": "no_plume plume"}
    return words | {"units": kind.unit, "coverage_content_type": "physicalMeasurement"}


def _flag_attributes(names: list[str], masks: np.ndarray) -> dict[str, Any]:
    return {"flag_masks": masks, "flag_meanings": " ".join(name.lower() for name in names)}


def _degrees(geo: GeoGrid, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Longitude and latitude of every pixel centre."""
    if geo.longitude_deg is not None and geo.latitude_deg is not None:
        return geo.longitude_deg.astype(np.float64), geo.latitude_deg.astype(np.float64)
    from flame.products.geolocate import longitude_latitude

    lon, lat = np.empty(shape), np.empty(shape)
    cols = np.arange(shape[1]) + 0.5
    for first in range(0, shape[0], _ROWS_AT_ONCE):
        rows = np.arange(first, min(first + _ROWS_AT_ONCE, shape[0])) + 0.5
        down, across = (part.ravel() for part in np.meshgrid(rows, cols, indexing="ij"))
        east, north = longitude_latitude(geo, down, across)
        lon[first : first + rows.size], lat[first : first + rows.size] = (
            part.reshape(rows.size, cols.size) for part in (east, north)
        )
    return lon, lat


def _grid_mapping(crs: Any) -> dict[str, Any]:
    """CF attributes of a reference system; those it has no words for are left to the WKT."""
    wkt = {"crs_wkt": crs.to_wkt(), "spatial_ref": crs.to_wkt()}
    projection = crs.to_dict()
    wgs84 = {"semi_major_axis": 6_378_137.0, "inverse_flattening": 298.257_223_563}
    ellipsoid = wgs84 if projection.get("datum") == "WGS84" else {}
    if crs.is_geographic:
        return {"grid_mapping_name": "latitude_longitude", "longitude_of_prime_meridian": 0.0} | ellipsoid | wkt
    if projection.get("proj") == "utm":
        zone = int(projection["zone"])
        return (
            {
                "grid_mapping_name": "transverse_mercator",
                "longitude_of_central_meridian": 6.0 * zone - 183.0,
                "latitude_of_projection_origin": 0.0,
                "scale_factor_at_central_meridian": 0.9996,
                "false_easting": 500_000.0,
                "false_northing": 10_000_000.0 if projection.get("south") else 0.0,
            }
            | ellipsoid
            | wkt
        )
    return wkt
