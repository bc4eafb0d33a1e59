"""CEM, MF and ACE against their formulas written out, for both target rules."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters import FILTERS, BackgroundSettings, FilterError, LinearSettings
from flame.physics import unit_absorption


def reference(name: str, radiance: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Textbook formulas in float64 with an explicit inverse; `target` as Herec et al. and pysptools pass it."""
    x = radiance.reshape(radiance.shape[0], -1).T.astype(np.float64)
    if name == "cem":
        inverse = np.linalg.inv(x.T @ x / len(x))
        return x @ inverse @ target / (target @ inverse @ target)
    z, t = x - x.mean(axis=0), target
    inverse = np.linalg.inv(np.cov(z.T))
    match, power = z @ inverse @ t, t @ inverse @ t
    return match / power if name == "mf" else match**2 / (power * np.einsum("ij,jk,ik->i", z, inverse, z))


@pytest.fixture(scope="module")
def tile():
    return simulated_tile(seed=3)


@pytest.mark.parametrize("name", ["cem", "mf", "ace"])
@pytest.mark.parametrize("rule", ["multiplicative", "additive"])
def test_equals_the_formula(tile, name, rule):
    mean, unit = tile.radiance.mean(axis=(1, 2), dtype=np.float64), unit_absorption(tile.bands)
    target = mean * unit
    if rule == "additive":
        target = unit if name == "cem" else unit - mean
    expected = reference(name, tile.radiance, target)
    got = FILTERS[name].score(*tile.inputs, LinearSettings(target=rule))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got.ravel(), expected, atol=2e-5 * np.abs(expected).max(), rtol=1e-3)
    by_name = FILTERS[name if rule == "multiplicative" else f"{name}-additive"].score(*tile.inputs)
    np.testing.assert_array_equal(by_name, got)


def test_ace_is_a_squared_cosine(tile):
    score = FILTERS["ace"].score(*tile.inputs)
    assert score.min() >= 0
    assert score.max() <= 1


@pytest.mark.parametrize("name", ["cem", "mf"])
def test_a_score_of_one_is_a_hundred_thousand_ppm_m(name):
    """So the canonical 0.004 means 400 ppm m; on a tile of even brightness, where the albedo does not matter."""
    tile = simulated_tile(seed=1, contrast=0.02, peak_ppm_m=1000.0, law="exponential", shape="box")
    plume = tile.enhancement_ppm_m > 0
    score = FILTERS[name].score(*tile.inputs)
    assert score[plume].mean() - score[~plume].mean() == pytest.approx(0.01, rel=0.05)


def test_the_multiplicative_target_does_not_depend_on_the_radiance_unit(tile):
    for name in ("cem", "mf", "ace"):
        before = FILTERS[name].score(*tile.inputs)
        after = FILTERS[name].score(np.float32(0.1) * tile.radiance, tile.bands, tile.valid)
        np.testing.assert_allclose(after, before, atol=1e-4 * np.abs(before).max())


def test_refuses_bands_that_do_not_fit(tile):
    with pytest.raises(FilterError, match=r"72 bands.*71 bands"):
        FILTERS["mf"].score(tile.radiance, tile.bands.select(np.arange(72) > 0), tile.valid)


def test_refuses_bands_without_methane(tile, monkeypatch):
    monkeypatch.setattr("flame.filters.target.unit_absorption", lambda bands: np.zeros(len(bands)))
    with pytest.raises(FilterError, match="methane absorbs in none of 72 bands"):
        FILTERS["mf"].score(*tile.inputs)


def test_settings_refuse_nonsense():
    with pytest.raises(FilterError, match="shrinkage"):
        BackgroundSettings(shrinkage=2.0)
    with pytest.raises(FilterError, match="albedo"):
        BackgroundSettings(min_albedo=0.0)
