"""The native runtime: kernels and whole networks against torch, on every instruction set this processor has."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import safetensors.numpy
import torch
import torch.nn.functional as F

from flame.kernels import Image, block_sizes, limits, load_kernels, pack
from flame.models import BatchPreparer, Flame, FlameSettings, RawTile, SpectralStatistics
from flame.models.export import to_onnx
from flame.models.native_weights import native_weights
from flame.models.spectral import SpectralConv2d
from flame.models.weights import StoredModel
from flame.onboard import Detector, ModelError, ModelPackage, load_model, open_backend, sha256_of
from flame.onboard.native.operator import GELU, LEAKY, LINEAR, Crew, _Fourier, mixing_of, pack_up
from flame.physics import sensor, unit_absorption
from flame.pipeline.export import MAX_DIFFERENCE, _package
from flame.prepare import FIELDS, BackgroundSettings, PrepareSettings
from flame.simulate import preset, simulate_tile, tile_generator
from kernel_sets import compile_sources, kernels, wide_kernels  # noqa: F401
from tiny_models import filter_model

BANDS = sensor("aviris-ng").bands.methane()

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")


@pytest.fixture(params=[1, 2])
def crew(kernels, request):  # noqa: F811
    return Crew(kernels, request.param)


def _image(field):
    image = Image(*field.shape)
    image.pixels[:] = field
    return image


def _close(image, expected):
    np.testing.assert_allclose(image.pixels, expected.numpy(), rtol=1e-5, atol=1e-5)
    border = image._memory.copy()
    border[1:-1, :, limits.SIDE : limits.SIDE + image.cols] = 0.0
    assert not border.any(), "the border of zeros was written to"


def _numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("channels", [4, 5, 8, 9, 12, 14, 28, 49, 72])
def test_weights_are_packed_in_fives_and_fours(channels):
    assert sum(block_sizes(channels)) == channels
    weight = np.arange(channels * 3, dtype=np.float32).reshape(channels, 3)
    packed, at = pack(weight), 0
    for size, first in zip(block_sizes(channels), np.cumsum([0, *block_sizes(channels)]), strict=False):
        np.testing.assert_array_equal(packed[at : at + 3 * size].reshape(3, size), weight[first : first + size].T)
        at += 3 * size


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 7, 11])
def test_other_numbers_of_channels_are_refused(channels):
    with pytest.raises(ValueError, match="blocks of five and four"):
        block_sizes(channels)


@pytest.mark.parametrize("size", [(8, 8), (13, 21), (40, 64)])
@pytest.mark.parametrize("kind", [LINEAR, LEAKY, GELU])
def test_convolution_of_two_images(crew, size, kind):
    first, second, weight, bias = _numbers(9, *size), _numbers(5, *size), 0.3 * _numbers(14, 14, 3, 3), _numbers(14)
    out, sums = Image(14, *size), np.zeros((size[0], 14), np.float32)
    sources = [(_image(first.numpy()), 3), (_image(second.numpy()), 3)]
    crew.convolve(sources, pack(weight.reshape(14, -1).numpy()), bias.numpy(), kind, out, sums=sums)
    expected = F.conv2d(torch.cat([first, second])[None], weight, bias, padding=1)[0]
    expected = {LINEAR: lambda x: x, LEAKY: lambda x: F.leaky_relu(x, 0.1), GELU: F.gelu}[kind](expected)
    _close(out, expected)
    np.testing.assert_allclose(sums, expected.sum(2).T.numpy(), rtol=1e-4, atol=1e-3)


def test_gelu_is_x_times_a_share_that_is_right_to_float32(kernels):  # noqa: F811
    field = torch.linspace(-30, 30, 4 * 8 * 64).reshape(4, 8, 64)
    out = Image(4, 8, 64)
    Crew(kernels, 1).convolve([(_image(field.numpy()), 1)], pack(np.eye(4)), np.zeros(4, np.float32), GELU, out)
    error = (torch.from_numpy(out.pixels.copy()).double() - F.gelu(field.double())).abs() / field.abs().clamp_min(1.0)
    assert error.max() < 2e-7


@pytest.mark.parametrize("side", [2, 3])
@pytest.mark.parametrize("size", [(4, 4), (10, 18), (16, 32)])
def test_convolution_of_stride_two(crew, side, size):
    field, weight, bias = _numbers(14, 2 * size[0], 2 * size[1]), _numbers(14, 14, side, side), _numbers(14)
    out = Image(14, *size)
    crew.down(_image(field.numpy()), side, pack(weight.reshape(14, -1).numpy()), bias.numpy(), LEAKY, out)
    expected = F.conv2d(field[None], weight, bias, 2, padding=side // 3)[0]
    np.testing.assert_allclose(out.pixels, F.leaky_relu(expected, 0.1).numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("size", [(4, 4), (5, 9), (16, 32)])
def test_transposed_convolution(crew, side, size):
    first, second, weight, bias = _numbers(4, *size), _numbers(5, *size), _numbers(9, 14, side, side), _numbers(14)
    out = Image(14, 2 * size[0], 2 * size[1])
    images = [_image(first.numpy()), _image(second.numpy())]
    crew.up(images, side, pack_up(weight.numpy()), bias.numpy(), LINEAR, out)
    _close(out, F.conv_transpose2d(torch.cat([first, second])[None], weight, bias, 2, padding=(side - 2) // 2)[0])


@pytest.mark.parametrize(("modes", "size"), [(12, (24, 40)), (12, (64, 64)), (3, (8, 16))])
def test_spectral_layer(crew, modes, size):
    torch.manual_seed(0)
    layer, field = SpectralConv2d(14, modes), _numbers(14, *size)
    gate = np.linspace(0.2, 1.0, 14, dtype=np.float32)
    mixing = mixing_of(layer.weight.detach().numpy())
    image, out = _image(field.numpy()), Image(14, *size)
    waves = _Fourier(crew, 14, modes, *size).convolve(image, mixing, gate)
    zeros = np.zeros(14, np.float32)
    crew.convolve([(image, 1)], pack(np.zeros((14, 14))), zeros, LINEAR, out, waves=waves)
    with torch.no_grad():
        expected = layer(field[None] * torch.from_numpy(gate)[None, :, None, None])[0]
    _close(out, expected)


VARIANTS = {
    "paper": FlameSettings(),
    "narrow": FlameSettings(width=9, modes=5),
    "no score": FlameSettings(score="none", prepare=PrepareSettings(rgb="none")),
    "fixed background": FlameSettings(score="weights"),
    "coarse": FlameSettings(backbone="coarse-ufno"),
    "plus": FlameSettings(
        backbone="coarse-ufno",
        conditioning="tile",
        score_space="whitened",
        lift_space="training",
        prepare=PrepareSettings(
            background=BackgroundSettings(samples=400, passes=2), pixel_fields=tuple(FIELDS), rgb="tile"
        ),
    ),
}


@pytest.fixture(scope="module")
def scene():
    return simulate_tile(tile_generator(7, 0), preset("cluttered", size=160), "check").tile.scene


def _model(settings, scene):
    """Weights that leave nothing at zero, and batch norms that have seen data."""
    log = np.log(np.maximum(scene.radiance, 1e-3)).reshape(72, -1).astype(float)
    torch.manual_seed(1)
    model = Flame(settings, unit_absorption(BANDS), SpectralStatistics(log.mean(1), np.cov(log)))
    inputs = BatchPreparer(settings, BANDS).prepare([RawTile.of(scene)]).inputs
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("w_bg", "w_sw")):
                parameter.normal_(std=0.05)
        for _ in range(5):
            model.train()(inputs)
        model.segmentation.project.weight.mul_(5.0)
        model.segmentation.project.bias.sub_(model.eval()(inputs).logit.quantile(0.6))
    return model.eval()


@pytest.fixture(scope="module")
def exported(scene):
    """Packages by variant and tile, made once for all instruction sets."""

    @cache
    def make(variant, tile):
        stored = StoredModel(_model(VARIANTS[variant], scene), BANDS, {})
        return _package(stored, tile, variant, {}, {}, "test")

    return make


@pytest.mark.parametrize(("variant", "tile"), [*((name, 64) for name in VARIANTS), ("plus", 96), ("plus", 160)])
def test_networks_equal_the_exported_graph(variant, tile, exported, scene, kernels, monkeypatch):  # noqa: F811
    monkeypatch.setattr("flame.onboard.backends.load_kernels", lambda: kernels)
    monkeypatch.setattr("flame.prepare.preparer.load_kernels", lambda: kernels)
    package = exported(variant, tile)
    assert package.weights is not None
    holes = np.random.default_rng(2).random((tile, tile)) < 0.1
    cut = slice((160 - tile) // 2, (160 + tile) // 2)  # the middle: corners may lie beyond the swath
    part = type(scene)(scene.radiance[:, cut, cut], BANDS, scene.valid[cut, cut] & ~holes, scene.rgb[:, cut, cut])
    detector = Detector(package, "native", 2)
    assert detector.runtime == f"native ({kernels.instructions})"
    native_answer, onnx_answer = detector.run(part), Detector(package, "onnxruntime", 1).run(part)
    np.testing.assert_allclose(native_answer.probability, onnx_answer.probability, atol=MAX_DIFFERENCE)
    np.testing.assert_allclose(native_answer.score_ppm_m, onnx_answer.score_ppm_m, atol=0.5, rtol=1e-4)
    np.testing.assert_array_equal(native_answer.mask, onnx_answer.mask)
    assert native_answer.mask.any()


@pytest.mark.parametrize(
    "settings",
    [
        FlameSettings(score="fixed"),
        FlameSettings(score_space="projected"),
        FlameSettings(score_space="whitened"),
        FlameSettings(conditioning="tile"),
        FlameSettings(width=6, modes=3),
        FlameSettings(modes=13),
    ],
)
def test_what_the_kernels_do_not_know_has_no_native_weights(settings):
    deployed = to_onnx(Flame(settings, unit_absorption(BANDS)), 64)[1]
    assert native_weights(deployed) is None


def test_tiles_too_small_for_the_modes_have_no_native_weights():
    settings = FlameSettings(backbone="coarse-ufno")
    assert native_weights(to_onnx(Flame(settings, unit_absorption(BANDS)), 32)[1]) is None


def test_models_without_native_weights_are_refused_by_name():
    with pytest.raises(ModelError, match="has no native weights; export it again"):
        open_backend(filter_model(), "native")


def test_damaged_native_weights_are_refused():
    model = load_model()
    assert model.weights is not None
    with pytest.raises(ModelError, match=r"native weights of .*SHA-256"):
        replace(model, weights=model.weights[:-4] + b"\0\0\0\0")
    with pytest.raises(ModelError, match="both present or both absent"):
        ModelPackage(model.manifest, model.onnx, "test")


def test_the_fastest_runtime_that_there_is_is_taken(monkeypatch):
    model = load_model()
    assert open_backend(model).name.startswith("native")
    monkeypatch.setenv("FLAME_KERNELS", "none")
    assert not open_backend(model).name.startswith("native")
    with pytest.raises(ModelError, match="no native runtime: FLAME_KERNELS is 'none'"):
        open_backend(model, "native")


def test_kernels_compile_without_warnings(tmp_path):
    compile_sources(tmp_path, "-Wall", "-Wextra", "-Werror")


def test_what_is_no_safetensors_file_is_refused(exported):
    package = exported("plus", 64)
    facts = replace(package.manifest.network, sha256=sha256_of(b"nothing"))
    broken = replace(package, weights=b"nothing", manifest=replace(package.manifest, network=facts))
    with pytest.raises(ModelError, match="cannot take its weights"):
        open_backend(broken, "native")


def _without(name):
    return lambda arrays: arrays.pop(name)


def _shortened(name):
    return lambda arrays: arrays.update({name: np.ascontiguousarray(arrays[name][:-1])})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("lift.bias"), "lift.bias is missing"),
        (_without("lift.weight"), "lift.weight or"),
        (_without("backbone.operator.blocks.4.unet.up2.0.weight"), "up2.0.weight is missing"),
        (_shortened("lift.bias"), "lift.bias is float32"),
        (_shortened("heads.w_bg"), "heads.w_bg is float32"),
        (_shortened("backbone.operator.blocks.0.spectral.weight"), "spectral.weight is float32"),
        (lambda arrays: arrays.update(stray=np.zeros(3, np.float32)), "stray is not known"),
        (lambda arrays: arrays.update({"lift.bias": arrays["lift.bias"].astype(np.float64)}), "float64"),
        (lambda arrays: arrays.update({"lift.bias": arrays["lift.bias"] * np.nan}), "lift.bias holds NaN"),
        (lambda arrays: arrays["heads.w_bg"].__setitem__((3, 4), np.inf), "heads.w_bg holds NaN or infinity"),
    ],
)
def test_weights_of_another_shape_never_reach_the_kernels(damage, message, exported):
    package = exported("plus", 64)
    arrays = safetensors.numpy.load(package.weights)
    damage(arrays)
    content = safetensors.numpy.save(arrays)
    facts = replace(package.manifest.network, sha256=sha256_of(content))
    broken = replace(package, weights=content, manifest=replace(package.manifest, network=facts))
    with pytest.raises(ModelError, match=f"cannot take its weights: .*{message}"):
        open_backend(broken, "native")


@pytest.mark.parametrize("runtime", ["native", "onnxruntime"])
def test_one_detector_serves_several_threads(runtime, exported, scene):
    """Each thread gets the answer for its own scene, also while others use the same buffers."""
    detector = Detector(exported("plus", 64), runtime, 2)
    turned = [np.ascontiguousarray(np.rot90(a, 2, (-2, -1))) for a in (scene.radiance, scene.valid, scene.rgb)]
    other = type(scene)(turned[0], BANDS, turned[1], turned[2])
    expected = [detector.run(one).probability for one in (scene, other)]
    assert not np.array_equal(*expected)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda n: (n % 2, detector.run((scene, other)[n % 2]).probability), range(12)):
            np.testing.assert_array_equal(found[1], expected[found[0]])
