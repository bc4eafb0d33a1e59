"""Laws of the model: what it contains, what cannot reach its output, and how large it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiles import BANDS, SPECTRUM, toy_tile

from flame.filters import LogMfSettings, fit_log_mf, log_mf
from flame.models import BackgroundSettings, Flame, FlameSettings, ModelSettingsError, SpectralStatistics
from flame.models.heads import PhysicsHeads, leaky_clamp, softplus_inverse
from flame.models.noise_inputs import NOISE_INPUTS, WhitenedTile, clutter, enhancement
from flame.training.precision import shield_from_amx

PLUS = FlameSettings(
    conditioning="tile",
    score_space="whitened",
    noise_inputs=tuple(NOISE_INPUTS),
    rgb="tile",
)
VARIANTS = {
    "paper": FlameSettings(),
    "unconditioned": FlameSettings(conditioning="none"),
    "plus": PLUS,
    "plus, features of the training set": replace(PLUS, lift_space="training"),
    "no score": FlameSettings(score="none"),
    "fixed": FlameSettings(score="fixed"),
    "weights": FlameSettings(score="weights", score_space="projected"),
}


def batch(count=2, size=40, seed=0):
    rng = np.random.default_rng(seed)
    tiles = [toy_tile(rng, size) for _ in range(count)]
    return tuple(torch.from_numpy(np.stack([getattr(t, k) for t in tiles])) for k in ("radiance", "rgb", "valid"))


def statistics(radiance):
    log = np.log(radiance.numpy().astype(np.float64)).transpose(1, 0, 2, 3).reshape(radiance.shape[1], -1)
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
    fitted = fit_log_mf(
        radiance[0].numpy(), BANDS, np.ones((40, 40), bool), LogMfSettings(covariance="diagonal")
    )  # fmt: skip
    flame = model(FlameSettings(conditioning="none"), seed).eval()
    with torch.no_grad():
        flame.heads.b_bg.copy_(torch.from_numpy(fitted.mean_log))
        flame.heads.b_sw.copy_(softplus_inverse(torch.from_numpy(1 / fitted.variance)))
    for tile in (radiance, batch(1, seed=seed + 10)[0]):
        z = flame.backbone(torch.randn(1, 14, 40, 40))
        ours = flame.heads(tile.log(), z, flame.unit_spectrum[None])[0].detach().numpy()
        expected = fitted.numerator(tile[0].log().flatten(1).numpy()).reshape(40, 40)
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
    with torch.no_grad():
        start = flame(radiance, rgb, valid).score_ppm_m
        same = (start[:, 1, 1] - start[:, 30, 30]).abs().max()
        getattr(flame.heads, moved).normal_(0, 0.1)
        apart = flame(radiance, rgb, valid).score_ppm_m
    assert same < 1e-3 * start.abs().max()
    assert (apart[:, 1, 1] - apart[:, 30, 30]).abs().max() > 10 * same + 1.0


def test_the_untrained_plus_score_is_the_tiles_log_matched_filter_in_ppm_m():
    flame = model(PLUS).eval()
    radiance, rgb, valid = batch(2, size=64, seed=3)
    with torch.no_grad():
        score = flame(radiance, rgb, valid).score_ppm_m.numpy()
    for tile, found in zip(radiance.numpy(), score, strict=True):
        expected = log_mf.score(tile, BANDS, np.ones((64, 64), bool))
        assert np.abs(found - expected).max() < 0.03 * expected.std()


def test_plus_score_recovers_the_enhancement():
    rng = np.random.default_rng(5)
    tile = toy_tile(rng, 96, peak_ppm_m=4000.0)
    settings = FlameSettings(
        conditioning="tile", score_space="whitened", background=BackgroundSettings(passes=3), rgb="none"
    )
    with torch.no_grad():
        score = (
            model(settings)
            .eval()(torch.from_numpy(tile.radiance[None]), None, torch.from_numpy(tile.valid[None]))
            .score_ppm_m[0]
        )
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
    spoiled, spoiled_rgb = radiance.clone(), rgb.clone()
    spoiled.movedim(1, -1)[~valid] = poison
    spoiled_rgb.movedim(1, -1)[~valid] = poison
    with torch.no_grad():
        clean, dirty = flame(radiance, rgb, valid), flame(spoiled, spoiled_rgb, valid)
    assert torch.isfinite(dirty.logit).all()
    assert torch.equal(clean.logit, dirty.logit)
    if clean.score_ppm_m is not None:
        assert torch.equal(clean.score_ppm_m, dirty.score_ppm_m)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_nan_marked_valid_stays_where_it_is(name):
    flame = model(VARIANTS[name]).eval()
    radiance, rgb, valid = batch()
    radiance[0, 7, 3, 4] = float("nan")
    with torch.no_grad():
        assert torch.isfinite(flame(radiance, rgb, valid).logit).all()


@pytest.mark.parametrize("settings", [FlameSettings(), PLUS])
def test_tiles_without_contrast_or_without_pixels_stay_finite(settings):
    flame = model(settings).eval()
    with torch.no_grad():
        constant = flame(torch.full((1, 72, 24, 24), 0.3), torch.ones(1, 3, 24, 24), torch.ones(1, 24, 24).bool())
        empty = flame(torch.zeros(1, 72, 24, 24), torch.zeros(1, 3, 24, 24), torch.zeros(1, 24, 24).bool())
    assert torch.isfinite(constant.logit).all()
    assert torch.isfinite(empty.logit).all()


@pytest.mark.parametrize("size", [(8, 8), (13, 21), (24, 100)])
def test_takes_tiles_of_any_size(size):
    flame = model().eval()
    with torch.no_grad():
        out = flame(torch.rand(1, 72, *size) + 0.1, torch.rand(1, 3, *size), torch.ones(1, *size).bool())
    assert out.logit.shape == (1, *size)


@pytest.mark.parametrize("space", ["tile", "training"])
@pytest.mark.parametrize("gain", [0.01, 100.0])
def test_a_constant_factor_on_radiance_does_not_change_plus(gain, space):
    """STARCOP's radiance carries a factor for date and sun angle; dark pixels are floored by the tile's own level."""
    flame = model(replace(PLUS, lift_space=space)).eval().double()
    radiance, rgb, valid = batch()
    radiance, rgb = radiance.double(), rgb.double()
    radiance[:, :, :8] *= 0.01
    radiance[:, 5:9, 8:12] = 0.0
    with torch.no_grad():
        before, after = flame(radiance, rgb, valid), flame(gain * radiance, gain * rgb, valid)
    torch.testing.assert_close(before.logit, after.logit, rtol=1e-6, atol=1e-6)


def test_enhancement_and_clutter_inputs_are_in_ppm_m():
    """Twice the tile's noise is twice the enhancement that a standard deviation stands for."""
    rng = np.random.default_rng(0)
    white = torch.from_numpy(rng.normal(size=(1, 72, 64, 64)).astype(np.float32))
    target = torch.from_numpy(SPECTRUM.astype(np.float32))[None]
    target *= 200.0 / target.norm()  # 500 ppm m a standard deviation
    quiet, loud = (WhitenedTile(white, white, unit, torch.zeros(1)) for unit in (target, target / 2))
    torch.testing.assert_close(enhancement(quiet), torch.asinh(quiet.response))
    torch.testing.assert_close(enhancement(loud).sinh(), 2 * enhancement(quiet).sinh(), rtol=1e-4, atol=1e-4)
    assert float(clutter(quiet).exp().mean()) == pytest.approx(1.0, rel=0.05)
    torch.testing.assert_close(clutter(loud) - clutter(quiet), torch.full((1, 64, 64), float(np.log(2))))


def test_whitening_by_training_statistics_folds_into_the_lift():
    flame = model().eval()
    log = batch(seed=4)[0].log()
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
    with pytest.raises(ModelSettingsError, match="matched_filter"):
        FlameSettings(noise_inputs=("wind",))
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
    with torch.no_grad():
        expected = flame(radiance, rgb, valid)
        inputs = flame.condition(radiance, rgb, valid)
        lifted = flame.lifted(inputs)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = flame(radiance, rgb, valid)
            assert torch.equal(flame.condition(radiance, rgb, valid).scored, inputs.scored)
            assert torch.equal(flame.lifted(inputs), lifted)
    torch.testing.assert_close(mixed.score_ppm_m, expected.score_ppm_m)  # untrained heads do not look at the features
    torch.testing.assert_close(mixed.logit.float(), expected.logit, rtol=0.1, atol=0.1)
