"""Flips are drawn anew the same, leave no trace, and what the guard is said to do it does."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flame.bench.faults import JOBS, FaultBench, FaultPlan, layer_of, run_faults
from flame.bench.faults_report import OUTCOMES, faults_summary, faults_tables
from flame.errors import FlameError
from flame.kernels import load_kernels
from flame.onboard import Asked, Detector, load_model
from flame.onboard.guard import known_tile
from flame.scene import Scene

ROOT = Path(__file__).parents[2]
PLAN = FaultPlan(weights=50, weights_unguarded=6, buffers=10, proofs=3)

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")


@pytest.fixture(scope="module")
def bench():
    """The shipped model on a tile of 64 pixels: the same weights and layers, and a hundredth of the work."""
    package = load_model()
    package = replace(package, manifest=replace(package.manifest, tile=64, row_block=None))
    known = known_tile(package.manifest)
    scene = Scene(known.radiance, package.manifest.bands, known.valid, known.rgb)
    return FaultBench(Detector(package, "native", 1, asked=Asked(level="visible")), scene, seed=5)


def _clean(bench):
    return bench._whole(bench.runtime).maps.copy()


@pytest.fixture(scope="module")
def records(bench, tmp_path_factory):
    before = _clean(bench)
    found = run_faults(bench, PLAN, tmp_path_factory.mktemp("faults"))
    np.testing.assert_array_equal(_clean(bench), before)  # whatever was struck is whole again
    return found


def test_the_same_number_is_the_same_flip_and_every_layer_has_its_turn(bench):
    flips = [bench.weight_flip(number) for number in range(2 * len(bench.weight_strata))]
    assert flips == [bench.weight_flip(number) for number in range(len(flips))]
    assert {flip.stratum for flip in flips} == set(bench.weight_strata)
    assert {flip.stratum for flip in map(bench.buffer_flip, range(len(bench.buffer_strata)))} == set(
        bench.buffer_strata
    )
    assert {flip.bits for flip in flips} == {1, 4}
    for flip in flips:
        assert 0 <= flip.bit <= 8 * bench.constants[flip.array].nbytes - flip.bits


def test_weights_tables_buffers_and_inputs_are_all_struck(bench):
    names = " ".join([*bench.constants, *bench.buffers])
    for part in ("lift.weight", "trunk.down", "trunk.up", "compiled.taps", "lifted", "score", "radiance"):
        assert part in names
    assert not set(bench.constants) & set(bench.buffers)


def test_with_the_guard_every_flip_in_a_constant_is_corrected(records):
    assert {record["outcome"] for record in records["weights"] + records["proofs"]} == {"corrected"}


def test_a_flip_that_matters_is_silent_without_the_guard_and_corrected_with_it(bench):
    (name,) = (name for name in bench.constants if name.endswith("usual.offset"))
    top = next(f for f in map(bench.weight_flip, range(10_000)) if f.array == name)
    struck = replace(top, bit=30, bits=1)
    assert bench.unguarded_weight(struck)["outcome"] == "silent"
    assert bench.proven(struck)["outcome"] == "corrected"


def test_a_run_that_was_stopped_goes_on_and_ends_the_same(bench, records, tmp_path):
    small = FaultPlan(weights=20, weights_unguarded=2, buffers=3, proofs=1)
    run_faults(bench, small, tmp_path)
    with (tmp_path / "buffers.jsonl").open("a") as file:
        file.write('{"number": 3, "strat')  # ended in the middle of a line
    again = run_faults(bench, PLAN, tmp_path)
    for job in ("weights", "weights_unguarded", "buffers"):
        assert again[job] == records[job]
    assert run_faults(bench, PLAN, tmp_path, minutes=0.0) == again


def test_rates_weigh_layers_by_their_bytes_and_add_up(bench, records):
    sizes = bench.sizes(bench.weight_strata, bench.constants), bench.sizes(bench.buffer_strata, bench.buffers)
    summary = faults_summary(records, *sizes, {"model": "m"})
    for found in summary["sets"].values():
        assert sum(found["all"]["rates"].values()) == pytest.approx(1)
        assert found["flips"] == found["single"]["flips"] + found["burst"]["flips"]
    assert summary["sets"]["weights_with"]["all"]["rates"]["corrected"] == pytest.approx(1)
    pairs = (("a", "silent"), ("b", "harmless"))
    told = [{"stratum": s, "outcome": o, "bits": 1, "bit": 30, "guarded": o} for s, o in pairs]
    weighed = faults_summary(dict.fromkeys(JOBS, told), {"a": 1, "b": 3}, {"a": 1, "b": 3}, {})
    assert weighed["sets"]["buffers_with"]["single"]["rates"]["silent"] == pytest.approx(0.25)
    tables = faults_tables(summary)
    assert all(outcome in tables for outcome in OUTCOMES)


def test_no_silent_flip_among_n_bounds_their_share():
    told = [{"stratum": "a", "outcome": "corrected", "bits": 1, "bit": 0, "guarded": "corrected"}] * 3000
    below = faults_summary(dict.fromkeys(JOBS, told), {"a": 1}, {"a": 1}, {})["sets"]["weights_with"]["all"][
        "silent_below"
    ]
    assert below == pytest.approx(3 / 3000, rel=0.01)  # the rule of three


def test_layers_are_paths_without_numbers():
    assert layer_of("backend.network.arrays.backbone.blocks.3.spectral.weight") == "arrays.backbone.blocks.spectral"


def test_the_tables_on_the_page_are_those_of_the_stored_run():
    page = (ROOT / "docs/flight.md").read_text()
    shown = page.split("<!-- faults -->")[1].split("<!-- end of faults -->")[0]
    summary = json.loads((ROOT / "results/faults/summary.json").read_text())
    assert faults_tables(summary) in shown


def test_other_runtimes_and_tiles_without_plumes_are_refused(bench):
    package = load_model()
    package = replace(package, manifest=replace(package.manifest, tile=64, row_block=None))
    known = known_tile(package.manifest)
    empty = Scene(np.ones_like(known.radiance), package.manifest.bands, known.valid, known.rgb)
    with pytest.raises(FlameError, match="plume"):
        FaultBench(Detector(package, "native", 1), empty)
