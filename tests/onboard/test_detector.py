"""The detector finds what is there, whatever the size of the scene, the engine, and the state of the pixels."""

import numpy as np
import pytest

from flame.detection import PixelCounts
from flame.onboard import UNUSABLE, Detector, ModelError, Quality
from flame.scene import Scene
from tiny_models import SPECTRUM, TAU_PPM_M, filter_model, plume_scene, whitening_model


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "auto"])
def test_the_plume_is_found_and_its_strength_is_right(runtime):
    scene, truth = plume_scene(80, 90, [(20, 30, 26, 36)])
    found = Detector(whitening_model(), runtime=runtime, threads=1).run(scene)
    assert PixelCounts.of(found.mask, truth, scene.valid).f1 > 0.95
    (plume,) = found.plumes
    assert plume.centroid_row == pytest.approx(23, abs=0.5)
    assert found.flags == Quality.GOOD
    assert found.timings.total_s >= found.timings.infer_s > 0
    assert len(found.tiles) == 3 * 4


def test_engines_agree_on_the_mask():
    scene, _ = plume_scene(100, 70, [(5, 5, 10, 10), (60, 30, 64, 37)])
    ort, vino = (Detector(whitening_model(), runtime=r).run(scene) for r in ("onnxruntime", "openvino"))
    np.testing.assert_array_equal(ort.mask, vino.mask)
    np.testing.assert_allclose(ort.probability, vino.probability, atol=1e-4)
    np.testing.assert_allclose(ort.score_ppm_m, vino.score_ppm_m, atol=1e-2)


def test_a_pixelwise_model_gives_the_same_on_tiles_as_on_the_whole():
    scene, _ = plume_scene(64, 64, [(10, 10, 50, 50)])
    tiled = Detector(filter_model(tile=24), threads=1).run(scene)
    whole = Detector(filter_model(tile=64), threads=1).run(scene)
    np.testing.assert_allclose(tiled.score_ppm_m, whole.score_ppm_m, rtol=1e-5, atol=1e-2)
    np.testing.assert_array_equal(tiled.mask, whole.mask)
    weight = np.array([1, 1, -3, 1]) / 3
    expected = TAU_PPM_M * np.tensordot(weight, np.log(scene.radiance.astype(float)), 1)
    np.testing.assert_allclose(whole.score_ppm_m, expected, atol=1e-2)


def test_a_plume_across_seams_is_one_plume_though_tiles_disagree():
    scene, truth = plume_scene(96, 96, [(20, 5, 26, 90), (20, 40, 80, 46)])
    found = Detector(filter_model(tile=32, centred=True), overlap=16).run(scene)
    (plume,) = found.plumes
    assert plume.area_px == pytest.approx(truth.sum(), rel=0.1)


def test_scenes_smaller_than_a_tile_work():
    scene, truth = plume_scene(17, 23, [(5, 5, 9, 9)])
    found = Detector(whitening_model(tile=32)).run(scene)
    assert found.mask.shape == (17, 23)
    np.testing.assert_array_equal(found.mask, truth)


def _spoiled(scene, bad, value):
    radiance = scene.radiance.copy()
    radiance[:, bad] = value
    return radiance


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        (np.nan, Quality.NOT_FINITE),
        (np.inf, Quality.NOT_FINITE),
        (0.0, Quality.NO_SIGNAL),
        (-5.0, Quality.NO_SIGNAL),
        (-9999.0, Quality.NO_SIGNAL),
        (1e6, Quality.SATURATED),
    ],
)
@pytest.mark.parametrize("model", [filter_model, whitening_model])
def test_bad_pixels_are_flagged_and_leave_the_others_alone(value, flag, model):
    scene, truth = plume_scene(64, 64, [(8, 8, 14, 14)])
    bad = np.random.default_rng(1).random((64, 64)) < 0.2
    bad[40:50] = True
    detector = Detector(model(), threads=1)
    stream = detector.stream(64)
    blocks = stream.push(_spoiled(scene, bad, value)) + stream.close()
    probability, quality, mask = (
        np.concatenate([getattr(b, name) for b in blocks]) for name in ("probability", "quality", "mask")
    )
    assert ((quality[bad] & flag) != 0).all()
    assert ((quality[~bad] & UNUSABLE) == 0).all()
    assert np.isfinite(probability).all()
    assert not mask[bad].any()
    # The same with anything else under those pixels, marked invalid: bit for bit.
    other = stream_all(detector, _spoiled(scene, bad, 3.0), valid=~bad)
    np.testing.assert_array_equal(other, probability)
    assert (probability[truth & ~bad] > 0.5).mean() > 0.9


def stream_all(detector, radiance, valid=None):
    stream = detector.stream(radiance.shape[2])
    return np.concatenate([b.probability for b in stream.push(radiance, valid=valid) + stream.close()])


def test_one_bad_band_spoils_its_pixel_only():
    scene, truth = plume_scene(32, 32, [(8, 8, 14, 14)])
    radiance = scene.radiance.copy()
    radiance[1, 25, 25] = np.nan
    radiance[2, 28, 28] = -0.5
    stream = Detector(whitening_model()).stream(32)
    (block,) = stream.push(radiance) + stream.close()
    np.testing.assert_array_equal(block.mask, truth)
    assert np.argwhere(block.quality & UNUSABLE).tolist() == [[25, 25]]
    assert block.quality[28, 28] == Quality.DARK


@pytest.mark.parametrize("value", [np.nan, 0.0, -9999.0, 1e9])
def test_a_wholly_bad_stretch_gives_an_empty_mask_and_a_flag(value):
    scene, truth = plume_scene(160, 32, [(10, 8, 15, 13), (140, 8, 145, 13)])
    bad = np.zeros((160, 32), dtype=bool)
    bad[32:120] = True
    stream = Detector(whitening_model()).stream(32)
    blocks = stream.push(_spoiled(scene, bad, value)) + stream.close()
    mask = np.concatenate([b.mask for b in blocks])
    np.testing.assert_array_equal(mask, truth)
    assert any(Quality.TOO_FEW in tile.flags for b in blocks for tile in b.tiles)
    quality = np.concatenate([b.quality for b in blocks])
    assert ((quality[60:100] & Quality.TOO_FEW) != 0).all()
    assert ((quality[:20] & Quality.TOO_FEW) == 0).all()


def test_scaling_all_radiance_hardly_moves_the_result():
    scene, _ = plume_scene(64, 64, [(8, 8, 14, 14)])
    brighter = Scene(scene.radiance * np.float32(10), scene.bands, scene.valid)
    detector = Detector(whitening_model())
    np.testing.assert_allclose(detector.run(brighter).probability, detector.run(scene).probability, atol=1e-3)


def test_more_bands_than_the_model_needs_are_left_aside():
    scene, truth = plume_scene(32, 32, [(8, 8, 14, 14)])
    extra = np.full((1, 32, 32), 7.0, dtype=np.float32)
    bands = type(scene.bands)(
        np.concatenate([scene.bands.centres_nm[:2], [2270.0], scene.bands.centres_nm[2:]]), np.full(5, 6.0)
    )
    radiance = np.concatenate([scene.radiance[:2], extra, scene.radiance[2:]])
    np.testing.assert_array_equal(Detector(whitening_model()).run(Scene(radiance, bands, scene.valid)).mask, truth)


class _Broken:
    name = "broken"
    block_rows = 32
    more = ()

    def __init__(self, answer):
        self.answer = answer

    def infer(self, inputs):
        if isinstance(self.answer, Exception):
            raise self.answer
        side = inputs["log_radiance"].shape[-1]
        return (np.full((side, side), self.answer, dtype=np.float32),) * 2


@pytest.mark.parametrize("answer", [RuntimeError("out of memory"), np.nan])
def test_failing_inference_flags_the_tile_in_flight_and_raises_on_the_ground(answer):
    scene, _ = plume_scene(32, 32)
    detector = Detector(filter_model())
    detector._backend = _Broken(answer)
    stream = detector.stream(32)
    (block,) = stream.push(scene.radiance) + stream.close()
    assert block.tiles[0].flags == Quality.FAILED
    assert (block.quality == Quality.FAILED).all()
    assert not block.mask.any()
    assert not block.probability.any()
    with pytest.raises((RuntimeError, ModelError)):
        detector.run(scene)


def test_score_of_the_whitening_model_is_in_ppm_m():
    scene, truth = plume_scene(32, 32, [(8, 8, 14, 14)], alpha_ppm_m=20_000.0)
    found = Detector(whitening_model()).run(scene)
    spread = 0.003 * 1e5 / np.linalg.norm(SPECTRUM)
    background = found.score_ppm_m[~truth].mean()
    assert found.score_ppm_m[truth].mean() - background == pytest.approx(20_000, abs=5 * spread)


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_numbers_of_threads_that_make_no_sense_are_refused(threads):
    with pytest.raises(ModelError, match="threads must be 1 to 256, got"):
        Detector(filter_model(), threads=threads)
