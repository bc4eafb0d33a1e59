"""Look-up tables: what they may say, what they may not, and where pixels are that only a table tells of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from product_files import glt_of

from flame.io import ReaderError
from flame.io.glt import affine_of_geotransform, geo_of_table, lookup_table, swath_geo
from flame.products.geolocate import longitude_latitude, map_grid

PATH = Path("granule.nc")
SIDE = 0.0005
SHAPE = (30, 24)


def swath(west: float = 20.0, north: float = 10.0, turn_deg: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    down, across = np.indices(SHAPE)
    turn = np.deg2rad(turn_deg)
    latitude = north - SIDE * (down * np.cos(turn) + across * np.sin(turn))
    longitude = west + SIDE * (across * np.cos(turn) - down * np.sin(turn)) / np.cos(np.deg2rad(north))
    return latitude, (longitude + 180.0) % 360.0 - 180.0


def table_of(latitude: np.ndarray, longitude: np.ndarray):
    sample, line, transform = glt_of(latitude, longitude, SIDE)
    return sample, line, affine_of_geotransform(PATH, np.array(transform))


def test_a_pixel_through_the_table_is_where_the_arrays_have_it() -> None:
    latitude, longitude = swath()
    sample, line, affine = table_of(latitude, longitude)
    table = lookup_table(PATH, "EPSG:4326", affine, line, sample, SHAPE)
    cells = np.argwhere(table.row >= 0)
    a, _, c, _, e, f = affine
    x, y = c + a * (cells[:, 1] + 0.5), f + e * (cells[:, 0] + 0.5)
    row, col = table.row[tuple(cells.T)], table.col[tuple(cells.T)]
    assert np.abs(x - longitude[row, col]).max() < 0.8 * SIDE
    assert np.abs(y - latitude[row, col]).max() < 0.8 * SIDE


def test_negative_entries_are_infill_and_zero_is_none() -> None:
    sample, line, affine = table_of(*swath())
    mirrored = lookup_table(PATH, "EPSG:4326", affine, -line, -sample, SHAPE)
    plain = lookup_table(PATH, "EPSG:4326", affine, line.astype(np.float32), sample.astype(np.float64), SHAPE)
    np.testing.assert_array_equal(mirrored.row, plain.row)
    np.testing.assert_array_equal(plain.row == -1, line == 0)
    assert plain.col.max() == SHAPE[1] - 1


@pytest.mark.parametrize("axis", ["columns", "lines"])
def test_a_table_counted_from_the_other_end_is_turned(axis: str) -> None:
    latitude, longitude = swath()
    sample, line, affine = table_of(latitude, longitude)
    right = lookup_table(PATH, "EPSG:4326", affine, line, sample, SHAPE)
    if axis == "columns":
        sample = np.where(sample > 0, SHAPE[1] + 1 - sample, 0)
    else:
        line = np.where(line > 0, SHAPE[0] + 1 - line, 0)
    geo, notes = swath_geo(lookup_table(PATH, "EPSG:4326", affine, line, sample, SHAPE), latitude, longitude, "arrays")
    np.testing.assert_array_equal(geo.table.row, right.row)
    np.testing.assert_array_equal(geo.table.col, right.col)
    assert axis in notes["look_up_table"]


def test_a_table_of_somewhere_else_is_left_out() -> None:
    sample, line, affine = table_of(*swath())
    geo, notes = swath_geo(lookup_table(PATH, "EPSG:4326", affine, line, sample, SHAPE), *swath(west=25.0), "arrays")
    assert geo.table is None
    assert "does not fit" in notes["look_up_table"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda line, sample: (line + 1, sample), "points outside"),
        (lambda line, sample: (line, sample * 1000), "points outside"),
        (lambda line, sample: (line * 0, sample), "shows no pixel"),
        (lambda line, sample: (line[:-1], sample), "have shapes"),
        (lambda _line, _sample: (np.ones((400, 400), "i4"), np.ones((400, 400), "i4")), "cells for 30 x 24 pixels"),
    ],
)
def test_tables_that_cannot_be_right(change, problem: str) -> None:
    sample, line, affine = table_of(*swath())
    with pytest.raises(ReaderError, match=problem):
        lookup_table(PATH, "EPSG:4326", affine, *change(line, sample), SHAPE)


@pytest.mark.parametrize("west", [20.0, 179.995, -180.002])
def test_positions_from_a_table_alone_also_over_the_date_line(west: float) -> None:
    latitude, longitude = swath(west=west)
    unwrapped = np.where(longitude < 0, longitude + 360, longitude) if np.ptp(longitude) > 180 else longitude
    sample, line, affine = table_of(latitude, unwrapped)
    # Some pixels are shown by no cell; they must still have a place.
    line[::7], sample[::7] = 0, 0
    geo = geo_of_table(PATH, lookup_table(PATH, "EPSG:4326", affine, line, sample, SHAPE), SHAPE, "table")
    off = (geo.longitude_deg - longitude + 180.0) % 360.0 - 180.0
    assert np.isfinite(geo.latitude_deg).all()
    assert np.hypot(off, geo.latitude_deg - latitude).max() < 1.5 * SIDE
    assert np.abs(geo.longitude_deg).max() <= 180.0


def test_positions_over_the_date_line_are_interpolated_the_short_way() -> None:
    latitude, longitude = swath(west=179.995)
    assert np.ptp(longitude) > 180
    geo, _ = swath_geo(None, latitude, longitude, "arrays")
    lon, lat = longitude_latitude(geo, np.array([10.0]), np.array([12.0]))
    near = np.hypot((longitude - lon + 180) % 360 - 180, latitude - lat)
    assert near.min() < SIDE
    grid = map_grid(geo)
    assert grid.source is not None
    assert grid.source.size < 20 * SHAPE[0] * SHAPE[1]


def test_some_unknown_positions_leave_the_others_in_place() -> None:
    latitude, longitude = swath()
    latitude[3:6, 4:7] = np.nan
    geo, _ = swath_geo(None, latitude, longitude, "arrays")
    lon, lat = longitude_latitude(geo, np.array([20.5]), np.array([10.5]))
    assert lat[0] == pytest.approx(latitude[20, 10])
    assert lon[0] == pytest.approx(longitude[20, 10])
    shown = map_grid(geo).source
    assert shown is not None
    assert 4 * SHAPE[1] + 5 not in shown


def test_positions_that_are_all_unknown_are_none() -> None:
    nowhere = np.full(SHAPE, np.nan)
    assert swath_geo(None, nowhere, nowhere, "arrays")[0] is None


@pytest.mark.parametrize("numbers", [None, np.zeros(6), np.arange(5.0), np.array([0, 1, 2, 3, 4, np.nan])])
def test_geotransforms_that_are_none(numbers: np.ndarray | None) -> None:
    with pytest.raises(ReaderError, match="geotransform"):
        affine_of_geotransform(PATH, numbers)
