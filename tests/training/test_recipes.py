"""Recipes say what the paper says, and can be changed by name."""

import pytest

from flame.training.loop import learning_rate
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
        ("epochs=many", "not of that kind"),
        ("epochs.more=1", "no settings inside"),
    ],
)
def test_overrides_that_do_not_fit_are_refused(change, message):
    with pytest.raises(OverrideError, match=message):
        override(recipe("tiny"), [change])
    with pytest.raises(UnknownRecipeError, match="flame-plus"):
        recipe("flame")
