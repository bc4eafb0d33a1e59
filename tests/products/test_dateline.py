"""Cutting polygons at the date line: nothing is lost, nothing is outside, rings turn as they should."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flame.detection.outline import outline
from flame.products.dateline import globe_polygons, signed_area


def _placed(ring, west, step):
    """Pixel corners (row, col) as degrees."""
    lon = west + step * ring[:, 1]
    return np.stack([(lon + 180) % 360 - 180, 10.0 - step * ring[:, 0]], axis=1)


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9))),
    st.sampled_from([0.0, 2.0, 3.5, 4.25, 9.0]),
    st.sampled_from([0.01, 0.25, 3.0]),
)
def test_any_shape_is_cut_without_loss(mask, cells, step):
    west = 180 - cells * step
    for polygon in outline(mask):
        rings = [_placed(ring.astype(float), west, step) for ring in (polygon.exterior, *polygon.holes)]
        parts = globe_polygons(rings)
        area = sum(signed_area(ring) for part in parts for ring in part)
        flat = [
            np.stack([step * ring[:, 1], -step * ring[:, 0]], axis=1) for ring in (polygon.exterior, *polygon.holes)
        ]
        pixels = sum(abs(signed_area(ring)) * (1 if at == 0 else -1) for at, ring in enumerate(flat))
        assert area == pytest.approx(pixels, abs=1e-9)
        for part in parts:
            assert signed_area(part[0]) > 0
            assert all(signed_area(hole) < 0 for hole in part[1:])
            lon = np.concatenate(part)[:, 0]
            assert np.abs(lon).max() <= 180
            assert np.ptp(lon) <= 9 * step + 1e-9  # no part runs around the world


def test_a_ring_that_stays_on_one_side_is_left_as_it_is():
    ring = np.array([[10.0, 0.0], [11.0, 0.0], [11.0, 1.0], [10.0, 1.0]])
    ((got,),) = globe_polygons([ring])
    np.testing.assert_array_equal(got, ring)
    ((turned,),) = globe_polygons([ring[::-1]])
    assert signed_area(turned) == signed_area(ring) == 1.0


def test_a_ring_around_the_south_pole():
    lon = np.arange(-170.0, 180.0, 20.0)
    parts = globe_polygons([np.stack([lon, np.full(lon.shape, -80.0)], axis=1)])
    corners = np.concatenate([ring for part in parts for ring in part])
    assert corners[:, 1].min() == -90.0
    assert sum(signed_area(part[0]) for part in parts) == pytest.approx(3600.0)
    assert np.abs(corners[:, 0]).max() <= 180.0
