"""Winds from tables and grids: values, interpolation, and files that are not what they say."""

from datetime import UTC, datetime

import h5py
import numpy as np
import pytest
import rasterio
from rasterio.shutil import copy as copy_raster
from rasterio.transform import from_origin

from flame.io.wind import check_wind_file, read_wind
from flame.physics import WindError

NOON = datetime(2024, 2, 28, 12, 30, tzinfo=UTC)


def _csv(folder, text):
    path = folder / "wind.csv"
    path.write_text(text)
    return path


def test_table_between_two_times_as_vectors(tmp_path):
    path = _csv(
        tmp_path,
        "time,lat,lon,speed,from\n2024-02-28T12:00:00Z,25.0,68.0,4,270\n2024-02-28T13:00:00Z,25.0,68.0,4,180\n"
        "2024-02-28T12:30:00Z,60.0,68.0,99,0\n",
    )
    wind = read_wind(path, NOON, 68.1, 25.1)
    assert wind.from_deg == pytest.approx(225.0)
    assert wind.speed_m_s == pytest.approx(4 / np.sqrt(2))
    assert wind.source == "wind.csv"


def test_table_with_components_sigma_and_no_time(tmp_path):
    wind = read_wind(_csv(tmp_path, "Latitude,Longitude,u,v,sigma\n25,68,3,0,0.7\n"), None, 68.0, 25.0)
    assert (wind.speed_m_s, wind.from_deg, wind.error_m_s) == (3.0, 270.0, 0.7)


def test_table_with_speed_alone_has_no_direction(tmp_path):
    assert read_wind(_csv(tmp_path, "lat,lon,speed\n25,68,3\n"), NOON, 68.0, 25.0).from_deg is None


def test_geojson_over_the_date_line(tmp_path):
    path = tmp_path / "wind.geojson"
    path.write_text(
        '{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Point","coordinates":[179.9,10]},'
        '"properties":{"time":"2024-02-28T12:30:00","wind_speed":5,"wind_direction":90}}]}'
    )
    assert read_wind(path, NOON, -179.9, 10.0).from_deg == 90.0


def _era5(path, longitudes=(67.0, 67.25, 67.5, 67.75, 68.0), packed=False):
    latitudes = np.array([26.0, 25.75, 25.5, 25.25, 25.0])
    with h5py.File(path, "w") as file:
        file["valid_time"] = np.array([1709121600, 1709125200], dtype=np.int64)  # 12:00 and 13:00
        file["valid_time"].attrs["units"] = "seconds since 1970-01-01"
        file["latitude"], file["longitude"] = latitudes, np.array(longitudes)
        u = np.broadcast_to(np.arange(5.0), (2, 5, 5)) + np.array([0.0, 1.0])[:, None, None]
        for name, values in (("u10", u), ("v10", np.zeros((2, 5, 5)))):
            file[name] = np.round(values / 0.01).astype(np.int16) if packed else values.astype(np.float32)
            if packed:
                file[name].attrs["scale_factor"] = 0.01
                file[name].attrs["add_offset"] = 0.0
    return path


def _even_grid(path, speed, unit="m s**-1"):
    """The same wind from the west everywhere."""
    _era5(path)
    with h5py.File(path, "r+") as file:
        file["u10"][...] = speed
        for name in ("u10", "v10"):
            if unit is not None:
                file[name].attrs["units"] = unit
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_era5_netcdf_is_interpolated_in_place_and_time(tmp_path, packed):
    wind = read_wind(_era5(tmp_path / "era5.nc", packed=packed), NOON, 67.375, 25.5)
    assert wind.speed_m_s == pytest.approx(1.5 + 0.5)
    assert wind.from_deg == pytest.approx(270.0)
    # Nine points at two times around: speeds 1, 2, 3 and 2, 3, 4 (nearest column is the third); and half the speed.
    assert wind.sigma_m_s == pytest.approx(np.hypot(1.0, np.std([1, 2, 3, 2, 3, 4])))


@pytest.mark.parametrize(("speed", "sigma"), [(2.0, 1.0), (8.0, 1.5)])
def test_a_smooth_grid_still_has_the_error_of_a_weather_model(tmp_path, speed, sigma):
    assert read_wind(_even_grid(tmp_path / "era5.nc", speed), NOON, 67.5, 25.5).error_m_s == pytest.approx(sigma)


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("m s**-1", 1.0), ("m/s", 1.0), ("m s-1", 1.0), ("km h**-1", 1 / 3.6), ("km/h", 1 / 3.6),
        ("knots", 0.514444), ("kt", 0.514444), ("kn", 0.514444), (np.bytes_(b"m s-1"), 1.0),
    ],
)  # fmt: skip
def test_winds_are_read_in_their_unit(tmp_path, unit, factor):
    wind = read_wind(_even_grid(tmp_path / "era5.nc", 9.0, unit), NOON, 67.5, 25.5)
    assert wind.speed_m_s == pytest.approx(9.0 * factor, rel=1e-5)
    assert wind.note == ""


def test_no_unit_is_m_s_and_said_and_an_unknown_one_is_refused(tmp_path):
    for unit in (None, ""):
        wind = read_wind(_even_grid(tmp_path / "era5.nc", 9.0, unit), NOON, 67.5, 25.5)
        assert (wind.speed_m_s, "no unit" in wind.note) == (9.0, True)
    path = _even_grid(tmp_path / "era5.nc", 9.0, "furlong fortnight-1")
    for attempt in (lambda: read_wind(path, NOON, 67.5, 25.5), lambda: check_wind_file(path)):
        with pytest.raises(WindError, match=r"era5\.nc: winds in 'furlong fortnight-1'; known are"):
            attempt()


def test_era5_longitudes_from_0_to_360(tmp_path):
    path = _era5(tmp_path / "era5.nc", longitudes=(290.0, 290.25, 290.5, 290.75, 291.0))
    assert read_wind(path, NOON, -69.75, 25.5).speed_m_s == pytest.approx(1.5)


@pytest.mark.parametrize("first", [0.0, -180.0])
@pytest.mark.parametrize("longitude", [-0.5, -0.1, 0.1, 179.9, -179.9])
def test_a_grid_around_the_earth_has_no_seam(first, longitude, tmp_path):
    """ERA5's own files begin at Greenwich or at the date line; a plume may lie between the last point and the first."""
    path = tmp_path / "era5.nc"
    axis = first + np.arange(0.0, 360.0, 1.0)
    with h5py.File(path, "w") as file:
        file["valid_time"] = np.array([1709123400], dtype=np.int64)
        file["valid_time"].attrs["units"] = "seconds since 1970-01-01"
        file["latitude"], file["longitude"] = np.array([26.0, 25.0]), axis
        turned = np.cos(np.deg2rad(axis))
        file["u10"], file["v10"] = (np.broadcast_to(5.0 + values, (1, 2, 360)) for values in (turned, 0 * turned))
    wind = read_wind(path, NOON, longitude, 25.5)
    assert wind.speed_m_s == pytest.approx(np.hypot(5.0 + np.cos(np.deg2rad(longitude)), 5.0), abs=1e-3)


def test_a_plume_just_outside_the_first_point_takes_that_point(tmp_path):
    assert read_wind(_era5(tmp_path / "era5.nc"), NOON, 66.9, 25.5).speed_m_s == pytest.approx(0.5)


def test_grib_by_gdal(tmp_path):
    plain = tmp_path / "plain.tif"
    grid = {"driver": "GTiff", "height": 6, "width": 6, "count": 1, "dtype": "float64", "crs": "EPSG:4326"}
    parts = []
    for number, value in ((2, 3.0), (3, -4.0)):  # eastward, northward
        with rasterio.open(plain, "w", transform=from_origin(67.0, 27.0, 0.5, 0.5), **grid) as out:
            out.write(np.full((1, 6, 6), value))
        made = tmp_path / f"{number}.grb2"
        copy_raster(
            plain, made, driver="GRIB",
            DISCIPLINE=0, IDS="CENTER=7(US-NCEP) SUBCENTER=0 MASTER_TABLE=2 LOCAL_TABLE=1 SIGNF_REF_TIME=1(Start) "
            "REF_TIME=2024-02-28T12:00:00Z PROD_STATUS=0(Operational) TYPE=1(Forecast)",
            PDS_PDTN=0, PDS_TEMPLATE_ASSEMBLED_VALUES=f"2 {number} 2 0 96 0 0 1 0 103 0 10 255 0 0",
        )  # fmt: skip
        parts.append(made.read_bytes())
    path = tmp_path / "hrrr.grib2"
    path.write_bytes(b"".join(parts))
    wind = read_wind(path, datetime(2024, 2, 28, 12, 10, tzinfo=UTC), 68.0, 25.5)
    assert wind.speed_m_s == pytest.approx(5.0, rel=1e-3)
    assert wind.from_deg == pytest.approx(np.rad2deg(np.arctan2(-3.0, 4.0)) % 360.0, abs=0.1)
    assert wind.error_m_s == pytest.approx(1.5, rel=1e-3)  # an even field has the usual error
    assert wind.note == ""  # the file states m/s
    check_wind_file(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lat,lon,speed\n60,68,3\n", "within 100 km"),
        ("lat,lon,speed\n25,68,fast\n", "row 2: speed 'fast'"),
        ("lat,lon\n25,68\n", "neither speed nor u and v"),
        ("speed\n3\n", "no column of latitude and longitude among its columns speed; expected columns such as time,"),
        ("lat,lon,speed\n25,,3\n", "row 2: no place"),
        ("lat,lon,speed\n95,68,3\n", "row 2: latitude 95.0, longitude 68.0 is no place on Earth"),
        ("lat,lon,speed\n25,nan,3\n", "no place on Earth"),
        ("lat,lon,speed\n25,68,nan\n", "row 2: a wind of nan"),
        ('lat,lon,speed\n25,68,"4,5"\n', "speed '4,5' is no number; write a decimal point"),
        ("lat;lon;speed\n25;68;3\n", "not separated by commas"),
        ("lat,lon,speed\n", "has no row of wind"),
        ("lat,lon,speed\n25,68," + 200_000 * "4" + "\n", "no table of winds"),
        ("lat,lon,speed,time\n25,68,3,noon\n", "2024-02-28T06:30:00Z"),
        ("lat,lon,speed,time\n25,68,3,2024-02-20T00:00:00Z\n", "hours may lie between"),
        ("lat,lon,speed\n25,68,-3\n", "row 2: a wind of -3"),
        ("", "empty; expected columns such as time,latitude,longitude,speed,direction"),
        ('{"a":', "FeatureCollection"),
        ('{"features": 3}', "FeatureCollection"),
        ('{"features": [{"geometry": null}]}', "FeatureCollection"),
    ],
)
def test_broken_tables_say_what_is_wrong(tmp_path, text, words):
    with pytest.raises(WindError, match=words) as told:
        read_wind(_csv(tmp_path, text), NOON, 68.0, 25.0)
    assert str(told.value).startswith(str(tmp_path / "wind.csv"))
    if not any(scene in words for scene in ("within", "between")):  # which only a scene can tell
        with pytest.raises(WindError) as told_before:
            check_wind_file(tmp_path / "wind.csv")
        assert str(told_before.value) == str(told.value)


def test_what_a_scene_may_take_winds_from_passes_the_check(tmp_path):
    check_wind_file(_csv(tmp_path, "time,lat,lon,speed\n2024-02-28T12:00:00Z,25,68,3\n"))
    check_wind_file(_era5(tmp_path / "era5.nc"))
    (tmp_path / "era5.nc").write_text("changed")
    with pytest.raises(WindError, match=r"named as netCDF or GRIB, but it is neither"):
        check_wind_file(tmp_path / "era5.nc")


def test_a_wind_of_any_day_is_no_wind_of_a_scene_without_a_time(tmp_path):
    timed = _csv(tmp_path, "time,lat,lon,speed\n1999-02-28T12:00:00Z,25,68,3\n")
    with pytest.raises(WindError, match="does not say when it was taken; give --wind"):
        read_wind(timed, None, 68.0, 25.0)


def test_other_netcdf_files_are_told_by_what_they_lack(tmp_path):
    path = tmp_path / "granule.nc"
    with h5py.File(path, "w") as file:
        file["radiance"] = np.zeros((2, 2, 3))
    with pytest.raises(WindError) as told:
        check_wind_file(path)
    assert str(told.value).startswith(f"{path}: has no variable u10 or u; a netCDF file of winds has u10, v10")


def test_broken_grids_say_what_is_wrong(tmp_path):
    good = _era5(tmp_path / "era5.nc").read_bytes()
    for name, content in (
        ("cut.nc", good[: len(good) // 2]),
        ("classic.nc", b"CDF\x01" + bytes(50)),
        ("cut.grib", b"GRIB" + bytes(40)),
        ("binary", b"\xff\xfe\x00\x01" * 8),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(WindError, match=name):
            read_wind(path, NOON, 67.5, 25.5)
        with pytest.raises(WindError, match=name):
            check_wind_file(path)
    with pytest.raises(WindError, match="does not reach"):
        read_wind(tmp_path / "era5.nc", NOON, 10.0, 25.5)
    with pytest.raises(WindError, match="does not say when it was taken"):
        read_wind(tmp_path / "era5.nc", None, 67.5, 25.5)
    with pytest.raises(WindError, match="a folder"):
        check_wind_file(tmp_path)
    with pytest.raises(WindError, match="no such file"):
        read_wind(tmp_path / "none.nc", NOON, 67.5, 25.5)
    with pytest.raises(WindError, match="place is not known"):
        read_wind(tmp_path / "era5.nc", NOON, float("nan"), 25.5)
