"""Training on fresh tiles: what is drawn, what is scored, and that a killed run goes on."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from flame.models.plus import LEVELS_PPM_M, FlamePlus, PlusOutput, PlusSettings
from flame.models.plus.weights import load_plus
from flame.physics import sensor
from flame.scene import Scene
from flame.simulate import NoisePool, PlumeSettings, draw_background, make_plume_pool, preset, tile_generator
from flame.training.fresh_run import FreshRunSettings, learn_conditioning, planes_of, plus_loss, train_fresh
from flame.training.fresh_tiles import FreshBatch, FreshSource, SensorShare, draw_batch, own_weights
from flame.training.real_ground import mirrored, real_ground, seen_in

SMALL = PlusSettings(functions=4, width=8, hidden=8)


@pytest.fixture(scope="module")
def source() -> FreshSource:
    rng = np.random.default_rng(0)
    ground = [draw_background(tile_generator(8, i), preset("wide", size=80), f"ground {i}") for i in range(2)]
    plume = PlumeSettings(source_shares=(0.0, 1.0))
    return FreshSource(ground, {}, [make_plume_pool(rng, 3, 80, 5.0, plume)], NoisePool(rng, 1 << 23))


@pytest.fixture(scope="module")
def batch(source: FreshSource) -> FreshBatch:
    return draw_batch(np.random.default_rng(1), source, 64, 2, "emit")


def test_a_batch_is_of_one_sensor_and_has_its_truth(batch: FreshBatch) -> None:
    bands = len(sensor("emit").bands.methane())
    assert batch.spectra.residual.shape == (2, bands, 64, 64)
    assert batch.enhancement_ppm_m.max() > 0
    assert torch.isfinite(batch.fields).all()
    assert (batch.valid | ~batch.usable).all()


def test_the_same_seed_draws_the_same_tiles(source: FreshSource) -> None:
    one, two = (draw_batch(np.random.default_rng(5), source, 64, 1) for _ in range(2))
    assert torch.equal(one.fields, two.fields)
    assert torch.equal(one.enhancement_ppm_m, two.enhancement_ppm_m)


def test_bands_that_nobody_has_are_drawn_too(source: FreshSource) -> None:
    drawn = [draw_batch(np.random.default_rng(seed), source, 64, 1, None).spectra.weights for seed in (1, 2)]
    assert drawn[0].shape != drawn[1].shape or not torch.equal(drawn[0], drawn[1])


def test_turned_tiles_are_the_same_tiles(batch: FreshBatch) -> None:
    other = batch.turned(1, True)
    assert not torch.equal(other.fields, batch.fields)
    back = other.turned(1, True)  # mirrored turns undo each other
    for name in ("fields", "outline", "enhancement_ppm_m"):
        assert torch.equal(getattr(back, name), getattr(batch, name))
    assert torch.equal(back.spectra.residual, batch.spectra.residual)
    assert torch.equal(other.spectra.weights, batch.spectra.weights)
    turned = torch.rot90(batch.spectra.residual.flip(-1), 1, (-2, -1))
    assert torch.equal(other.spectra.residual, turned)


def test_the_truth_scores_best(batch: FreshBatch) -> None:
    truth = torch.asinh(batch.enhancement_ppm_m / batch.sigma_ppm_m)
    levels = torch.tensor(LEVELS_PPM_M)[None, :, None, None]
    sure = 20.0 * ((batch.smooth_ppm_m[:, None] > levels).float() - 0.5)
    right = PlusOutput(
        sure, 20.0 * (batch.outline.float() - 0.5), truth, torch.full_like(truth, -4.0), torch.sinh(truth)
    )
    best = plus_loss(right, batch)
    for worse in (
        replace(right, level_logits=0.2 * sure),
        replace(right, outline_logit=-right.outline_logit),
        replace(right, median=truth + 0.5),
        replace(right, log_spread=torch.zeros_like(truth)),
        replace(right, score_sigma=right.score_sigma + 1.0),
    ):
        assert plus_loss(worse, batch).total > best.total


def test_crps_is_that_of_a_normal_distribution(batch: FreshBatch) -> None:
    """Against the definition: the mean distance from the truth, minus half that between two draws."""
    truth = torch.asinh(batch.enhancement_ppm_m / batch.sigma_ppm_m)
    out = PlusOutput(
        torch.zeros(2, len(LEVELS_PPM_M), 64, 64), torch.zeros(2, 64, 64), truth + 0.3, torch.full_like(truth, -0.5),
        torch.sinh(truth),
    )  # fmt: skip
    torch.manual_seed(0)
    spread = math.exp(-0.5)
    draws, others = (0.3 + spread * torch.randn(400_000) for _ in range(2))
    expected = float(draws.abs().mean() - 0.5 * (draws - others).abs().mean())
    assert float(plus_loss(out, batch).enhancement) == pytest.approx(expected, rel=0.01)


def test_conditioned_spectra_have_unit_variance(source: FreshSource) -> None:
    matrix = learn_conditioning(np.random.default_rng(3), source, 64, batches=6)
    drawn = draw_batch(np.random.default_rng(4), source, 64, 2, "aviris-ng")
    chosen = drawn.spectra.residual.transpose(0, 1).flatten(1)[:, drawn.usable.flatten()].double()
    values = matrix @ drawn.spectra.weights.double().numpy() @ chosen.numpy()
    assert 0.02 < np.sqrt(np.square(values).mean()) < 3.0


def test_real_ground_in_every_sensors_bands() -> None:
    bands = sensor("aviris-ng").bands.methane()
    rng = np.random.default_rng(2)
    scene = Scene((1.0 + rng.random((len(bands), 40, 40))).astype(np.float32), bands, np.ones((40, 40), np.bool_))
    grounds = real_ground({"fields": scene}, ["emit", "prisma"], 64, rng)
    for name, (ground,) in grounds.items():
        assert ground.valid.shape == (64, 64)
        assert ground.grid.matches(sensor(name).bands.methane())
    assert seen_in(scene, sensor("emit").bands.methane()).radiance.min() > 0
    same = mirrored(grounds["emit"][0], 20)
    assert same.valid.shape == (64, 64)


def test_a_run_learns_and_a_killed_one_goes_on(source: FreshSource, tmp_path: Path) -> None:
    short = FreshRunSettings(minutes=0.12, tiles=1, batches=1, size=64, workers=1, checkpoint_minutes=0.02)
    threads = torch.get_num_threads()
    train_fresh(tmp_path, source, SMALL, replace(short, threads=threads + 1), facts={"seed": 0})
    assert torch.get_num_threads() == threads, "who trains after this has the threads he had"
    first = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert first["step"] > 0
    train_fresh(tmp_path, source, SMALL, replace(short, minutes=0.2))
    second = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert second["step"] > first["step"]
    assert second["drawn"] > first["drawn"]
    stored = load_plus(tmp_path)
    train_fresh(tmp_path / "on", source, SMALL, replace(short, minutes=1e-6), start=tmp_path / "model.safetensors")
    on = load_plus(tmp_path / "on")
    assert torch.equal(on.model.project.weight, stored.model.project.weight)
    assert on.facts["started_from"] == stored.facts
    model = stored.model
    fresh = draw_batch(np.random.default_rng(9), source, 64, 1, "emit")
    with torch.no_grad():
        trained = plus_loss(model(planes_of(model, fresh)), fresh)
        torch.manual_seed(0)
        untrained = FlamePlus(SMALL).eval()
        start = plus_loss(untrained(planes_of(untrained, fresh)), fresh)
    assert torch.isfinite(trained.total)
    assert float(trained.score) < 2 * float(start.score)


def test_a_run_can_be_told_its_steps(source: FreshSource, tmp_path: Path) -> None:
    run = FreshRunSettings(minutes=1e-9, steps=3, tiles=1, batches=1, size=64, workers=1)
    train_fresh(tmp_path, source, SMALL, run)
    assert load_plus(tmp_path).facts["step"] == 3


def test_a_network_without_functions_needs_no_spectra(source: FreshSource) -> None:
    with_them, without = (
        draw_batch(np.random.default_rng(5), replace(source, spectra=given), 64, 1, "emit") for given in (True, False)
    )
    assert without.spectra.residual.shape[1] == 0
    assert torch.allclose(with_them.fields, without.fields, atol=2e-3), "the kernels, here, and the reference"
    assert torch.allclose(with_them.windows, without.windows, atol=2e-3)
    assert torch.equal(with_them.usable, without.usable)
    model = FlamePlus(PlusSettings(functions=0, width=8, hidden=8)).eval()
    medians = [model(planes_of(model, drawn)).median for drawn in (with_them, without)]
    assert torch.allclose(*medians, atol=1e-2)


def test_half_the_digits_learn_nearly_the_same(source: FreshSource, batch: FreshBatch, tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = FlamePlus(PlusSettings(functions=0, width=8, hidden=8)).eval()
    whole = model(planes_of(model, batch))
    with torch.autocast("cpu", torch.bfloat16):
        halved = model(planes_of(model, batch))
    assert halved.median.dtype == halved.level_logits.dtype == torch.float32
    assert not torch.equal(halved.median, whole.median), "nothing was halved"
    assert torch.allclose(halved.median, whole.median, atol=0.1)
    run = FreshRunSettings(minutes=1e-9, steps=2, tiles=1, batches=1, size=64, workers=1, bfloat16=True)
    trained = train_fresh(tmp_path, source, model.settings, run)
    assert trained.project.weight.dtype == torch.float32
    assert torch.isfinite(trained.project.weight).all()


def test_a_source_of_one_sensor_draws_no_other(source: FreshSource) -> None:
    only = replace(source, sensors=[SensorShare("prisma", 1.0)])
    bands = len(sensor("prisma").bands.methane())
    for seed in range(4):
        assert draw_batch(np.random.default_rng(seed), only, 64, 1).spectra.residual.shape[1] == bands


def test_with_fixed_bands_each_band_has_a_weight_of_its_own(source: FreshSource) -> None:
    only = replace(source, sensors=[SensorShare("emit", 1.0)], fixed_bands=True)
    drawn = draw_batch(np.random.default_rng(1), only, 64, 1)
    bands = sensor("emit").bands.methane()
    weights = torch.from_numpy(own_weights(bands)).float()
    assert torch.equal(drawn.spectra.weights, weights)
    model = FlamePlus(SMALL)
    own = model.band_functions(weights)
    assert own.shape == (SMALL.functions, len(bands))
    assert torch.equal(own, torch.nn.functional.normalize(model.functions, dim=1)[:, : len(bands)])


@pytest.mark.parametrize("score", [False, True])
def test_a_network_without_fields_takes_nothing_from_them(batch: FreshBatch, score: bool) -> None:
    torch.manual_seed(1)
    model = FlamePlus(replace(SMALL, fields=False, score=score)).eval()
    planes = planes_of(model, batch)
    with torch.no_grad():
        told = model(planes)
        other = model(replace(planes, fields=torch.randn_like(planes.fields)))
        elsewhere = model(replace(planes, estimate_ppm_m=planes.estimate_ppm_m + planes.sigma_ppm_m))
    assert torch.equal(told.median, other.median)
    assert torch.equal(told.level_logits, other.level_logits)
    assert torch.equal(told.median, elsewhere.median) == (not score), "the score starts as the filter's estimate"
