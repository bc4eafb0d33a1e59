from dataclasses import replace

import numpy as np
import pytest

from flame.simulate import Range, SurfaceSettings
from flame.simulate.fields import across_course, disk, fractal, rectangle, strip
from flame.simulate.layout import BIOMES, draw_layout

SHAPE = (48, 64)
OFF = Range(0.0, 0.0)


@pytest.mark.parametrize("biome", BIOMES)
def test_shares_of_materials_sum_to_one(biome):
    layout = draw_layout(np.random.default_rng(3), SHAPE, replace(SurfaceSettings(), biome_weights=((biome, 1.0),)))
    shares = np.stack(layout.shares)
    assert len(layout.kinds) == len(shares)
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=1e-4)
    assert (layout.light > 0).all()


def test_a_coast_has_open_water():
    settings = replace(SurfaceSettings(), biome_weights=(("coast", 1.0),))
    layout = draw_layout(np.random.default_rng(0), SHAPE, settings)
    assert layout.shares[layout.kinds.index("water")].max() > 0.99


def test_shade_leaves_the_light_it_is_told_to():
    settings = replace(
        SurfaceSettings(), shade_chance=1.0, shade_light=Range(0.05, 0.05), texture=OFF, grain=OFF,
        relief=OFF, parcel_chance=0.0, roads=OFF, pads=OFF, tanks=OFF,
        buildings=OFF,
    )  # fmt: skip
    light = draw_layout(np.random.default_rng(2), SHAPE, settings).light
    assert light.min() == pytest.approx(0.05, abs=0.01)
    assert light.max() == pytest.approx(1.0, abs=0.01)


def test_shapes_cover_their_area():
    assert disk((40, 40), (20.0, 20.0), 6.0).sum() == pytest.approx(np.pi * 36, rel=0.03)
    assert rectangle((40, 40), (20.0, 20.0), (5.0, 3.0), 0.7).sum() == pytest.approx(60.0, rel=0.03)
    assert rectangle((40, 40), (20.0, 20.0), (0.2, 0.2), 0.0).max() < 0.5


def test_a_straight_road_has_its_width_in_every_row():
    cover = strip(across_course(np.random.default_rng(0), (50, 50), 0.0, 0.0), 3.0)
    inside = cover.sum(axis=1)
    np.testing.assert_allclose(inside, 3.0, atol=0.1)


def test_fractal_fields_are_standardised_and_smoother_with_a_steeper_slope():
    def roughness(slope):
        field = fractal(np.random.default_rng(0), (96, 96), slope)[0]
        assert field.std() == pytest.approx(1.0, abs=1e-3)
        assert field.mean() == pytest.approx(0.0, abs=1e-3)
        return np.diff(field, axis=0).std()

    assert roughness(3.5) < 0.4 * roughness(1.5)
