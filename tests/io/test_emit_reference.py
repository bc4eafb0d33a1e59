"""EMIT's OBS and MASK products: angles, times, positions, table and masks are what the files themselves hold.

Each test runs on synthetic twins, and on real slices where they are at hand: in the folder that the environment
variable FLAME_REFERENCE_FORMATS names. They are not part of the project; without them those cases say so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import product_files as files
import pytest
import rasterio.warp
from product_ground import make_ground

from flame.io import open_scene
from flame.physics import sensor
from flame.products.geolocate import longitude_latitude, map_grid
from flame.scene import SceneFile, SceneFlag

BANDS = sensor("emit").bands
FOLDER = "FLAME_REFERENCE_FORMATS"


@dataclass(frozen=True, eq=False)
class Slices:
    """A granule of made-up radiance around given location arrays, table, masks and angles."""

    scene: SceneFile
    obs: Path
    mask: Path
    start: str

    def of_obs(self, name: str) -> np.ndarray:
        with h5py.File(self.obs) as file:
            return file[name][()]

    def of_mask(self, name: str) -> np.ndarray:
        with h5py.File(self.mask) as file:
            return file[name][()]


def twins(folder: Path) -> tuple[Path, Path]:
    """OBS and MASK with the ways of the real ones: angles that change, dimensions all zero, east and west swapped."""
    radiance = files.write_emit(folder, make_ground("emit", 60, 50))
    radiance.unlink()
    (obs,), (mask,) = folder.glob("*_OBS_*"), folder.glob("*_MASK_*")
    for path in (obs, mask):
        with h5py.File(path, "r+") as file:
            rows, cols = file["location/lat"].shape
            for name, count in (("downtrack", rows), ("crosstrack", cols), ("bands", 11)):
                file[name] = np.zeros(count, np.float32)
            file.attrs["easternmost_longitude"] = np.array([file["location/lon"][()].min()])
            file.attrs["westernmost_longitude"] = np.array([file["location/lon"][()].max()])
            if path == obs:
                across = np.linspace(0, 0.3, cols)
                file["obs"][..., 2] = 9.0 + across
                file["obs"][..., 4] = 35.6 + across + np.linspace(0, 0.2, rows)[:, None]
    return obs, mask


def real() -> tuple[Path, Path]:
    folder = os.environ.get(FOLDER)
    if not folder:
        pytest.skip(f"no real EMIT slices: {FOLDER} names no folder")
    (obs,), (mask,) = Path(folder).glob("EMIT_L1B_OBS_*.nc"), Path(folder).glob("EMIT_L2A_MASK_*.nc")
    return obs, mask


@pytest.fixture(scope="module", params=["twin", "real"])
def slices(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Slices:
    folder = tmp_path_factory.mktemp("emit")
    obs, mask = twins(folder) if request.param == "twin" else real()
    for path in (obs, mask):
        if path.parent != folder:
            (folder / path.name).symlink_to(path)
    path = folder / obs.name.replace("_OBS_", "_RAD_")
    with h5py.File(obs) as given, h5py.File(path, "w") as file:
        given.copy("location", file)
        for name, value in given.attrs.items():
            file.attrs[name] = value
        shape = given["location/lat"].shape
        light = np.linspace(6.0, 0.5, len(BANDS), dtype=np.float32)
        stored = file.create_dataset("radiance", data=np.broadcast_to(light, (*shape, len(BANDS))), compression="gzip")
        stored.attrs["units"], stored.attrs["_FillValue"] = "uW/cm^2/SR/nm", np.array([files.FILL], np.float32)
        file["sensor_band_parameters/wavelengths"] = BANDS.centres_nm.astype(np.float32)
        file["sensor_band_parameters/fwhm"] = BANDS.fwhm_nm.astype(np.float32)
    opened = open_scene(path)
    assert isinstance(opened, SceneFile)
    start = "2023-06-14T09:41:07+00:00" if request.param == "twin" else "2022-08-27T06:07:53+00:00"
    return Slices(opened, obs, mask, start)


def test_time_and_angles(slices: Slices) -> None:
    seen, angles = slices.scene.acquisition, slices.of_obs("obs")
    assert seen.time is not None
    assert seen.time.isoformat() == slices.start
    assert seen.solar_zenith_deg == pytest.approx(angles[..., 4].mean(), abs=0.1)
    assert seen.view_zenith_deg == pytest.approx(angles[..., 2].mean(), abs=0.2)


def test_positions_are_the_location_arrays(slices: Slices) -> None:
    latitude, longitude = slices.of_obs("location/lat"), slices.of_obs("location/lon")
    rows, cols = (axis.ravel() for axis in np.indices(latitude.shape))
    lon, lat = longitude_latitude(slices.scene.geo, rows + 0.5, cols + 0.5)
    np.testing.assert_allclose(lat, latitude.ravel(), atol=1e-9)
    np.testing.assert_allclose(lon, longitude.ravel(), atol=1e-9)


def test_the_table_fits_the_positions(slices: Slices) -> None:
    """A pixel through the table lands where the location arrays have it, to about a cell."""
    geo = slices.scene.geo
    assert geo is not None
    assert geo.table is not None
    assert "look_up_table" not in slices.scene.acquisition.extra
    grid = map_grid(geo)
    assert grid.source is not None
    a, b, c, d, e, f = grid.affine
    shown = np.argwhere(grid.source >= 0)
    pixel = grid.source[tuple(shown.T)]
    x = a * (shown[:, 1] + 0.5) + b * (shown[:, 0] + 0.5) + c
    y = d * (shown[:, 1] + 0.5) + e * (shown[:, 0] + 0.5) + f
    lon, lat = rasterio.warp.transform(grid.crs, "EPSG:4326", x.tolist(), y.tolist())
    off_lon = (np.array(lon) - geo.longitude_deg.ravel()[pixel]) / a
    off_lat = (np.array(lat) - geo.latitude_deg.ravel()[pixel]) / e
    assert np.hypot(off_lon, off_lat).max() < 1.6
    assert np.hypot(np.median(off_lon), np.median(off_lat)) < 0.5
    assert np.unique(pixel).size > 0.5 * geo.latitude_deg.size


def test_the_masks(slices: Slices) -> None:
    """Every bit as the file's own layers have it; a band marked down a whole column is a faulty element."""
    layers = slices.of_mask("mask") > 0.5
    inside = np.flatnonzero(BANDS.within(2122.0, 2484.0))
    marked = np.unpackbits(slices.of_mask("band_mask"), axis=-1)[..., inside].astype(bool)
    always = marked.all(axis=0)
    faulty = np.broadcast_to(np.count_nonzero(always, axis=-1), layers.shape[:2])
    expected = {
        SceneFlag.CLOUD: layers[..., 0] | layers[..., 4],
        SceneFlag.CIRRUS: layers[..., 1],
        SceneFlag.WATER: layers[..., 2],
        SceneFlag.EXCLUDED: layers[..., 3],
        SceneFlag.SATURATED: (marked & ~always).any(axis=-1),
        SceneFlag.INTERPOLATED: (faulty > 0) & (faulty <= 2),
        SceneFlag.DETECTOR: faulty > 2,
    }
    assert (faulty > 0).any(), "a slice without a faulty element tells nothing of them"
    for flag, where in expected.items():
        np.testing.assert_array_equal((slices.scene.flags & np.uint16(int(flag))) != 0, where, err_msg=flag.name)
    assert "L2A_MASK" in slices.scene.acquisition.extra["masks"]


def test_given_alone_they_are_told_from_radiance(slices: Slices) -> None:
    for path, kind in ((slices.obs, "obs"), (slices.mask, "mask")):
        with pytest.raises(ValueError, match=rf"is an EMIT product of {kind}; give the radiance granule"):
            open_scene(path)
