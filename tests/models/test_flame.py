"""Laws of the model: what it contains, what cannot reach its output, and how large it is."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiles import BANDS, SPECTRUM, toy_tile

from flame.filters import LogMfSettings, fit_log_mf, log_mf
from flame.models import BatchPreparer, Flame, FlameSettings, ModelSettingsError, RawTile, SpectralStatistics
from flame.models.heads import PhysicsHeads, leaky_clamp, softplus_inverse
from flame.models.weights import WeightsError, load_model, save_model
from flame.prepare import FIELDS, BackgroundSettings, PrepareSettings, SettingsError
from flame.training.precision import shield_from_amx

PLUS = FlameSettings(
    conditioning="tile",
    score_space="whitened",
    prepare=PrepareSettings(pixel_fields=tuple(FIELDS), rgb="tile"),
)
VARIANTS = {
    "paper": FlameSettings(),
    "unconditioned": FlameSettings(conditioning="none"),
    "plus": PLUS,
    "plus, features of the training set": replace(PLUS, lift_space="training"),
    "tile, score in log-radiance": FlameSettings(conditioning="tile"),
    "tile, score in log-radiance, features of the training set": FlameSettings(
        conditioning="tile", lift_space="training"
    ),
    "score whitened by the training set": FlameSettings(score_space="whitened"),
    "no score": FlameSettings(score="none"),
    "fixed": FlameSettings(score="fixed"),
    "weights": FlameSettings(score="weights", score_space="projected"),
}


def batch(count=2, size=40, seed=0):
    """Radiance, RGB and validity of some tiles, as arrays."""
    rng = np.random.default_rng(seed)
    tiles = [toy_tile(rng, size) for _ in range(count)]
    return tuple(np.stack([getattr(t, k) for t in tiles]) for k in ("radiance", "rgb", "valid"))


def run(flame, radiance, rgb, valid):
    """Prepares tiles as flight does, and runs the network in its own precision."""
    raw = [RawTile(*tile) for tile in zip(radiance, valid, rgb, strict=True)]
    prepared = BatchPreparer(flame.settings, BANDS).prepare(raw)
    with torch.no_grad():
        return flame(prepared.to(flame.mean.dtype).inputs)


def statistics(radiance):
    log = np.log(radiance.astype(np.float64)).transpose(1, 0, 2, 3).reshape(radiance.shape[1], -1)
    return SpectralStatistics(log.mean(1), np.cov(log))


def model(settings=None, seed=0):
    torch.manual_seed(seed)
    return Flame(settings or FlameSettings(), SPECTRUM, statistics(batch()[0]))


def test_has_the_published_number_of_parameters():
    assert sum(parameter.numel() for parameter in model().parameters()) == 775_433


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_proposition_a_constructed_heads_are_the_diagonal_log_matched_filter(seed):
    """eq:app_construction gives eq:app_reduction, the filter of `flame.filters`, for any backbone and any tile."""
    radiance = batch(1, seed=seed)[0]
    fitted = fit_log_mf(radiance[0], BANDS, np.ones((40, 40), bool), LogMfSettings(covariance="diagonal"))
    flame = model(FlameSettings(conditioning="none"), seed).eval()
    with torch.no_grad():
        flame.heads.b_bg.copy_(torch.from_numpy(fitted.mean_log))
        flame.heads.b_sw.copy_(softplus_inverse(torch.from_numpy(1 / fitted.variance)))
    for tile in (radiance, batch(1, seed=seed + 10)[0]):
        z = flame.backbone(torch.randn(1, 14, 40, 40))
        log = np.log(tile)
        ours = flame.heads(torch.from_numpy(log), z, flame.unit_spectrum[None])[0].detach().numpy()
        expected = fitted.numerator(log[0].reshape(72, -1)).reshape(40, 40)
        assert np.abs(ours - expected).max() < 1e-5 * np.abs(expected).max()


def test_weights_beyond_the_softplus_range_stay_exact():
    """Proposition A with a noise of 0.3 %: weights of 1e5."""
    heads = PhysicsHeads("full", 2, torch.zeros(3)).double()
    with torch.no_grad():
        heads.b_sw.copy_(softplus_inverse(torch.tensor([1e5, 90.0, 1e-3], dtype=torch.float64)))
    x = torch.ones(1, 3, 2, 2, dtype=torch.float64)
    z = torch.zeros(1, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    score = heads(x, z, torch.eye(3, dtype=torch.float64)[:1])
    torch.testing.assert_close(score, torch.full_like(score, 1e5))
    score.sum().backward()
    assert torch.isfinite(heads.w_sw.grad).all()


@pytest.mark.parametrize("moved", ["w_bg", "w_sw"])
def test_containment_is_strict(moved):
    """With a head that reads z, equal spectra no longer mean equal scores: no shared mean and diagonal does that."""
    flame = model().eval()
    radiance, rgb, valid = batch()
    radiance[:, :, :3, :3] = radiance[:, :, 30:31, 30:31]
    start = run(flame, radiance, rgb, valid).score_ppm_m
    same = (start[:, 1, 1] - start[:, 30, 30]).abs().max()
    with torch.no_grad():
        getattr(flame.heads, moved).normal_(0, 0.1)
    apart = run(flame, radiance, rgb, valid).score_ppm_m
    assert same < 1e-3 * start.abs().max()
    assert (apart[:, 1, 1] - apart[:, 30, 30]).abs().max() > 10 * same + 1.0


def test_the_untrained_plus_score_is_the_tiles_log_matched_filter_in_ppm_m():
    flame = model(PLUS).eval()
    radiance, rgb, valid = batch(2, size=64, seed=3)
    score = run(flame, radiance, rgb, valid).score_ppm_m.numpy()
    for tile, found in zip(radiance, score, strict=True):
        expected = log_mf.score(tile, BANDS, np.ones((64, 64), bool))
        assert np.abs(found - expected).max() < 0.03 * expected.std()


def test_plus_score_recovers_the_enhancement():
    rng = np.random.default_rng(5)
    tile = toy_tile(rng, 96, peak_ppm_m=4000.0)
    prepare = PrepareSettings(background=BackgroundSettings(passes=3), rgb="none")
    flame = model(FlameSettings(conditioning="tile", score_space="whitened", prepare=prepare)).eval()
    score = run(flame, tile.radiance[None], [None], tile.valid[None]).score_ppm_m[0]
    peak = tile.enhancement > 3000
    assert abs(score.numpy()[peak].mean() / tile.enhancement[peak].mean() - 1) < 0.1
    assert abs(score.numpy()[tile.enhancement < 10].mean()) < 100


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("poison", [float("nan"), -9999.0, 0.0, float("inf"), 1e30])
def test_what_stands_under_an_invalid_pixel_has_no_influence(name, poison):
    flame = model(VARIANTS[name]).eval()
    radiance, rgb, valid = batch()
    valid[:, :5] = False
    valid[:, 20, 20] = False
    spoiled, spoiled_rgb = radiance.copy(), rgb.copy()
    np.moveaxis(spoiled, 1, -1)[~valid] = poison
    np.moveaxis(spoiled_rgb, 1, -1)[~valid] = poison
    clean, dirty = run(flame, radiance, rgb, valid), run(flame, spoiled, spoiled_rgb, valid)
    assert torch.isfinite(dirty.logit).all()
    assert torch.equal(clean.logit, dirty.logit)
    if clean.score_ppm_m is not None:
        assert torch.equal(clean.score_ppm_m, dirty.score_ppm_m)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 0.0, -9999.0, 1e6])
def test_a_bad_pixel_marked_valid_is_as_good_as_an_invalid_one(name, poison):
    """Flight and training have one rule: what is not finite, dark in every band, a fill value or saturated is out."""
    flame = model(VARIANTS[name]).eval()
    radiance, rgb, valid = batch()
    radiance[0, :, 3, 4] = poison
    marked = valid.copy()
    marked[0, 3, 4] = False
    found, expected = run(flame, radiance, rgb, valid), run(flame, radiance, rgb, marked)
    assert torch.isfinite(found.logit).all()
    assert torch.equal(found.logit, expected.logit)


@pytest.mark.parametrize("settings", [FlameSettings(), PLUS])
def test_tiles_without_contrast_or_without_pixels_stay_finite(settings):
    flame = model(settings).eval()
    ones, image = np.ones((1, 3, 24, 24), np.float32), np.ones((1, 24, 24), bool)
    constant = run(flame, np.full((1, 72, 24, 24), 0.3, np.float32), ones, image)
    empty = run(flame, np.zeros((1, 72, 24, 24), np.float32), 0 * ones, ~image)
    assert torch.isfinite(constant.logit).all()
    assert torch.isfinite(empty.logit).all()


@pytest.mark.parametrize("size", [(8, 8), (13, 21), (24, 100)])
def test_takes_tiles_of_any_size(size):
    flame = model().eval()
    rng = np.random.default_rng(0)
    radiance, rgb = (rng.uniform(0.1, 1.1, (1, bands, *size)).astype(np.float32) for bands in (72, 3))
    out = run(flame, radiance, rgb, np.ones((1, *size), bool))
    assert out.logit.shape == (1, *size)


@pytest.mark.parametrize("space", ["tile", "training"])
@pytest.mark.parametrize("gain", [0.01, 100.0])
def test_a_constant_factor_on_radiance_does_not_change_plus(gain, space):
    """STARCOP's radiance carries a factor for date and sun angle; dark pixels are floored by the tile's own level."""
    flame = model(replace(PLUS, lift_space=space)).eval().double()
    radiance, rgb, valid = batch()
    radiance[:, :, :8] *= 0.01
    radiance[:, 5:9, 8:12] = 0.0
    before, after = (
        run(flame, radiance, rgb, valid),
        run(flame, np.float32(gain) * radiance, np.float32(gain) * rgb, valid),
    )
    torch.testing.assert_close(before.logit, after.logit, rtol=1e-3, atol=1e-3)


def test_whitening_by_training_statistics_folds_into_the_lift():
    flame = model().eval()
    log = torch.from_numpy(np.log(batch(seed=4)[0]))
    white = torch.einsum("jb,nbrc->njrc", flame.whitening, log - flame.mean[:, None, None])
    weight, bias = flame.folded_lift()
    folded = torch.nn.functional.conv2d(log, weight[:, :, None, None], bias)
    torch.testing.assert_close(folded, flame.lift(white), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["weights", "full"])
def test_chunked_score_has_the_gradients_of_the_plain_one(kind, monkeypatch):
    monkeypatch.setattr("flame.models.heads._CHUNK_PIXELS", 7)
    torch.manual_seed(0)
    heads = PhysicsHeads(kind, 3, torch.randn(5)).double()
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 5, 4, 5, dtype=torch.float64)
    z = torch.randn(2, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    direction, cotangent = torch.randn(2, 5, dtype=torch.float64), torch.randn(2, 4, 5, dtype=torch.float64)
    leaves = (z, *(parameter for parameter in heads.parameters() if parameter.requires_grad))
    plain = heads._plain(x.flatten(2), z.flatten(2), direction).reshape(2, 4, 5)
    chunked = heads(x, z, direction)
    torch.testing.assert_close(chunked, plain)
    for ours, reference in zip(
        torch.autograd.grad(chunked, leaves, cotangent), torch.autograd.grad(plain, leaves, cotangent), strict=True
    ):
        torch.testing.assert_close(ours, reference)


def test_leak_only_touches_the_gradient():
    value = torch.tensor([-3.0, 0.5, 7.0], requires_grad=True)
    clipped = leaky_clamp(value, 2.0, 0.01)
    clipped.sum().backward()
    torch.testing.assert_close(clipped.detach(), torch.tensor([0.0, 0.5, 2.0]))
    torch.testing.assert_close(value.grad, torch.tensor([0.01, 1.0, 0.01]))


def test_settings_survive_json_and_refuse_contradictions():
    assert FlameSettings.from_json(PLUS.to_json()) == PLUS
    with pytest.raises(ModelSettingsError, match="conditioning"):
        FlameSettings(conditioning="none", score_space="whitened")
    with pytest.raises(SettingsError, match="matched_filter"):
        PrepareSettings(pixel_fields=("wind",))
    with pytest.raises(SettingsError, match="twice"):
        PrepareSettings(pixel_fields=("noise", "noise"))
    with pytest.raises(ModelSettingsError, match="need conditioning 'tile'"):
        FlameSettings(prepare=PrepareSettings(pixel_fields=("noise",)))
    with pytest.raises(ModelSettingsError, match="10 bands"):
        Flame(FlameSettings(bands=10), SPECTRUM)
    assert len(BANDS) == 72


@pytest.mark.parametrize("settings", [FlameSettings(), PLUS, FlameSettings(score="fixed")])
def test_mixed_precision_keeps_methane(settings):
    """Whitening, lift and score stay in single precision: a bfloat16 log-radiance is rounded to 0.4 %."""
    if not shield_from_amx():
        pytest.skip("this machine kills a process that multiplies bfloat16 matrices, whatever instructions it may use")
    flame = model(settings).eval()
    radiance, rgb, valid = batch()
    raw = [RawTile(*tile) for tile in zip(radiance, valid, rgb, strict=True)]
    inputs = BatchPreparer(settings, BANDS).prepare(raw).inputs
    with torch.no_grad():
        expected = flame(inputs)
        coordinates = flame.coordinates(inputs)
        lifted = flame.lifted(coordinates, inputs.get("pixel_fields"))
        with torch.autocast("cpu", torch.bfloat16):
            mixed = flame(inputs)
            assert torch.equal(flame.coordinates(inputs).scored, coordinates.scored)
            assert torch.equal(flame.lifted(coordinates, inputs.get("pixel_fields")), lifted)
    torch.testing.assert_close(mixed.score_ppm_m, expected.score_ppm_m)  # untrained heads do not look at the features
    torch.testing.assert_close(mixed.logit.float(), expected.logit, rtol=0.1, atol=0.1)


def test_settings_of_the_first_version_are_read():
    first = {
        "bands": 72,
        "conditioning": "tile",
        "score_space": "whitened",
        "noise_inputs": ["brightness", "noise"],
        "background": {"samples": 900, "passes": 2, "plume_sigma": 3.0, "floor": 1e-07},
        "rgb": "tile",
        "rgb_scale": 60.0,
    }
    found = FlameSettings.from_json(json.dumps(first))
    assert found.prepare.pixel_fields == ("brightness", "noise")
    assert found.prepare.background == BackgroundSettings(samples=900, passes=2)
    assert found.prepare.rgb == "tile"
    with pytest.raises(ModelSettingsError, match="unknown entries surprise"):
        FlameSettings.from_json(json.dumps(first | {"surprise": 1}))
    with pytest.raises(ModelSettingsError, match=r"prepare: background: passes must be"):
        FlameSettings.from_json(json.dumps(first | {"background": {"passes": 1e308}}))


def test_features_of_the_training_set_are_log_radiance_about_the_tiles_mean_in_its_whitening():
    flame = model(replace(PLUS, lift_space="training")).eval().double()
    radiance, rgb, valid = batch(2)
    raw = [RawTile(*tile) for tile in zip(radiance, valid, rgb, strict=True)]
    inputs = BatchPreparer(flame.settings, BANDS).prepare(raw).to(torch.float64).inputs
    plain = FlameSettings(conditioning="tile", lift_space="training")
    logs = BatchPreparer(plain, BANDS).prepare(raw).to(torch.float64).inputs
    with torch.no_grad():
        lifted = flame.lifted(flame.coordinates(inputs), inputs["pixel_fields"])
        centred = logs["log_radiance"] - logs["background_mean"][:, :, None, None]
        white = torch.einsum("ij,njrc->nirc", flame.whitening, centred)
        expected = flame.lift(torch.cat([white, inputs["pixel_fields"]], 1))
    assert (lifted - expected).abs().max() < 1e-3 * expected.std()


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    flame = model()
    weights = dict(flame.state_dict())
    weights["lift.bias"] = torch.full_like(weights["lift.bias"], float("nan"))
    save_model(tmp_path / "model.safetensors", flame.settings, weights, BANDS, {})
    with pytest.raises(WeightsError, match=r"NaN or infinity in lift\.bias"):
        load_model(tmp_path)
