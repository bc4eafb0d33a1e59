"""Planes: laws that hold for every spectrometer."""

from __future__ import annotations

import numpy as np
import pytest

from flame.filters import FilterError
from flame.filters.noise_aware import apply, estimate_background
from flame.physics import ABSORPTION_UNIT_PPM_M, SENSORS, BandSet, sensor, unit_absorption
from flame.prepare import Quality
from flame.prepare.planes import (
    FIELD_NAMES,
    GRID_NM,
    PLANE_INPUTS,
    PlanePreparer,
    PlaneSettings,
    apply_functions,
    band_weights,
    prepare_planes,
    window_shares,
)  # fmt: skip
from flame.prepare.planes.preparer import window_filters
from flame.simulate import preset, simulate_tile, tile_generator


def tile_of(name, size=64):
    """A simulated tile with a plume."""
    drawn = (
        simulate_tile(tile_generator(5, i), preset("wide", size=size, sensor_name=name), name).tile for i in range(60)
    )
    return next(tile for tile in drawn if tile.label.any() and tile.scene.valid.all())


@pytest.mark.parametrize("name", SENSORS)
def test_a_smooth_function_gives_every_sensor_the_same_answer(name: str) -> None:
    bands = sensor(name).bands.methane()
    function = np.exp(-0.5 * np.square((GRID_NM - 2300.0) / 40.0))
    spectrum = np.sin(bands.centres_nm / 60.0)
    fine = np.arange(2130.0, 2440.0, 1.0)
    expected = np.trapezoid(np.exp(-0.5 * np.square((fine - 2300.0) / 40.0)) * np.sin(fine / 60.0), fine) / 5.0
    assert function @ band_weights(bands) @ spectrum == pytest.approx(expected, rel=0.06, abs=0.3)


@pytest.mark.parametrize("name", SENSORS)
def test_windows_share_every_band_out_whole(name: str) -> None:
    shares = window_shares(sensor(name).bands.methane())
    assert np.allclose(shares.sum(axis=0), 1.0)
    assert (shares >= 0).all()


def test_the_windows_filters_sum_to_one_matched_filter_of_unit_response() -> None:
    tile = tile_of("emit")
    background = estimate_background(tile.scene.radiance, tile.scene.bands, tile.scene.valid)
    _, weights = window_filters(background, 4)
    spectrum = unit_absorption(tile.scene.bands) / ABSORPTION_UNIT_PPM_M
    assert np.allclose(weights.sum(axis=1) @ spectrum, 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", ["aviris-ng", "emit", "enmap"])
def test_planes_do_not_depend_on_the_unit_of_radiance(name: str) -> None:
    scene = tile_of(name).scene
    one, one_view = prepare_planes(scene.radiance, scene.bands, scene.valid)
    ten, ten_view = prepare_planes(scene.radiance * np.float32(10), scene.bands, scene.valid)
    assert np.abs(one.fields - ten.fields).max() < 2e-2
    functions = np.random.default_rng(0).standard_normal((3, len(scene.bands)))
    assert np.allclose(apply_functions(functions, one_view), apply_functions(functions, ten_view), atol=1e-2)


def test_a_plume_stands_out_and_holes_stay_silent() -> None:
    tile = tile_of("aviris-ng")
    valid = tile.scene.valid.copy()
    valid[10:20, 10:20] = False
    planes, view = prepare_planes(tile.scene.radiance, tile.scene.bands, valid)
    significance = planes.fields[FIELD_NAMES.index("significance_2px")]
    assert significance[tile.label & valid].mean() > significance[~tile.label & valid].mean() + 0.5
    assert not planes.usable[12:18, 12:18].any()
    assert not planes.windows[:, 12:18, 12:18].any()
    assert not view.residual[:, 12:18, 12:18].any()
    assert all(np.isfinite(layer).all() for layer in (planes.fields, planes.windows, planes.sigma_ppm_m))


def test_functions_of_noisy_pixels_are_damped() -> None:
    scene = tile_of("aviris-ng").scene
    background = estimate_background(scene.radiance, scene.bands, scene.valid)
    found = apply(background, scene.radiance, scene.bands, scene.valid)
    _, view = prepare_planes(scene.radiance, scene.bands, scene.valid)
    functions = 100.0 * np.random.default_rng(1).standard_normal((4, len(scene.bands)))
    values = apply_functions(functions, view)
    plain = np.einsum("kb,brc->krc", functions, view.residual)
    assert (np.abs(values) <= np.abs(plain) + 1e-4).all()
    dark = found.brightness < np.quantile(found.brightness, 0.1)
    bright = found.brightness > np.quantile(found.brightness, 0.9)
    kept = np.abs(values) / np.maximum(np.abs(plain), 1e-6)
    assert kept[:, dark].mean() < kept[:, bright].mean()


class TestPlanePreparer:
    functions = np.random.default_rng(2).standard_normal((5, len(GRID_NM))).astype(np.float32)

    def preparer(self, bands: BandSet, side: int = 64) -> PlanePreparer:
        return PlanePreparer(PlaneSettings(), self.functions, bands, (side, side))

    def test_it_gives_what_a_network_takes(self) -> None:
        scene = tile_of("emit").scene
        made = self.preparer(scene.bands).prepare(scene.radiance, scene.valid)
        assert made.inputs is not None
        assert tuple(made.inputs) == PLANE_INPUTS
        assert made.inputs["planes"].shape == (1, 5 + len(FIELD_NAMES) + made.inputs["windows"].shape[1], 64, 64)
        assert all(np.isfinite(array).all() for array in made.inputs.values())

    def test_a_smaller_tile_keeps_its_size(self) -> None:
        scene = tile_of("emit").scene
        made = self.preparer(scene.bands, 96).prepare(scene.radiance, scene.valid)
        alone = self.preparer(scene.bands, 64).prepare(scene.radiance, scene.valid)
        assert made.inputs is not None
        assert alone.inputs is not None
        assert made.usable.shape == (64, 64)
        assert all(np.array_equal(made.inputs[name], alone.inputs[name]) for name in PLANE_INPUTS)

    def test_a_ring_of_rows_is_put_in_order(self) -> None:
        scene = tile_of("emit").scene
        plain = self.preparer(scene.bands).prepare(scene.radiance, scene.valid)
        turned = self.preparer(scene.bands).prepare(np.roll(scene.radiance, 17, axis=1), scene.valid, first=17)
        assert plain.inputs is not None
        assert turned.inputs is not None
        assert all(np.allclose(plain.inputs[name], turned.inputs[name], atol=1e-5) for name in PLANE_INPUTS)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -9999.0, 0.0, 1e6])
    def test_bad_pixels_are_flagged_and_touch_nothing_else(self, bad: float) -> None:
        scene = tile_of("emit").scene
        radiance = scene.radiance.copy()
        radiance[:, 5:9, 5:9] = bad
        made = self.preparer(scene.bands).prepare(radiance, scene.valid)
        assert not made.usable[5:9, 5:9].any()
        assert made.inputs is not None
        assert all(np.isfinite(array).all() for array in made.inputs.values())

    def test_a_tile_without_ground_is_left_out(self) -> None:
        bands = sensor("emit").bands.methane()
        made = self.preparer(bands).prepare(np.zeros((len(bands), 64, 64), np.float32), np.ones((64, 64), np.bool_))
        assert made.inputs is None
        assert made.flags & Quality.NO_SIGNAL


def test_a_constant_image_is_refused_by_name() -> None:
    bands = sensor("emit").bands.methane()
    with pytest.raises(FilterError, match="no band varies"):
        prepare_planes(np.ones((len(bands), 64, 64), np.float32), bands, np.ones((64, 64), np.bool_))
