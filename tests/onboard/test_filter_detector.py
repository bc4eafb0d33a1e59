"""The noise-aware filter as a detector: for bands that no model was made for, and whenever it is asked for."""

import numpy as np
import pytest

import flame
from flame.onboard import FILTER_MODEL, Asked, Detector, Detectors, FilterDetector, ModelError
from flame.physics import BandMismatchError, BandSet, sensor
from flame.scene import Scene
from flame.simulate.tiles import absorb


def _with_plume(name, ppm_m, seed=2):
    """A simulated scene of a sensor, and the same plume of known strength in each."""
    ground = flame.simulate_tile(seed=seed, preset="narrow", sensor=name, size=96)
    row, col = np.mgrid[0:96, 0:96]
    column = ppm_m * np.exp(-0.5 * (((row - 50) / 5.0) ** 2 + ((col - 40) / 9.0) ** 2)).astype(np.float32)
    scene, rng = ground.tile.scene, np.random.default_rng(0)
    clean = absorb(ground.background_radiance, column, scene.bands, np.zeros(column.shape, np.float32))
    noisy = clean + ground.noise_sigma * rng.standard_normal(clean.shape, dtype=np.float32)
    return Scene(np.where(scene.valid, noisy, 0).astype(np.float32), scene.bands, scene.valid), column


@pytest.mark.parametrize("name", ["prisma", "enmap", "tanager-1", "emit"])
def test_a_plume_is_found_where_it_is_in_any_bands(name):
    scene, column = _with_plume(name, 6000.0)
    found = FilterDetector().run(scene)
    assert found.plumes
    largest = max(found.plumes, key=lambda plume: plume.area_px)
    assert np.hypot(largest.centroid_row - 50.5, largest.centroid_col - 40.5) < 3.0
    inside = found.mask & (column > 1000)
    assert inside.sum() > 0.7 * (column > 1000).sum()
    slope = float((found.score_ppm_m[inside] * column[inside]).sum() / np.square(column[inside]).sum())
    assert 0.8 < slope < 1.2
    assert not (found.mask & ~scene.valid).any()


def test_ground_without_a_plume_has_hardly_any():
    scene, _ = _with_plume("prisma", 0.0)
    assert FilterDetector().run(scene).mask.mean() < 0.002


def test_it_stands_in_only_where_no_model_was_named():
    bands = BandSet(np.arange(2130.0, 2480.0, 20.0), np.full(18, 20.0))
    assert isinstance(Detectors().for_bands(bands), FilterDetector)
    assert isinstance(Detectors().for_bands(sensor("aviris-ng").bands.methane()), Detector)
    assert isinstance(Detectors(FILTER_MODEL).for_bands(sensor("aviris-ng").bands.methane()), FilterDetector)
    with pytest.raises(BandMismatchError):
        Detectors("flame-plus").for_bands(bands)


def test_a_file_is_told_apart_by_what_found_its_plumes():
    identity = FilterDetector().identity
    assert identity.key in Detectors().keys
    assert identity.key not in Detectors("flame-plus").keys
    assert identity.sha256 is None


def test_lines_that_one_block_finds_too_dark_are_as_the_other_sees_them(monkeypatch):
    """Long scenes are looked at in blocks that share 32 lines; under 64 bright lines the first finds those too dark."""
    monkeypatch.setattr("flame.filters.columns._BLOCK_BYTES", 1)  # blocks of 96 lines
    ground = flame.simulate_tile(seed=2, preset="narrow", sensor="emit", size=160).tile.scene
    valid = np.ones(ground.shape, bool)
    radiance = np.where(ground.valid, ground.radiance, ground.radiance[:, ground.valid].mean(axis=1)[:, None, None])
    radiance[:, :64] *= 2000.0
    whole = FilterDetector().run(Scene(radiance, ground.bands, valid))
    below = FilterDetector().run(Scene(np.ascontiguousarray(radiance[:, 64:]), ground.bands, valid[64:]))
    assert below.usable[:32].mean() > 0.9
    np.testing.assert_array_equal(whole.usable[64:96], below.usable[:32])
    np.testing.assert_allclose(whole.score_ppm_m[64:96], below.score_ppm_m[:32], rtol=1e-5, atol=1e-2)
    np.testing.assert_allclose(whole.probability[64:96], below.probability[:32], atol=1e-6)


def test_a_threshold_is_used_and_told():
    scene, _ = _with_plume("prisma", 3000.0)
    sure = Detectors(FILTER_MODEL, asked=Asked(threshold=0.999))
    detector = sure.for_bands(scene.bands)
    found, usual = detector.run(scene), FilterDetector().run(scene)
    assert found.mask.sum() < usual.mask.sum()
    assert detector.identity.rule.threshold == 0.999
    assert sure.keys == {detector.identity.key} != Detectors(FILTER_MODEL).keys  # so that a scene is done again


@pytest.mark.parametrize("asked", [Asked(sensitivity="high-recall"), Asked(level=500.0), Asked(core_sigmas=2.0)])
def test_what_only_models_can_do_is_refused_before_the_work(asked):
    with pytest.raises(ModelError, match="no sensitivities and no levels or cores; give a threshold"):
        Detectors(FILTER_MODEL, asked=asked)


def test_the_front_door_takes_it():
    scene, _ = _with_plume("prisma", 6000.0)
    by_name = flame.detect(scene, "noise-aware-mf")
    assert by_name.runtime == FilterDetector.runtime
    assert by_name.mask.any()
