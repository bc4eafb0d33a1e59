"""Recipes say what the paper says, and can be changed by name."""

import numpy as np
import pytest
import torch
from tiles import BANDS, SPECTRUM, toy_tile
from toy_run import toy_recipe, toy_trainer

from flame.models import BatchPreparer, Flame, RawTile, SpectralStatistics
from flame.models.weights import load_model
from flame.training.loop import Trainer, learning_rate
from flame.training.overrides import OverrideError, override
from flame.training.recipes import RECIPES, OptimizerSettings, UnknownRecipeError, recipe


def test_the_paper_recipe_is_the_papers():
    paper = recipe("paper")
    assert (paper.epochs, paper.batch.size, paper.batch.crop) == (50, 24, None)
    best = paper.optimizer
    assert (best.rate, best.last_rate, best.weight_decay, best.clip_norm) == (2e-3, 1e-6, 1e-4, 1.0)
    assert (best.warmup_steps, best.averaging) == (0, 0.0)
    assert (paper.loss.beta_max, paper.loss.rho, paper.loss.teacher_epochs) == (50.0, 10.0, 10.0)
    assert (paper.model.tau_ppm_m, paper.model.width, paper.model.modes) == (1750.0, 14, 12)
    assert {"paper", "cpu", "flame-plus", "tiny"} <= RECIPES.keys()


def test_strict_paper_takes_back_what_is_ours():
    strict, paper = recipe("strict-paper"), recipe("paper")
    assert (strict.loss, strict.batch, strict.optimizer, strict.epochs) == (
        paper.loss,
        paper.batch,
        paper.optimizer,
        paper.epochs,
    )
    assert (strict.keep, paper.keep) == ("last", "best")
    kind = strict.model
    assert (kind.conditioning, kind.score_space, kind.lift_start, kind.clamp_leak) == ("none", "log", "random", 0.0)
    # Its score starts as the residual along the absorption spectrum itself, whatever the bands' variances are.
    statistics = SpectralStatistics(np.zeros(len(BANDS)), np.diag(np.linspace(1.0, 9.0, len(BANDS))))
    tile = toy_tile(np.random.default_rng(0), 24)
    raw = RawTile(tile.radiance, tile.valid, tile.rgb)
    along = torch.tensor(SPECTRUM, dtype=torch.float32)
    expected = 1e5 * torch.einsum("b,brc->rc", along / along.square().sum(), torch.tensor(tile.radiance).log())
    found = {}
    for name in ("strict-paper", "paper"):
        settings = recipe(name).model
        with torch.no_grad():
            given = BatchPreparer(settings, BANDS).prepare([raw]).inputs
            found[name] = Flame(settings, SPECTRUM, statistics).eval()(given).score_ppm_m[0]
    torch.testing.assert_close(found["strict-paper"], expected, rtol=1e-4, atol=1.0)
    assert (found["paper"] - expected).abs().max() > 1000.0


@pytest.mark.parametrize(("keep", "epoch"), [("best", 1), ("last", 3)])
def test_the_kept_epoch_is_the_recipes(keep, epoch, tmp_path, monkeypatch):
    scores = iter([0.5, 0.4, 0.3])
    names = ("precision", "recall", "pixel_fpr", "tile_fpr", "auprc")
    monkeypatch.setattr(Trainer, "_validate", lambda _: {"f1": next(scores), **dict.fromkeys(names, 0.1)})
    progress = toy_trainer(tmp_path, toy_recipe("strict-paper", keep=keep)).run()
    assert progress.best_epoch == epoch
    assert load_model(tmp_path).provenance["validation"]["epoch"] == epoch


def test_learning_rate_is_a_cosine_to_the_last_rate():
    settings = OptimizerSettings()
    assert learning_rate(0, 100, settings) == 2e-3
    assert learning_rate(99, 100, settings) == pytest.approx(1e-6)
    assert learning_rate(33, 67, settings) == pytest.approx((2e-3 + 1e-6) / 2)
    warm = OptimizerSettings(warmup_steps=10)
    assert learning_rate(4, 100, warm) == pytest.approx(1e-3)
    assert learning_rate(10, 100, warm) == pytest.approx(2e-3)


def test_overrides_reach_every_level():
    changed = override(
        recipe("flame-plus"),
        ["model.score=none", "optimizer.rate=1e-3", "model.prepare.background.passes=3", "batch.crop=null", "epochs=2",
         "model.prepare.pixel_fields=brightness,noise", "loss.teacher_epochs=5"],
    )  # fmt: skip
    assert changed.model.score == "none"
    assert changed.optimizer.rate == 1e-3
    assert changed.model.prepare.background.passes == 3
    assert changed.batch.crop is None
    assert changed.epochs == 2
    assert changed.model.prepare.pixel_fields == ("brightness", "noise")
    assert changed.loss.teacher_epochs == 5.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.scroe=none", "no setting 'model.scroe'"),
        ("epochs", "name=value"),
        ("epochs=many", "of type int; .many. is of type str"),
        ("epochs.more=1", "epochs is a single setting; write epochs=1"),
        ("batch=4", "'batch' is a group of settings; change one of batch.size, .*: batch.size=4"),
    ],
)
def test_overrides_that_do_not_fit_are_refused(change, message):
    with pytest.raises(OverrideError, match=message):
        override(recipe("tiny"), [change])
    with pytest.raises(UnknownRecipeError, match="flame-plus"):
        recipe("flame")
