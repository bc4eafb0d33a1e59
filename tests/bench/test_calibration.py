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
from flame.bench.calibration_filters import AIMS, PARTS, filter_figures, met_aims, probes, respond_to
from flame.bench.calibration_report import comparison_table, filter_table, plot_comparison
from flame.errors import FlameError
from flame.filters import filter_named
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


def test_the_mean_covariance_is_ruled_by_the_most_varied_tile_and_not_by_what_differs_between_tiles():
    pooled = pool([measure_tile(noise_tile(spread, seed=seed)) for seed, spread in enumerate((0.01, 0.03))], "x")
    assert pooled.eigenvalues.mean() == pytest.approx((0.01**2 + 0.03**2) / 2, rel=0.02)
    levels = pool([measure_tile(noise_tile(0.01, level, seed=seed)) for seed, level in enumerate((0.5, 1.5))], "x")
    assert levels.eigenvalues[0] < 0.01


def test_filters_are_judged_by_part_and_a_reference_meets_its_own_aims():
    label = np.zeros((64, 64), np.bool_)
    label[8:40, 8:48] = True
    tile = noise_tile(0.002, label=label)
    tile.scene.radiance[:, label] *= np.exp(unit_absorption(BANDS) * 0.05).astype(np.float32)[:, None]
    figures = filter_figures([respond_to(tile), respond_to(noise_tile(0.002, seed=1))])
    assert figures["weak"] == (None,) * len(probes())
    assert figures["strong"][0].recall == figures["all"][0].recall
    mag1c = [probe.filter for probe in probes()].index("mag1c")
    assert figures["all"][mag1c].recall > 0.95
    assert figures["all"][mag1c].precision > 0.95
    assert figures["strong"][mag1c].pixel_fpr >= figures["all"][mag1c].pixel_fpr
    published = published_starcop().filters
    met, count = met_aims(published, published)
    assert met == count == len(PARTS) * len(probes()) * len(AIMS)
    assert met_aims(figures, published)[0] < count


def test_thresholds_of_published_rows_are_those_of_the_filters():
    for probe in probes():
        assert probe.threshold == filter_named(probe.filter).threshold


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


def test_permian_stays_near_starcop(tmp_path):
    # A small sample scatters; the full table of 512-pixel tiles is in docs/simulator.md.
    simulated = measure_simulation(SimulationPlan(tiles=24, seed=1, size=128, preset="permian"), workers=2)
    comparison = compare(simulated, published_starcop())
    figures = comparison.to_json()
    assert 0.5 < figures["mean_level_ratio"] < 2.0
    assert comparison.shape_error < 0.2
    assert 100 < figures["tile_matched_filter_noise_10_50_90_ppm_m"][1] < 500
    row = next(r for r in figures["filters"] if r["filter"] == "MAG1C" and r["tiles"] == "all")
    assert row["simulated"]["pixel_fpr"] < 3 * row["reference"]["pixel_fpr"]
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(comparison_table(comparison))
    console.print(filter_table(comparison))
    printed = console.export_text()
    assert f"{comparison.eigenvalue_worst_ratio:.2f}" in printed
    assert f"{row['simulated']['recall']:.3f} / {row['reference']['recall']:.3f}" in printed
    assert plot_comparison(comparison, tmp_path / "plot.png").stat().st_size > 10_000
