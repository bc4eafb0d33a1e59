"""Plumes in real radiance: the AVIRIS cube of Indian Pines that tensorly ships."""

from dataclasses import replace

import numpy as np
import pytest
from tensorly.datasets import load_indian_pines

from flame.errors import FlameError
from flame.physics import BandSet, transmittance
from flame.scene import Acquisition, Scene
from flame.simulate import cut_background, inject_plume, preset


@pytest.fixture(scope="module")
def indian_pines():
    """The cube's methane bands as radiance. Its wavelength list is one band too long from index 103, with two typos."""
    cube = load_indian_pines()
    nm = np.array(cube["ticks"][1], dtype=np.float64)
    nm[nm == 2260.22], nm[nm == 2270.15] = 2212.22, 2222.15
    nm[104:] = nm[103:-1].copy()
    radiance = (np.moveaxis(np.asarray(cube["tensor"], dtype=np.float32), -1, 0) - 1000.0) / 500.0
    window = nm > 2115.0
    return Scene(
        np.ascontiguousarray(radiance[window]),
        BandSet(nm[window], np.full(int(window.sum()), 10.0)),
        np.ones(radiance.shape[1:], np.bool_),
        acquisition=Acquisition(source="indian_pines", solar_zenith_deg=30.0, view_zenith_deg=0.0),
    ).methane()


@pytest.fixture
def settings():
    chosen = preset("wide", size=96)
    return replace(chosen, plume=replace(chosen.plume, source_shares=(0.0, 1.0), emission_median_kg_h=2000.0))


def test_the_plume_absorbs_real_light_by_the_same_physics(indian_pines, settings):
    made = inject_plume(indian_pines, np.random.default_rng(1), settings, "a", add_noise=False)
    slant = made.tile.enhancement_ppm_m
    assert made.tile.label.any()
    row, col = np.unravel_index(np.argmax(slant), slant.shape)
    seen = made.tile.scene.radiance[:, row, col] / indian_pines.radiance[:, row, col]
    exact = transmittance(np.array([float(slant[row, col])]), indian_pines.bands)[:, 0]
    np.testing.assert_allclose(seen, exact, rtol=1e-3)
    np.testing.assert_array_equal(made.background_radiance, indian_pines.radiance)


def test_noise_is_added_only_when_asked(indian_pines, settings):
    smooth, noisy = (
        inject_plume(indian_pines, np.random.default_rng(1), settings, "a", add_noise=wanted)
        for wanted in (False, True)
    )
    np.testing.assert_array_equal(smooth.tile.enhancement_ppm_m > 0, noisy.tile.enhancement_ppm_m > 0)
    calm = noisy.tile.enhancement_ppm_m < 0.1
    np.testing.assert_array_equal(smooth.tile.scene.radiance[:, calm], indian_pines.radiance[:, calm])
    difference = (noisy.tile.scene.radiance - noisy.background_radiance)[:, calm] / noisy.noise_sigma[:, calm]
    assert difference.std() == pytest.approx(1.0, abs=0.02)


def test_the_longer_the_path_the_stronger_the_enhancement(indian_pines, settings):
    low_sun = replace(indian_pines.acquisition, solar_zenith_deg=70.0)
    scenes = indian_pines, replace(indian_pines, acquisition=low_sun)
    fixed = replace(settings, raise_limit=1.0)
    high, low = (inject_plume(scene, np.random.default_rng(1), fixed, "a").tile.enhancement_ppm_m for scene in scenes)
    expected = (1 / np.cos(np.deg2rad(70)) + 1) / (1 / np.cos(np.deg2rad(30)) + 1)
    assert low.max() / high.max() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("size", [64, 200])
def test_backgrounds_are_cut_or_mirrored_to_size(indian_pines, size):
    cut = cut_background(indian_pines, np.random.default_rng(0), size)
    assert cut.shape == (size, size)
    assert set(np.unique(cut.radiance[3])) <= set(np.unique(indian_pines.radiance[3]))


def test_cutting_keeps_layers_together(indian_pines):
    marked = replace(
        indian_pines,
        rgb=np.repeat(indian_pines.radiance[3:4], 3, axis=0),
        valid=indian_pines.radiance[3] > np.quantile(indian_pines.radiance[3], 0.2),
    )
    cut = cut_background(marked, np.random.default_rng(4), 80)
    np.testing.assert_array_equal(cut.rgb[0], cut.radiance[3])
    assert cut.radiance[3][cut.valid].min() > cut.radiance[3][~cut.valid].max()


def test_a_scene_of_nothing_but_gaps_is_refused(indian_pines):
    valid = np.zeros(indian_pines.shape, np.bool_)
    valid[0, 0] = True
    with pytest.raises(FlameError, match="no 64x64 square"):
        cut_background(replace(indian_pines, valid=valid), np.random.default_rng(0), 64)
