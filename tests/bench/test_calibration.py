"""The figures that calibrate the simulator are what they say, and the simulator meets STARCOP's."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from flame.bench.calibration import (
    compare,
    matched_filter_noise,
    measure_simulation,
    measure_tile,
    pool,
    published_starcop,
)
from flame.bench.calibration_report import comparison_table, plot_comparison
from flame.errors import FlameError
from flame.physics import BandSet, sensor, unit_absorption
from flame.pipeline.datasets import SimulationPlan
from flame.scene import Scene
from flame.tile import LabelledTile

BANDS = sensor("aviris-ng").bands.methane()


def noise_tile(relative, level=1.0, label=None, seed=0, bands=BANDS):
    rng = np.random.default_rng(seed)
    values = level * (1.0 + relative * rng.standard_normal((len(bands), 64, 64)))
    valid = np.ones((64, 64), np.bool_)
    label = np.zeros((64, 64), np.bool_) if label is None else label
    return LabelledTile("a", Scene(values.astype(np.float32), bands, valid), label)


def test_matched_filter_noise_of_white_noise_is_known():
    expected = 1e5 * 0.01 / np.linalg.norm(unit_absorption(BANDS))
    assert matched_filter_noise(1e-4 * np.eye(len(BANDS)), BANDS) == pytest.approx(expected, rel=1e-6)
    assert measure_tile(noise_tile(0.01)).noise_ppm_m == pytest.approx(expected, rel=0.05)


def test_pooling_sees_what_differs_between_tiles():
    pooled = pool([measure_tile(noise_tile(0.01, level, seed=seed)) for seed, level in enumerate((0.5, 1.5))], "x")
    assert pooled.eigenvalues[0] == pytest.approx(72 * 0.25, rel=0.01)
    assert pooled.eigenvalues[1] < 1e-3


def test_plume_shares_are_counted():
    label = np.zeros((64, 64), np.bool_)
    label[:8, :8] = True
    pooled = pool([measure_tile(noise_tile(0.01, label=label)), measure_tile(noise_tile(0.01))], "x")
    assert pooled.plume_pixel_share == pytest.approx(64 / (2 * 64 * 64))
    assert pooled.plume_tile_share == 0.5


def test_a_reference_compared_with_itself_fits():
    reference = replace(published_starcop(), tile_noise_ppm_m=np.array([700.0, 750.0]))
    comparison = compare(reference, reference)
    assert comparison.eigenvalue_worst_ratio == pytest.approx(1.0)
    assert comparison.shape_error == pytest.approx(0.0, abs=1e-12)
    doubled = compare(replace(reference, eigenvalues=reference.eigenvalues / 2), reference)
    assert doubled.eigenvalue_worst_ratio == pytest.approx(2.0)


def test_published_figures_are_starcops():
    reference = published_starcop()
    assert reference.noise_ppm_m == 725.5
    assert reference.condition_number == pytest.approx(434_000, rel=0.01)
    assert reference.eigenvalues.size == 72


def test_tiles_of_different_bands_and_empty_sets_are_refused():
    other = BandSet(BANDS.centres_nm + 3.0, BANDS.fwhm_nm)
    with pytest.raises(FlameError, match="different bands"):
        pool([measure_tile(noise_tile(0.01)), measure_tile(noise_tile(0.01, bands=other))], "x")
    with pytest.raises(FlameError, match="no tile"):
        pool([], "x")


def test_the_default_preset_stays_near_starcop(tmp_path):
    # A small sample scatters; the full table with 200 tiles is in docs/simulator.md.
    simulated = measure_simulation(SimulationPlan(tiles=24, seed=1, size=96), workers=2)
    comparison = compare(simulated, published_starcop())
    figures = comparison.to_json()
    assert 400 < figures["matched_filter_noise_ppm_m"] < 1000
    assert figures["eigenvalue_worst_ratio"] < 4.5
    assert figures["plume_pixel_share"] < 0.02
    assert comparison.shape_error < 0.2
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(comparison_table(comparison))
    printed = console.export_text()
    assert f"{comparison.eigenvalue_worst_ratio:.2f}" in printed
    assert "726" in printed
    assert plot_comparison(comparison, tmp_path / "plot.png").stat().st_size > 10_000
