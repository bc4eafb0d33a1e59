"""Networks of planes in the runtime: every engine, every sensor, and what a user may ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from flame.detection import DecisionRule, Plume, plume_labels, plume_mask
from flame.models.plus import LEVELS_PPM_M, FlamePlus
from flame.onboard import Detector, ModelError, ModelPackage, StreamError, load_model, sha256_of, write_package
from flame.onboard.asked import Asked
from flame.onboard.detectors import Detectors
from flame.onboard.filter_detector import FilterDetector
from flame.onboard.manifest import NetworkFacts, OperatingPoint, PlaneFacts
from flame.onboard.plane_backends import PlaneEngine, PlaneJudge
from flame.physics import BandSet, sensor
from flame.pipeline.export_plus import _torch_outline, _verify, plane_batch, plus_package
from flame.prepare import SettingsError
from flame.prepare.planes import LEAST_SIGMA_SHARE, WITNESS, prepare_planes
from flame.scene import Scene
from flame.simulate import preset, simulate_tile, tile_generator
from tiny_models import filter_model, random_plus

POINTS = {
    "high-recall": OperatingPoint(0.2, 1.0),
    "balanced": OperatingPoint(0.5, 2.0),
    "high-precision": OperatingPoint(0.9, 3.0, level_core_sigmas=2.5),
}


@pytest.fixture(scope="module")
def model() -> FlamePlus:
    return random_plus()


@pytest.fixture(scope="module")
def package(model: FlamePlus) -> ModelPackage:
    return plus_package(model, 64, "tiny-plus", POINTS, {}, {}, "memory")


def scene_of(name: str, size: int = 80) -> Scene:
    """A simulated scene larger than one tile."""
    return simulate_tile(tile_generator(3, 1), preset("wide", size=size, sensor_name=name), name).tile.scene


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "native"])
@pytest.mark.parametrize("name", ["aviris-ng", "emit"])
def test_every_engine_says_what_torch_says(model: FlamePlus, package: ModelPackage, runtime: str, name: str) -> None:
    scene = scene_of(name, 64)
    found = Detector(package, runtime, threads=2, asked=Asked(level="visible")).run(scene)
    expected = _torch_outline(model.double(), scene)
    model.float()
    assert found.usable.any()
    assert np.abs(found.probability - expected)[found.usable].max() < 1e-4
    assert 0.01 < found.probability[found.usable].mean() < 0.99


def test_an_export_is_compared_in_every_pixel_though_plumes_need_a_core(
    model: FlamePlus, package: ModelPackage
) -> None:
    found = _verify(model, package, [scene_of("aviris-ng", 64)], "onnxruntime")
    assert found.mask_differences == 0
    assert found.plume_pixels > 0


def test_one_detector_takes_every_sensor(package: ModelPackage) -> None:
    detector = Detector(package, "onnxruntime", threads=1)
    for name in ("aviris-ng", "emit", "enmap", "prisma", "tanager-1", "aviris-3"):
        found = detector.run(scene_of(name))
        assert found.probability.shape == (80, 80)
        assert found.sigma_ppm_m is not None
        assert np.isfinite(found.sigma_ppm_m[found.usable]).mean() > 0.9  # the others are too dark to tell
        assert (found.sigma_ppm_m[found.usable] > 0).all()
        assert found.estimate_ppm_m is not None
        assert np.isfinite(found.estimate_ppm_m).all()


@pytest.mark.parametrize("runtime", ["onnxruntime", "native"])
def test_no_enhancement_is_said_to_be_known_much_better_than_its_pixel(runtime: str) -> None:
    too_sure = random_plus()
    with torch.no_grad():
        too_sure.project.bias[len(LEVELS_PPM_M) + 2] = -6.0  # type: ignore[index]
    package = plus_package(too_sure, 64, "too-sure", POINTS, {}, {}, "memory")
    found = Detector(package, runtime, threads=1).run(scene_of("aviris-ng", 64))
    assert found.sigma_ppm_m is not None
    assert found.estimate_sigma_ppm_m is not None
    known = found.usable & np.isfinite(found.sigma_ppm_m)
    share = found.sigma_ppm_m[known] / found.estimate_sigma_ppm_m[known]
    assert share.min() == pytest.approx(LEAST_SIGMA_SHARE, rel=1e-4)
    assert share.max() > LEAST_SIGMA_SHARE


@pytest.mark.parametrize("runtime", ["onnxruntime", "native"])
def test_a_core_is_what_network_and_filter_both_see(package: ModelPackage, runtime: str) -> None:
    scene = scene_of("aviris-ng", 64)
    found = Detector(package, runtime, threads=1).run(scene)
    assert found.core_sigmas is not None
    assert found.sigma_ppm_m is not None
    planes, _ = prepare_planes(scene.radiance, scene.bands, scene.valid)
    of_filter = np.maximum(np.sinh(planes.fields[WITNESS]), 0)
    of_network = np.maximum(found.score_ppm_m / found.sigma_ppm_m, 0)
    known = found.usable & planes.usable
    both = of_network**0.75 * of_filter**0.25
    np.testing.assert_allclose(found.core_sigmas[known], both[known], rtol=5e-3, atol=5e-3)
    alone = known & ((of_network == 0) != (of_filter == 0))
    assert alone.any()
    assert (found.core_sigmas[alone] == 0).all()
    assert found.core_sigmas[known].max() > 0.1


def test_a_level_between_two_lies_about_between_them(package: ModelPackage) -> None:
    scene = scene_of("emit", 64)
    at = {
        level: Detector(package, "onnxruntime", threads=1, asked=Asked(level=level)).run(scene).probability
        for level in (500.0, 707.10678, 1000.0)
    }

    def logit(p: np.ndarray) -> np.ndarray:
        return np.log(np.clip(p, 1e-6, 1 - 1e-6) / (1 - np.clip(p, 1e-6, 1 - 1e-6)))

    below, between, above = (logit(at[level]) for level in (500.0, 707.10678, 1000.0))
    assert between.std() > 0.1
    assert np.quantile(np.minimum(below, above) - between, 0.9) < 0.5
    assert np.quantile(between - np.maximum(below, above), 0.9) < 0.5


@pytest.mark.parametrize("level", [10.0, 1e6])
def test_a_level_it_does_not_know_is_refused(package: ModelPackage, level: float) -> None:
    with pytest.raises(ModelError, match=r"level must be 62\.5 to 8000 ppm m"):
        Detector(package, "onnxruntime", asked=Asked(level=level))


def test_sensitivities_move_the_threshold(package: ModelPackage) -> None:
    rules = {name: Detector(package, "onnxruntime", asked=Asked(name)).rule.threshold for name in POINTS}
    assert rules == {"high-recall": 0.2, "balanced": 0.5, "high-precision": 0.9}
    assert Detector(package, "onnxruntime", asked=Asked(threshold=0.33)).rule.threshold == 0.33
    with pytest.raises(ModelError, match="no sensitivity 'bold'; known are high-recall"):
        Detector(package, "onnxruntime", asked=Asked("bold"))
    with pytest.raises(ModelError, match="not both"):
        Asked("balanced", threshold=0.3)
    with pytest.raises(ModelError, match="between 0 and 1"):
        Asked(threshold=1.5)


def test_a_plume_on_the_ground_needs_a_core_and_is_not_opened(package: ModelPackage) -> None:
    rule = Detector(package, "onnxruntime").rule
    assert (rule.threshold, rule.core_sigmas, rule.opening, rule.fewest_pixels) == (0.5, 2.0, False, 5)
    assert Asked("high-precision").rule(package.manifest).core_sigmas == 3.0
    assert Asked("high-precision", level=500.0).rule(package.manifest).core_sigmas == 2.5
    assert Asked("high-recall", level=500.0).rule(package.manifest).core_sigmas == 1.0  # it has no other
    assert Asked(level=500.0, core_sigmas=1.5).rule(package.manifest).core_sigmas == 1.5
    assert Asked(threshold=0.4).rule(package.manifest).core_sigmas is None
    assert Asked(threshold=0.4, core_sigmas=1.5).rule(package.manifest).core_sigmas == 1.5
    with pytest.raises(ModelError, match="core's standard deviations"):
        Asked(core_sigmas=-1.0)
    with pytest.raises(ModelError, match="no level of the scene"):
        Detector(package, "onnxruntime", asked=Asked(level="scene")).stream(64)
    with pytest.raises(Exception, match="visable"):  # by the types, which tests check, or by itself
        Asked(level="visable")  # type: ignore[arg-type]
    stream = Detector(package, "onnxruntime", asked=Asked(level="visible")).stream(64)
    with pytest.raises(StreamError, match="before a plume's end is seen"):
        stream.rule = rule


@pytest.mark.parametrize(
    ("asked", "threshold", "core"),
    [
        (Asked(), 0.5, 2.0),
        (Asked("high-recall"), 0.2, 1.0),
        (Asked("high-precision"), 0.9, 3.0),
        (Asked(threshold=0.4), 0.4, None),
        (Asked(threshold=0.4, core_sigmas=0.7), 0.4, 0.7),
        (Asked(core_sigmas=0.0), 0.5, 0.0),
    ],
)
def test_what_flies_needs_the_core_of_the_ground_and_is_opened(
    package: ModelPackage, asked: Asked, threshold: float, core: float | None
) -> None:
    expected = DecisionRule(threshold, True, core)
    assert asked.rule_of_lines(package.manifest) == expected
    assert replace(asked, level="visible").rule(package.manifest) == expected
    assert asked.rule(package.manifest).core_sigmas == core


def test_models_that_do_not_tell_how_sure_they_are_fly_without_a_core() -> None:
    package = filter_model()
    assert Asked().rule_of_lines(package.manifest) == package.manifest.rule
    assert Asked(core_sigmas=0.0).rule_of_lines(package.manifest).core_sigmas == 0.0
    with pytest.raises(ModelError, match="does not tell how sure it is of gas"):
        Asked(core_sigmas=2.0).rule_of_lines(package.manifest)
    stream = Detector(package, "onnxruntime", threads=1).stream(20, guard=None)
    with pytest.raises(StreamError, match="does not tell how sure it is of gas"):
        stream.rule = DecisionRule(0.5, True, 2.0)


@pytest.mark.parametrize("runtime", ["native", "onnxruntime"])
def test_the_level_follows_the_noise_of_the_scene(package: ModelPackage, runtime: str) -> None:
    detector = Detector(package, runtime, threads=1)
    facts = package.manifest.plane_facts
    assert facts is not None
    for name in ("aviris-ng", "emit"):
        scene = scene_of(name, 64)
        found = detector.run(scene)
        assert found.estimate_sigma_ppm_m is not None
        known = np.isfinite(found.estimate_sigma_ppm_m)
        usual_ppm_m = float(np.median(found.estimate_sigma_ppm_m[known]))
        assert found.level_ppm_m == pytest.approx(facts.scene_level(usual_ppm_m))
        same = Detector(package, runtime, threads=1, asked=Asked(level=found.level_ppm_m)).run(scene)
        assert same.level_ppm_m == found.level_ppm_m
        assert np.abs(found.probability - same.probability).max() < 1e-3
        assert found.probability.std() > 0.01


def test_a_level_that_follows_the_scene_is_held_by_floor_cap_and_what_the_network_knows() -> None:
    facts = PlaneFacts(LEVELS_PPM_M, {}, scene_sigmas=0.5, scene_floor_ppm_m=100.0, scene_cap_ppm_m=400.0)
    assert [facts.scene_level(sigma) for sigma in (10.0, 300.0, 5000.0, np.inf)] == [100.0, 150.0, 400.0, 400.0]
    free = PlaneFacts(LEVELS_PPM_M, {}, scene_sigmas=0.5)
    assert [free.scene_level(sigma) for sigma in (10.0, 1e9)] == [LEVELS_PPM_M[0], LEVELS_PPM_M[-1]]
    for floor, cap in ((400.0, 100.0), (0.0, 10.0), (9e4, 1e5)):
        with pytest.raises(SettingsError, match="no level that follows the scene"):
            PlaneFacts(LEVELS_PPM_M, {}, scene_floor_ppm_m=floor, scene_cap_ppm_m=cap)


def test_a_tile_and_the_scene_agree_on_a_held_level(package: ModelPackage) -> None:
    facts = package.manifest.plane_facts
    assert facts is not None
    held = replace(facts, scene_floor_ppm_m=333.0, scene_cap_ppm_m=334.0)
    bounded = replace(package, manifest=replace(package.manifest, plane_facts=held))
    found = Detector(bounded, "onnxruntime").run(scene_of("emit", 64))
    assert found.level_ppm_m in (333.0, 334.0)
    same = Detector(bounded, "onnxruntime", asked=Asked(level=found.level_ppm_m)).run(scene_of("emit", 64))
    np.testing.assert_array_equal(found.probability, same.probability)


def test_a_model_that_was_made_for_outlines_alone_keeps_them(package: ModelPackage) -> None:
    facts = package.manifest.plane_facts
    assert facts is not None
    before = replace(package.manifest, plane_facts=replace(facts, scene_sigmas=0.0))
    old = replace(package, manifest=before)
    assert Detector(old, "onnxruntime").rule == replace(before.rule, core_sigmas=2.0)
    assert Detector(old, "onnxruntime").run(scene_of("emit", 64)).level_ppm_m is None
    with pytest.raises(ModelError, match="no level that follows the scene"):
        Detector(old, "onnxruntime", asked=Asked(level="scene"))


def test_what_was_asked_is_part_of_its_name(package: ModelPackage) -> None:
    plain = Detector(package, "onnxruntime").identity
    other = Detector(package, "onnxruntime", asked=Asked(level=500.0)).identity
    elsewhere = Detector(package, "onnxruntime")._sibling(sensor("emit").bands.methane()).identity
    assert plain.key != other.key
    assert plain.key == elsewhere.key  # bands do not make another model


def test_it_is_chosen_by_path_for_any_bands(package: ModelPackage, tmp_path: Path) -> None:
    path = write_package(package, tmp_path / "tiny.onnx")
    detectors = Detectors(str(path), "onnxruntime", 1)
    for name in ("emit", "prisma"):
        found = detectors.for_bands(scene_of(name).bands)
        assert not isinstance(found, FilterDetector)
        assert found.identity.key in detectors.keys
        assert found.manifest.bands.matches(sensor(name).bands.methane())
    assert load_model(path).manifest == package.manifest


def test_bands_too_few_or_too_far_apart_are_not_taken(package: ModelPackage) -> None:
    facts = package.manifest
    assert not facts.takes(BandSet(np.array([2200.0, 2300.0]), np.array([10.0, 10.0])))
    assert not facts.takes(BandSet(np.arange(2130.0, 2480.0, 16.0), np.full(22, 16.0)))
    assert not facts.takes(BandSet(np.arange(400.0, 900.0, 5.0), np.full(100, 5.0)))
    assert facts.takes(sensor("enmap").bands)


@pytest.mark.parametrize("runtime", ["onnxruntime", "native"])
def test_weights_of_another_shape_are_refused(package: ModelPackage, runtime: str) -> None:
    import safetensors.numpy

    assert package.weights is not None
    arrays = safetensors.numpy.load(package.weights)
    arrays["functions"] = arrays["functions"][:, :50].copy()
    weights = safetensors.numpy.save(arrays)
    manifest = replace(package.manifest, network=NetworkFacts(sha256_of(weights), 2.0))
    with pytest.raises(ModelError, match="functions"):
        Detector(ModelPackage(manifest, package.onnx, "memory", weights), runtime)


def _key(plume: Plume) -> tuple[object, ...]:
    corners = tuple(polygon.exterior.tobytes() for polygon in plume.polygons)
    return plume.first_row, plume.first_col, plume.area_px, plume.peak_ppm_m, plume.confidence, corners


@pytest.mark.parametrize("core", [0.0, 0.55, 0.65])
def test_lines_pushed_one_by_one_give_the_scenes_own_plumes(package: ModelPackage, core: float) -> None:
    """More than one row of tiles; masks of lines have also the pixels of plumes without a core."""
    scene = scene_of("aviris-ng", 150)
    asked = Asked(core_sigmas=core)
    on_the_ground = Detector(package, "onnxruntime", threads=1, asked=replace(asked, level="visible"))
    whole = on_the_ground.run(scene)
    stream = Detector(package, "onnxruntime", threads=1, asked=asked).stream(150, guard=None)
    radiance = scene.methane().radiance
    blocks = [block for row in range(150) for block in stream.push(radiance[:, row : row + 1])]
    blocks += stream.close()
    assert len(blocks) > 1
    plumes = [plume for block in blocks for plume in block.plumes]
    assert sorted(map(_key, plumes)) == sorted(map(_key, whole.plumes))
    mask = np.concatenate([block.mask for block in blocks])
    assert np.array_equal(mask, plume_mask(whole.probability, whole.usable, on_the_ground.rule.of_pixels))
    assert np.array_equal(mask, whole.mask) == (core == 0.0)
    assert 1 < len(whole.plumes) <= plume_labels(mask).max()
    assert (len(whole.plumes) < plume_labels(mask).max()) == (core > 0.0)


def test_a_core_that_is_asked_for_on_the_way_counts_for_the_lines_that_follow(package: ModelPackage) -> None:
    scene = scene_of("aviris-ng", 150)
    detector = Detector(package, "onnxruntime", threads=1, asked=Asked(level="visible", core_sigmas=0.0))
    stream = detector.stream(150, guard=None)
    radiance = scene.methane().radiance
    before = stream.push(radiance[:, :65])
    stream.rule = replace(stream.rule, core_sigmas=1e6)
    after = stream.push(radiance[:, 65:]) + stream.close()
    shown = sum(len(block.mask) for block in before)
    assert any(block.plumes for block in before)
    assert all(plume.first_row < shown for block in after for plume in block.plumes)
    assert any(block.mask.any() for block in after)


@pytest.mark.parametrize("runtime", ["openvino", "native"])
def test_engines_agree_in_every_map(package: ModelPackage, runtime: str) -> None:
    scene = scene_of("prisma")
    one, other = (Detector(package, name, threads=2).run(scene) for name in ("onnxruntime", runtime))
    for name in ("score_ppm_m", "sigma_ppm_m", "estimate_ppm_m", "estimate_sigma_ppm_m"):
        first, second = getattr(one, name), getattr(other, name)
        known = np.isfinite(first) & np.isfinite(second)
        assert np.allclose(first[known], second[known], rtol=2e-3, atol=0.5), name


@pytest.mark.parametrize("level", [None, 400.0])
def test_scenes_of_any_size_are_seen_whole(package: ModelPackage, level: float | None) -> None:
    for size in (24, 32, 50):
        one, other = (
            Detector(package, runtime, threads=1, asked=Asked(level=level)).run(scene_of("emit", size))
            for runtime in ("native", "onnxruntime")
        )
        assert one.probability.shape == (size, size)
        assert np.abs(one.probability - other.probability).max() < 1e-4


def test_every_engine_says_what_torch_says_of_a_level(model: FlamePlus, package: ModelPackage) -> None:
    scene = scene_of("aviris-ng", 64)
    own = scene.methane()
    planes, view = prepare_planes(own.radiance, own.bands, own.valid, model.settings.planes)
    with torch.no_grad():
        said = model(plane_batch(model, planes, view, own.bands))
    number = LEVELS_PPM_M.index(500.0)
    expected = torch.sigmoid(said.level_logits)[0, number].numpy()
    for runtime in ("native", "onnxruntime"):
        found = Detector(package, runtime, threads=1, asked=Asked(level=500.0)).run(scene)
        assert np.abs(found.probability - expected)[found.usable].max() < 2e-4


def test_tiles_that_are_no_whole_steps_are_mirrored_and_cut_back() -> None:
    class Pixelwise:
        def infer(self, inputs: dict[str, np.ndarray], judge: PlaneJudge) -> tuple[np.ndarray, ...]:
            plane = inputs["sigma"][0]
            assert plane.shape == (96, 64)
            return plane, 2 * plane, 3 * plane, 4 * plane

    sigma = np.random.default_rng(0).random((1, 75, 41)).astype(np.float32)
    engine = PlaneEngine(Pixelwise(), PlaneJudge(PlaneFacts(LEVELS_PPM_M, {})), "pixelwise")
    told = engine.infer({"sigma": sigma, "planes": np.zeros((1, 3, 75, 41), np.float32)})
    for factor, layer in zip((1, 2, 3, 4, 1), told, strict=True):
        assert np.allclose(layer, factor * sigma[0], rtol=1e-6)


def test_the_guard_watches_the_weights_of_whole_tiles_and_not_their_buffers(
    package: ModelPackage, caplog: pytest.LogCaptureFixture
) -> None:
    detector = Detector(package, "native", threads=1, asked=Asked(level="visible"))
    stream = detector.stream(64)
    for row in range(64):
        stream.push(scene_of("aviris-ng", 64).methane().radiance[:, row : row + 1])
    stream.close()
    assert detector._guard is not None
    watched = detector._guard.golden.names
    assert any("usual.trunk.down" in name for name in watched)
    buffers = [name for name in watched if name.endswith((".memory", ".told", ".score")) and "unused" not in name]
    assert not buffers
    assert "is not watched any more" not in caplog.text
