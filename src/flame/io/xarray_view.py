"""Scenes for people who work with xarray, which is not needed otherwise."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from flame.errors import FlameError
from flame.physics import RADIANCE_UNIT
from flame.scene import AnyScene, flag_names
from flame.scene.flags import SceneFlag

__all__ = ["to_xarray"]


def to_xarray(scene: AnyScene) -> Any:
    """The scene as an `xarray.Dataset`: radiance (band, row, col), valid, flags, rgb, wavelengths and positions.

    The whole scene is read. A map grid becomes `x` and `y` of pixel centres with attributes `crs` and `affine`; a swath
    gets `latitude` and `longitude` (row, col).

    Raises:
        FlameError: If xarray is not installed.
    """
    try:
        xarray = import_module("xarray")
    except ImportError:
        raise FlameError("xarray is not installed; install it with: pip install xarray") from None
    loaded = scene.load()
    rows, cols = loaded.shape
    layers: dict[str, Any] = {
        "radiance": (("band", "row", "col"), loaded.radiance, {"units": RADIANCE_UNIT}),
        "valid": (("row", "col"), loaded.valid),
    }
    if loaded.rgb is not None:
        layers["rgb"] = (("colour", "row", "col"), loaded.rgb, {"units": RADIANCE_UNIT})
    if loaded.flags is not None:
        meanings = " ".join(flag_names(SceneFlag(sum(int(flag) for flag in SceneFlag))))
        masks = np.array([int(flag) for flag in SceneFlag if flag], dtype=np.uint16)
        layers["flags"] = (("row", "col"), loaded.flags, {"flag_masks": masks, "flag_meanings": meanings})
    coordinates: dict[str, Any] = {
        "wavelength": ("band", loaded.bands.centres_nm, {"units": "nm"}),
        "fwhm": ("band", loaded.bands.fwhm_nm, {"units": "nm"}),
    }
    attributes: dict[str, Any] = dict(loaded.acquisition.extra)
    for key in ("sensor", "source", "solar_zenith_deg", "view_zenith_deg"):
        if getattr(loaded.acquisition, key) is not None:
            attributes[key] = getattr(loaded.acquisition, key)
    if loaded.acquisition.time is not None:
        attributes["time"] = loaded.acquisition.time.isoformat()
    geo = loaded.geo
    if geo is not None and geo.affine is not None:
        attributes["crs"], attributes["affine"] = geo.crs, list(geo.affine)
        a, b, c, d, e, f = geo.affine
        if b == 0 and d == 0:
            coordinates["x"] = ("col", c + a * (np.arange(cols) + 0.5))
            coordinates["y"] = ("row", f + e * (np.arange(rows) + 0.5))
    elif geo is not None:
        coordinates["latitude"] = (("row", "col"), geo.latitude_deg, {"units": "degrees_north"})
        coordinates["longitude"] = (("row", "col"), geo.longitude_deg, {"units": "degrees_east"})
    return xarray.Dataset(layers, coordinates, attributes)
