"""The limit: its retrieval is unbiased and as precise as it says, and nothing on the same tiles beats it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from flame.bench.baselines import limit_rows, published_starcop_rows, run_limit
from flame.bench.limit import LimitTable, limit_of, limit_scores, retrieve
from flame.cli.app import app
from flame.detection import RULES, DecisionRule, PixelCounts, ScoreHistogram, judge_scores, plume_mask
from flame.errors import FlameError
from flame.filters import FILTERS
from flame.physics import ABSORPTION_UNIT_PPM_M, sensor, unit_absorption
from flame.pipeline.datasets import SimulationPlan, simulate_dataset
from flame.scene import Scene
from flame.simulate import LabelSettings, SimulatedTile, draw_label
from flame.simulate.plumes import PlumeSettings, draw_plumes
from flame.tile import LabelledTile

BANDS = sensor("aviris-ng").bands.methane()
SHAPE = (48, 48)
PLAN = SimulationPlan(tiles=16, seed=3, size=64, preset="cluttered")


def _tile(seed: int, enhancement_ppm_m: np.ndarray, relative_noise: float = 0.005, dark: float = 1.0) -> SimulatedTile:
    """A tile of random brightness without clutter, made here so that the answer is known."""
    rng = np.random.default_rng(seed)
    background = np.exp(rng.normal(0.0, 0.3, (1, *SHAPE))) * np.linspace(1.0, 0.6, len(BANDS))[:, None, None]
    background[:, :, :16] *= dark
    sigma = np.full_like(background, relative_noise)
    spectrum = unit_absorption(BANDS) / ABSORPTION_UNIT_PPM_M
    signal = background * np.exp(np.multiply.outer(spectrum, enhancement_ppm_m))
    radiance = signal + sigma * rng.standard_normal(background.shape)
    valid = np.ones(SHAPE, np.bool_)
    valid[:3] = False
    enhancement = enhancement_ppm_m.astype(np.float32)
    label = draw_label(enhancement, np.full(SHAPE, 300.0, np.float32), valid, LABELS)
    scene = Scene(radiance.astype(np.float32), BANDS, valid)
    return SimulatedTile(
        LabelledTile(f"t{seed}", scene, label, enhancement), background.astype(np.float32), sigma.astype(np.float32)
    )


LABELS = LabelSettings(
    edge_snr=4.0, core_snr=6.0, faintest_ppm_m=100.0, gap_px=2, outline_sigma_px=1.0, margin_px=0.0, margin_share=0.0
)


def _plume(seed: int) -> np.ndarray:
    settings = PlumeSettings(source_shares=(0.0, 1.0), emission_median_kg_h=400.0, tracers=1500)
    return draw_plumes(np.random.default_rng(seed), SHAPE, 5.0, settings).column_ppm_m


def test_retrieval_is_unbiased_and_as_noisy_as_it_says() -> None:
    simulated = _tile(0, np.zeros(SHAPE), dark=0.02)
    found = retrieve(simulated)
    valid = simulated.tile.scene.valid
    z = (found.enhancement_ppm_m / found.noise_ppm_m)[valid]
    assert z.std() == pytest.approx(1.0, abs=0.05)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    # Dark ground too: a logarithm would turn its noise into methane.
    dark = (found.enhancement_ppm_m / found.noise_ppm_m)[3:, :16]
    assert abs(dark.mean()) < 4 / np.sqrt(dark.size)
    assert not found.enhancement_ppm_m[~valid].any()


def test_retrieval_recovers_a_known_enhancement() -> None:
    found = retrieve(_tile(1, np.full(SHAPE, 800.0), relative_noise=1e-4))
    assert np.median(found.enhancement_ppm_m[3:]) == pytest.approx(800.0, rel=0.02)


def test_limit_is_high_where_noise_is_low_and_falls_as_it_grows() -> None:
    scores = []
    for relative_noise in (0.001, 0.02, 0.1):
        tiles = [_tile(seed, _plume(seed), relative_noise) for seed in range(8)]
        scores.append(limit_of(tiles, LABELS).f1)
    assert scores[0] > 0.8
    assert scores[0] > scores[1] > scores[2]


def test_each_half_is_judged_by_what_was_chosen_on_the_other() -> None:
    """If one fold's labels are wrong, the other's choice must be spoiled, and only that one's."""
    tiles = [_tile(seed, _plume(seed), 0.01) for seed in range(6)]
    table = LimitTable()
    for index, simulated in enumerate(tiles):
        label = simulated.tile.label if index % 2 else ~simulated.tile.label
        table.add(limit_scores(simulated, LABELS), label, simulated.tile.scene.valid)
    _, (chosen_on_odd, chosen_on_even) = table.result()
    assert chosen_on_even.threshold < 0.1 < chosen_on_odd.threshold


def test_counts_of_a_histogram_are_those_of_the_mask() -> None:
    simulated = _tile(2, _plume(2), 0.01)
    label, valid = simulated.tile.label, simulated.tile.scene.valid
    score = limit_scores(simulated, LABELS)[1.0, 0.0]
    histogram = ScoreHistogram.of(score, label, valid)
    threshold = histogram.best_threshold().threshold
    mask = plume_mask(score, valid, DecisionRule(threshold, opening=False))
    assert PixelCounts(*histogram.counts(threshold)) == PixelCounts.of(mask, label, valid)
    assert PixelCounts(*histogram.counts(threshold)).f1 == pytest.approx(histogram.best_threshold().f1)


def test_too_few_plumes_are_refused() -> None:
    empty = [_tile(seed, np.zeros(SHAPE)) for seed in range(3)]
    with pytest.raises(FlameError, match="too few plumes"):
        limit_of(empty, LABELS)
    with pytest.raises(FlameError, match="too few plumes"):
        limit_of([], LABELS)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("limit") / "new" / "limit.json"
    return run_limit(PLAN, out=out, workers=1), out


def test_report_holds_limit_and_every_filter_and_is_written(report: tuple[dict[str, Any], Path]) -> None:
    figures, out = report
    assert json.loads(out.read_text()) == json.loads(json.dumps(figures))
    assert [path.name for path in out.parent.iterdir()] == ["limit.json"]
    limit = figures["limit"]
    total = sum(limit[key] for key in ("tp", "fp", "fn", "tn"))
    assert set(figures["filters"]) == set(FILTERS)
    shown = 1
    for name, rows in figures["filters"].items():
        assert list(rows) == [rule for rule in RULES if FILTERS[name].threshold or not rule.startswith("canonical")]
        for plain, best in (("canonical", "best"), ("canonical_opened", "best_opened")):
            assert plain not in rows or rows[best]["f1"] >= rows[plain]["f1"] - 1e-9
        for row in rows.values():
            assert limit["f1"] > row["f1"]
            assert sum(row[key] for key in ("tp", "fp", "fn", "tn")) == total
            counts = PixelCounts(*(row[key] for key in ("tp", "fp", "fn", "tn")))
            assert counts.f1 == row["f1"]
        shown += 1 + len(rows) + (name in published_starcop_rows())
    table = limit_rows(figures)
    assert table.row_count == shown
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(table)
    printed = console.export_text()
    assert "…" not in printed, "it fits a terminal of 80 columns"
    assert f"{figures['filters']['mag1c']['best_smoothed']['f1']:.3f}" in printed


def test_a_filter_is_judged_as_the_networks_are(report: tuple[dict[str, Any], Path]) -> None:
    """Its rows are those of the one judgement that networks get, on the very tiles."""
    tiles = [PLAN.draw(index).tile for index in range(PLAN.tiles)]
    maps = []
    for tile in tiles:
        scene = tile.scene
        score = FILTERS["mag1c"].score(scene.radiance, scene.bands, scene.valid)
        maps.append((score, tile.label & scene.valid, scene.valid))
    for rule, row in judge_scores(maps, FILTERS["mag1c"].threshold).items():
        assert report[0]["filters"]["mag1c"][rule]["f1"] == pytest.approx(row.f1, abs=2e-3), rule


def test_published_rows_are_the_papers_table() -> None:
    """tab:main: F1, precision, recall and pixel FPR of the classical filters; the multiplicative ones are not in it."""
    paper = {
        "cem-additive": (0.178, 0.114, 0.399, 74e-4),
        "mf-additive": (0.178, 0.115, 0.398, 74e-4),
        "ace-additive": (0.154, 0.111, 0.254, 49e-4),
        "mag1c": (0.300, 0.228, 0.437, 35e-4),
        "mag1c-sas": (0.284, 0.194, 0.528, 52e-4),
    }
    for name, figures in paper.items():
        counts = published_starcop_rows()[name]
        found = (counts.f1, counts.precision, counts.recall)
        assert found == pytest.approx(figures[:3], abs=5.1e-4)
        assert counts.pixel_fpr == pytest.approx(figures[3], abs=0.6e-4)
    assert published_starcop_rows()["mf"].f1 > published_starcop_rows()["mf-additive"].f1
    assert set(published_starcop_rows()) < set(FILTERS)


def test_command_judges_the_test_split_of_a_simulated_data_set(tmp_path: Path) -> None:
    plan = SimulationPlan(tiles=12, seed=3, size=48, test_share=0.67)
    simulate_dataset(plan, tmp_path / "data", workers=1)
    result = CliRunner().invoke(
        app, ["bench", "limit", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"), "--workers", "1"]
    )
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "out" / "limit.json").read_text())
    assert written["tiles"] == 8
    assert written["plan"] == json.loads(json.dumps(asdict(plan)))


def test_an_unknown_experiment_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "nothing", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "No such command 'nothing'" in result.output


def test_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "limit.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, str(page), "exec"), {})
    (f1,) = re.findall(r"limit F1 ([\d.]+)", capsys.readouterr().out)
    assert float(f1) > 0.6
