"""Real slices of EMIT's OBS and MASK products, where they are at hand: the folder named by FLAME_REFERENCE_FORMATS.

They are not part of the project. Without them these tests do not run and say so.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import rasterio.warp
from product_files import FILL

from flame.io import open_scene
from flame.physics import sensor
from flame.products.geolocate import longitude_latitude, map_grid
from flame.scene import SceneFile, SceneFlag

FOLDER = Path(
    os.environ.get("FLAME_REFERENCE_FORMATS", Path(__file__).parents[2].parent / "shared" / "reference" / "formats")
)
GRANULE = "20220827T060753_9999999_999"
MASK, OBS = (FOLDER / f"EMIT_{product}_001_{GRANULE}.nc" for product in ("L2A_MASK", "L1B_OBS"))

pytestmark = pytest.mark.skipif(
    not (MASK.is_file() and OBS.is_file()), reason=f"no real EMIT slices in {FOLDER}; set FLAME_REFERENCE_FORMATS"
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> SceneFile:
    """A radiance granule of made-up radiance around the real location arrays, table, masks and angles."""
    folder = tmp_path_factory.mktemp("emit")
    for path in (MASK, OBS):
        (folder / path.name).symlink_to(path)
    bands = sensor("emit").bands
    path = folder / f"EMIT_L1B_RAD_001_{GRANULE}.nc"
    with h5py.File(OBS) as real, h5py.File(path, "w") as file:
        real.copy("location", file)
        for name, value in real.attrs.items():
            file.attrs[name] = value
        shape = real["location/lat"].shape
        light = np.linspace(6.0, 0.5, len(bands), dtype=np.float32)
        stored = file.create_dataset("radiance", data=np.broadcast_to(light, (*shape, len(bands))), compression="gzip")
        stored.attrs["units"], stored.attrs["_FillValue"] = "uW/cm^2/SR/nm", np.array([FILL], np.float32)
        file["sensor_band_parameters/wavelengths"] = bands.centres_nm.astype(np.float32)
        file["sensor_band_parameters/fwhm"] = bands.fwhm_nm.astype(np.float32)
    opened = open_scene(path)
    assert isinstance(opened, SceneFile)
    return opened


def test_time_and_angles_are_those_of_the_slice(scene: SceneFile) -> None:
    assert scene.acquisition.time is not None
    assert scene.acquisition.time.isoformat() == "2022-08-27T06:07:53+00:00"
    with h5py.File(OBS) as real:
        sun, view = real["obs"][..., 4].mean(), real["obs"][..., 2].mean()
    assert scene.acquisition.solar_zenith_deg == pytest.approx(sun, abs=0.1)
    assert scene.acquisition.view_zenith_deg == pytest.approx(view, abs=0.2)


def test_positions_are_the_location_arrays(scene: SceneFile) -> None:
    with h5py.File(OBS) as real:
        latitude, longitude = real["location/lat"][()], real["location/lon"][()]
    rows, cols = np.array([0, 17, 199]), np.array([0, 160, 199])
    lon, lat = longitude_latitude(scene.geo, rows + 0.5, cols + 0.5)
    np.testing.assert_allclose(lat, latitude[rows, cols], atol=1e-9)
    np.testing.assert_allclose(lon, longitude[rows, cols], atol=1e-9)


def test_the_real_table_fits_the_real_positions(scene: SceneFile) -> None:
    """A pixel through the table lands where the location arrays have it, to about a cell."""
    assert scene.geo is not None
    assert scene.geo.table is not None
    assert "look_up_table" not in scene.acquisition.extra
    grid = map_grid(scene.geo)
    assert grid.source is not None
    a, b, c, d, e, f = grid.affine
    shown = np.argwhere(grid.source >= 0)
    pixel = grid.source[tuple(shown.T)]
    x = a * (shown[:, 1] + 0.5) + b * (shown[:, 0] + 0.5) + c
    y = d * (shown[:, 1] + 0.5) + e * (shown[:, 0] + 0.5) + f
    lon, lat = rasterio.warp.transform(grid.crs, "EPSG:4326", x.tolist(), y.tolist())
    off_lon = (np.array(lon) - scene.geo.longitude_deg.ravel()[pixel]) / a
    off_lat = (np.array(lat) - scene.geo.latitude_deg.ravel()[pixel]) / e
    assert np.hypot(off_lon, off_lat).max() < 1.6
    assert np.hypot(np.median(off_lon), np.median(off_lat)) < 0.5
    assert np.unique(pixel).size > 0.5 * 200 * 200


def test_the_real_masks(scene: SceneFile) -> None:
    """No cloud, cirrus or water in this slice; one column has one faulty element in the methane window."""
    with h5py.File(MASK) as real:
        marked = np.unpackbits(real["band_mask"][()], axis=-1)[..., :285]
    inside = np.flatnonzero(sensor("emit").bands.within(2122.0, 2484.0))
    columns = np.unique(np.argwhere(marked[..., inside].any(axis=-1))[:, 1])
    flags = scene.flags
    np.testing.assert_array_equal(np.unique(np.argwhere(flags & SceneFlag.INTERPOLATED)[:, 1]), columns)
    assert columns.size == 1
    others = SceneFlag.CLOUD | SceneFlag.CIRRUS | SceneFlag.WATER | SceneFlag.SATURATED | SceneFlag.DETECTOR
    assert not (flags & np.uint16(int(others))).any()
    assert "L2A_MASK" in scene.acquisition.extra["masks"]


@pytest.mark.parametrize("path", [MASK, OBS])
def test_given_alone_they_are_told_from_radiance(path: Path) -> None:
    with pytest.raises(ValueError, match=r"is an EMIT product of (mask|obs); give the radiance granule"):
        open_scene(path)
