"""Presets: `wide` is a mixture with known shares, every level follows the noise, and nothing is ignored silently."""

from dataclasses import replace

import numpy as np
import pytest

from flame.errors import FlameError
from flame.simulate import PRESETS, LabelSettings, PlumeSettings, Regime, TileSettings, preset, simulate_tile
from flame.simulate import tile_generator as generator


def test_regimes_are_drawn_by_their_shares():
    wide = preset("wide", size=32)
    rng = np.random.default_rng(0)
    drawn = [wide.regime(rng) for _ in range(2000)]
    for regime in wide.regimes:
        assert sum(d == regime.settings for d in drawn) / len(drawn) == pytest.approx(regime.share, abs=0.04)
        assert regime.settings.label == LabelSettings()


def test_quiet_has_a_quarter_of_the_noise_and_of_the_plumes():
    quiet, permian = PRESETS["quiet"], PRESETS["permian"]
    for end in ("low", "high"):
        ratio = getattr(quiet.instrument.noise_scale, end) / getattr(permian.instrument.noise_scale, end)
        assert ratio == pytest.approx(0.25)
    assert quiet.plume.emission_median_kg_h == permian.plume.emission_median_kg_h / 4
    assert quiet.label == permian.label


def test_size_and_sensor_reach_every_regime():
    wide = preset("wide", size=40, sensor_name="emit")
    assert {r.settings.instrument.sensor for r in wide.regimes} == {wide.instrument.sensor} == {"emit"}
    assert {(r.settings.size, r.settings.pixel_m) for r in wide.regimes} == {(40, 60.0)}
    tile = simulate_tile(generator(0, 1), wide, "a").tile
    assert tile.scene.shape == (40, 40)


def test_a_mixture_is_changed_through_its_regimes_only():
    wide = preset("wide", size=32)
    with pytest.raises(FlameError, match="change those"):
        replace(wide, plume=PlumeSettings(source_shares=(0.0, 1.0)))
    changed = wide.each(lambda s: replace(s, plume=replace(s.plume, source_shares=(0.0, 1.0))))
    assert {regime.settings.plume.source_shares for regime in changed.regimes} == {(0.0, 1.0)}
    assert simulate_tile(generator(0, 0), changed, "a").tile.sources
    with pytest.raises(FlameError, match="sum to one"):
        TileSettings(regimes=(Regime("a", 0.5, TileSettings()),))


def test_presets_without_regimes_are_their_own():
    narrow = preset("narrow")
    state = np.random.default_rng(3)
    before = state.bit_generator.state
    assert narrow.regime(state) is narrow
    assert state.bit_generator.state == before
