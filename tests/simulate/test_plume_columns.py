"""Plumes: mass is conserved, the wind goes where it says, the same seed gives the same bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.errors import FlameError
from flame.physics import kg_per_m2_from_ppm_m
from flame.simulate.plume_puffs import Puffs, make_eddies, splat
from flame.simulate.plumes import PlumeSettings, draw_plumes, plume_column
from flame.tile import PlumeSource

PIXEL_M = 5.0
STEADY = PlumeSettings(burst_share=0.0)


def _mass_kg(column_ppm_m: np.ndarray) -> float:
    return float(column_ppm_m.sum(dtype=np.float64) * kg_per_m2_from_ppm_m() * PIXEL_M**2)


@pytest.mark.parametrize(("emission_kg_h", "wind_m_s"), [(80.0, 2.0), (500.0, 3.5), (5000.0, 6.0)])
def test_cross_wind_integral_times_wind_gives_the_emission_back(emission_kg_h: float, wind_m_s: float) -> None:
    source = PlumeSource(80.0, 20.0, emission_kg_h, wind_m_s, 90.0)
    sections = []
    for seed in range(24):
        column = plume_column(np.random.default_rng(seed), (160, 320), PIXEL_M, source, STEADY)
        line_kg_m = column[:, 40:280].sum(axis=0, dtype=np.float64) * PIXEL_M * kg_per_m2_from_ppm_m()
        sections.append(line_kg_m * wind_m_s * 3600.0)
    assert np.mean(sections) == pytest.approx(emission_kg_h, rel=0.05)


@given(seed=st.integers(0, 2**32 - 1), sigma_m=st.floats(0.5, 40.0))
@settings(max_examples=20, deadline=None)
def test_splatting_keeps_the_mass_place_and_size_of_puffs(seed: int, sigma_m: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(490.0, 510.0, (2, 5))
    puffs = Puffs(x, y, np.full(5, sigma_m), np.full(5, 0.2))
    column = splat(puffs, (200, 200), PIXEL_M).astype(np.float64)
    mass = column * PIXEL_M**2
    centre = (np.arange(200) + 0.5) * PIXEL_M
    assert column.min() >= 0.0
    assert mass.sum() == pytest.approx(1.0, rel=1e-3)
    assert mass.sum(axis=0) @ centre == pytest.approx(x.mean(), abs=0.05)
    assert mass.sum(axis=1) @ centre == pytest.approx(y.mean(), abs=0.05)
    variance = mass.sum(axis=0) @ np.square(centre - x.mean())
    # Sharing a puff between pixels adds at most a quarter of a pixel squared.
    assert np.var(x) + sigma_m**2 * 0.99 <= variance <= (np.var(x) + sigma_m**2) * 1.01 + 0.25 * PIXEL_M**2


def test_puffs_outside_the_tile_do_not_wrap_around() -> None:
    far = Puffs(np.array([-400.0]), np.array([320.0]), np.array([20.0]), np.array([1.0]))
    assert splat(far, (128, 128), PIXEL_M).max() < 1e-12


def test_mass_in_the_tile_is_emission_times_the_time_to_leave_it() -> None:
    source = PlumeSource(128.0, 128.0, 360.0, 4.0, 0.0)
    settings = replace(STEADY, intensity_range=(0.05, 0.05))
    column = plume_column(np.random.default_rng(3), (256, 256), PIXEL_M, source, settings)
    # From the source to the upper edge the wind takes 160 s, and 0.1 kg leave each second.
    assert _mass_kg(column) == pytest.approx(16.0, rel=0.1)


@pytest.mark.parametrize(
    ("wind_to_deg", "half"),
    [(0.0, np.s_[:64]), (180.0, np.s_[64:]), (90.0, np.s_[:, 64:]), (270.0, np.s_[:, :64])],
)
def test_wind_blows_to_its_direction(wind_to_deg: float, half: tuple[slice, ...]) -> None:
    source = PlumeSource(64.0, 64.0, 200.0, 4.0, wind_to_deg)
    column = plume_column(np.random.default_rng(0), (128, 128), PIXEL_M, source, STEADY)
    assert column[half].sum() > 0.9 * column.sum()


def test_twice_the_emission_is_twice_the_column() -> None:
    once, twice = (
        plume_column(np.random.default_rng(5), (96, 96), PIXEL_M, PlumeSource(48.0, 10.0, q, 3.0, 90.0), STEADY)
        for q in (50.0, 100.0)
    )
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-4, atol=1e-2)


def test_same_seed_same_bytes_and_another_seed_another_plume() -> None:
    settings = PlumeSettings(source_shares=(0.0, 0.5, 0.5))
    first, again, other = (draw_plumes(np.random.default_rng(s), (128, 96), PIXEL_M, settings) for s in (1, 1, 2))
    assert first.column_ppm_m.tobytes() == again.column_ppm_m.tobytes()
    assert first.sources == again.sources
    assert first.column_ppm_m.tobytes() != other.column_ppm_m.tobytes()


def test_counts_of_sources_and_emissions_follow_their_distributions() -> None:
    settings = PlumeSettings(tracers=2, emission_range_kg_h=(1e-3, 1e9))
    rng = np.random.default_rng(0)
    drawn = [draw_plumes(rng, (16, 16), 40.0, settings) for _ in range(300)]
    shares = np.bincount([len(d.sources) for d in drawn], minlength=len(settings.source_shares)) / len(drawn)
    np.testing.assert_allclose(shares, settings.source_shares, atol=0.09)
    log_rate = np.log([s.emission_kg_h for d in drawn for s in d.sources])
    assert log_rate.mean() == pytest.approx(np.log(settings.emission_median_kg_h), abs=0.3)
    assert log_rate.std() == pytest.approx(settings.emission_log_sigma, rel=0.2)


def test_emissions_scale_with_the_width_of_the_tile() -> None:
    settings = PlumeSettings(source_shares=(0.0, 1.0), tracers=2)
    small, large = (draw_plumes(np.random.default_rng(4), (n, n), PIXEL_M, settings).sources[0] for n in (128, 512))
    assert small.emission_kg_h >= settings.emission_range_kg_h[0]
    assert large.emission_kg_h == pytest.approx(4 * small.emission_kg_h)


def test_columns_stay_within_what_the_absorption_table_covers() -> None:
    settings = PlumeSettings(source_shares=(0.0, 1.0), emission_median_kg_h=15_000.0)
    rng = np.random.default_rng(7)
    assert max(draw_plumes(rng, (64, 64), PIXEL_M, settings).column_ppm_m.max() for _ in range(20)) < 40_000.0


def test_eddies_have_the_speed_asked_for_and_lose_it_with_smoothing() -> None:
    eddies = make_eddies(np.random.default_rng(0), 1000.0, 128, 200.0, 0.7, 0.05)
    energy = np.square(np.abs(eddies.velocity_m_s)).mean(axis=(1, 2))
    np.testing.assert_allclose(np.sqrt(energy[0] / 2), 0.7, rtol=1e-3)
    assert (np.diff(energy, axis=0) < 0).all()


def test_turning_eddies_neither_gather_nor_part() -> None:
    eddies = make_eddies(np.random.default_rng(0), 1000.0, 128, 200.0, 1.0, 0.0)
    smooth = eddies.velocity_m_s[3, ..., 0]
    divergence = np.gradient(smooth.real, axis=1) + np.gradient(smooth.imag, axis=0)
    shear = np.gradient(smooth.imag, axis=1) - np.gradient(smooth.real, axis=0)
    inner = np.s_[2:-2, 2:-2]
    assert np.abs(divergence[inner]).mean() < 0.05 * np.abs(shear[inner]).mean()


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(FlameError, match="sum to one"):
        PlumeSettings(source_shares=(0.5, 0.2))
    with pytest.raises(FlameError, match="wind_range_m_s"):
        PlumeSettings(wind_range_m_s=(0.0, 3.0))
    with pytest.raises(FlameError, match="emission_range_kg_h"):
        draw_plumes(
            np.random.default_rng(0),
            (16, 16),
            PIXEL_M,
            PlumeSettings(source_shares=(0.0, 1.0), emission_range_kg_h=(1e8, 1e9)),
        )
