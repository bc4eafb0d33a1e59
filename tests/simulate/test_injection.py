"""Plumes in real radiance: the AVIRIS cube of Indian Pines that tensorly ships."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from flame.errors import FlameError
from flame.io import read_scene
from flame.physics import BandSet, sensor, transmittance
from flame.scene import Acquisition, Scene
from flame.simulate import cut_background, inject_plume, preset


@pytest.fixture(scope="module")
def chip_maker():
    """tools/make_indian_pines_chip.py, which knows the cube's unit and mends its list of wavelengths."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
        yield import_module("make_indian_pines_chip")


@pytest.fixture(scope="module")
def indian_pines(chip_maker):
    """The cube's own methane bands as radiance."""
    nm, radiance = chip_maker.read_cube()
    window = nm > 2115.0
    return Scene(
        np.ascontiguousarray(radiance[window]),
        BandSet(nm[window], np.full(int(window.sum()), 10.0)),
        np.ones(radiance.shape[1:], np.bool_),
        acquisition=Acquisition(source="indian_pines", solar_zenith_deg=30.0, view_zenith_deg=0.0),
    ).methane()


def test_a_chip_in_other_bands_shows_the_same_land(chip_maker, indian_pines, tmp_path):
    np.savez(tmp_path / "chip.npz", **chip_maker.make_chip("aviris-ng"))
    chip = read_scene(tmp_path / "chip.npz")
    assert chip.bands.matches(sensor("aviris-ng").bands.methane())
    assert chip.rgb is not None
    shared = np.array([np.interp(indian_pines.bands.centres_nm, chip.bands.centres_nm, pixel) for pixel in _some(chip)])
    np.testing.assert_allclose(shared[:, 1:-1], _some(indian_pines)[:, 1:-1], atol=0.02)


def _some(scene: Scene) -> np.ndarray:
    return scene.radiance[:, ::24, ::24].reshape(len(scene.bands), -1).T


@pytest.fixture
def settings():
    chosen = preset("cluttered", size=96)
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
