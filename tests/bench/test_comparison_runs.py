"""The comparison at its smallest scale: trained, judged, killed, continued, on two processes, with a user's network."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn
from typer.testing import CliRunner

from flame.bench.comparison import runs
from flame.bench.comparison.records import Records
from flame.bench.comparison.scales import scale_named
from flame.bench.comparison.tiles import TilesError, simulated_set
from flame.cli.app import app
from flame.detection import judge_scores
from flame.filters import filter_named
from flame.io import starcop
from flame.training.data import open_split

LIGHT = ("--set", "model.width=4", "--set", "model.modes=4", "--set", "model.plume_prior=0.5")
"""For FLAME: small, and as likely plume as not at the start, so that it marks something."""


class Projection(nn.Module):
    """A user's network, named by its module."""

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.inputs = ("whitened", "mag1c_sas")
        self.project = nn.Conv2d(bands + 1, 1, 1)

    def forward(self, whitened: torch.Tensor, mag1c_sas: torch.Tensor) -> torch.Tensor:
        return self.project(torch.cat([whitened, mag1c_sas], 1))[:, 0]


PLUGGED = f"{__name__}:Projection"


def flame(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def bench(name, out, *more):
    done = flame("bench", name, "--out", out, *more)
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    """The tiles of the smallest scale."""
    return simulated_set(scale_named("tiny"), tmp_path_factory.mktemp("tiles"), lambda _: None)


def of_tiny(tiles):
    return ("--scale", "tiny", "--data", tiles, "--device", "cpu", "--threads", 1)


@pytest.fixture(scope="module")
def finished(tiles, tmp_path_factory):
    """A small comparison by the commands: filters, a network, FLAME, and a user's network."""
    out = tmp_path_factory.mktemp("comparison")
    bench(
        "main",
        out,
        *of_tiny(tiles),
        "--only",
        "mag1c",
        "--only",
        "linknet-mag1c-sas",
        "--only",
        "flame-plus",
        "--only",
        PLUGGED,
    )
    bench("curriculum", out, *of_tiny(tiles), *LIGHT)
    return out


def test_each_run_leaves_one_small_file_that_says_what_it_was(finished, tiles):
    records = Records(finished / "tiny")
    found = records.runs()
    assert set(found) == {"mag1c", "mag1c-sas", "linknet-mag1c-sas", "flame-plus", "flame", PLUGGED.replace(":", ".")}
    for (record,) in found.values():
        assert record["scale"]["name"] == "tiny"
        assert record["data"] == {"source": tiles.name, "train": 16, "test": 8}
        assert record["seed"] == 0
        assert record["metrics"]["tiles"] == 8
        assert record["rules"]["best_opened"]["f1"] >= (record["metrics"]["f1"] or 0)
        file = records.run_file(record["method"], 0)
        assert " " not in file.name
        assert file.stat().st_size < 20_000
    (record,) = found["linknet-mag1c-sas"]
    assert record["training_tiles"] + record["validation_tiles"] == 16
    assert record["training_s"] > 0
    text = (finished / "tiny" / "main.md").read_text()
    assert "| **Your own** |" in text
    assert f"| {PLUGGED} |" in text


def test_a_filters_row_is_that_of_its_maps(finished, tiles):
    (record,) = Records(finished / "tiny").runs()["mag1c"]
    test = open_split(tiles, "test")
    method = filter_named("mag1c")
    every = [test[number] for number in range(len(test))]
    maps = [(method.score(np.array(t.radiance), test.bands, t.valid), t.label, t.valid) for t in every]
    for name, row in judge_scores(maps, method.threshold).items():
        assert record["rules"][name]["f1"] == pytest.approx(row.f1, abs=1e-9), name
    assert record["metrics"]["f1"] == record["rules"]["canonical_opened"]["f1"]
    assert record["threshold"] == 300.0


def test_what_is_done_is_not_done_again_and_later_experiments_use_it(finished, tiles, monkeypatch):
    monkeypatch.setattr(runs, "_run", None)
    bench("main", finished, *of_tiny(tiles), "--only", "mag1c", "--only", PLUGGED, "--only", "flame")
    bench("curriculum", finished, *of_tiny(tiles))
    for picture in ("curriculum", "score"):
        assert (finished / "tiny" / "figures" / f"{picture}.png").stat().st_size > 5000


def test_other_tiles_do_not_come_into_the_same_table(finished, tiles, tmp_path):
    fewer = tmp_path / "fewer"
    shutil.copytree(tiles, fewer, ignore=shutil.ignore_patterns(".flame"))
    rows = (fewer / "test.csv").read_text().splitlines()
    (fewer / "test.csv").write_text("\n".join(rows[:-1]) + "\n")
    done = flame("bench", "main", "--out", finished, *of_tiny(fewer), "--only", "ace")
    assert done.exit_code == 1
    assert "holds runs on other tiles" in str(done.exception)


def test_latency_is_measured_for_every_method_that_is_asked_for(tiles, tmp_path):
    names = ("mag1c-sas", "flame", "flame-plus")
    bench("latency", tmp_path, *of_tiny(tiles), *LIGHT, *(word for name in names for word in ("--only", name)))
    report = Records(tmp_path / "tiny").latency()
    assert set(report["methods"]) == set(names)
    for times in report["methods"].values():
        parts = sum(value for name, value in times.items() if name.endswith("_ms") and name != "fastest_ms")
        assert 0 < times["fastest_ms"] <= times["ms"]
        assert parts > 0
    text = (tmp_path / "tiny" / "latency.md").read_text()
    assert "not measured yet" in text
    assert "| FLAME |" in text


SLOW = ("--set", "epochs=4", "--set", "checkpoint_minutes=0.0")


def test_a_killed_comparison_goes_on_where_it_was_and_ends_the_same(tiles, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    given = (*of_tiny(tiles), *LIGHT, *SLOW, "--only", "flame")
    bench("main", whole, *given)
    command = [sys.executable, "-m", "flame", "bench", "main", "--out", killed, *given]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    checkpoint = killed / "work" / "tiny" / "runs" / "flame-seed0" / "checkpoint.safetensors"
    while _epoch(checkpoint) < 1:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 1 <= _epoch(checkpoint) < 4
    assert not Records(killed / "tiny").runs(), "it was killed before it was done"
    output = bench("main", killed, *given)
    assert "epoch 1/4" not in output, "what was trained is not trained again"
    one, other = (Records(folder / "tiny").runs()["flame"][0] for folder in (whole, killed))
    assert other["metrics"] == one["metrics"]
    assert other["rules"] == one["rules"]


def _epoch(checkpoint: Path) -> int:
    if not checkpoint.is_file():
        return 0
    with safe_open(checkpoint, "pt") as file:
        return json.loads(file.metadata()["progress"])["epoch"]


def test_two_processes_run_one_comparison(tiles, tmp_path):
    """As torchrun starts it on several GPUs; here over gloo, on the CPU."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "flame"]
    given = ("bench", "main", "--out", tmp_path, *of_tiny(tiles), "--only", "mag1c-sas", "--only", "linknet-mag1c-sas")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*launch, *(str(word) for word in given)]
    done = subprocess.run(command, capture_output=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    found = Records(tmp_path / "tiny").runs()
    assert found["linknet-mag1c-sas"][0]["processes"] == 2
    assert "processes" not in found["mag1c-sas"][0], "a filter is run by the first process alone"
    assert done.stdout.decode().count("epoch 2/2") == 1, "one of them speaks"


def test_the_papers_scale_runs_on_two_tiles(tmp_path):
    given = ("--scale", "paper", "--tiles", 2, "--set", "epochs=1", "--only", "strict-paper", "--threads", 1)
    bench("main", tmp_path, *given, "--device", "cpu")
    (record,) = Records(tmp_path / "paper").runs()["strict-paper"]
    assert record["scale"]["size"] == 512
    assert record["training_tiles"] == record["metrics"]["tiles"] == 2
    assert record["parameters"] == pytest.approx(0.78e6, rel=0.01)


def test_half_of_the_tiles_have_a_plume_and_a_stopped_draw_goes_on(tiles, tmp_path):
    for split, count in (("train", 16), ("test", 8)):
        records = starcop.read_dataset(tiles, split).records
        assert len(records) == count
        assert sum(record.has_plume for record in records) == count // 2
    stopped = tmp_path / "stopped"
    shutil.copytree(tiles, stopped, ignore=shutil.ignore_patterns(".flame", "*.csv"))
    lines = (stopped / "drawn.jsonl").read_text().splitlines()
    (stopped / "drawn.jsonl").write_text("\n".join(lines[:-3]) + "\n" + lines[-3][:20])
    for line in lines[-3:]:
        shutil.rmtree(stopped / json.loads(line)[1]["name"])
    simulated_set(scale_named("tiny"), stopped, lambda _: None)
    for split in ("train", "test"):
        assert (stopped / f"{split}.csv").read_bytes() == (tiles / f"{split}.csv").read_bytes()
    last = json.loads(lines[-1])[1]["name"]
    for file in (tiles / last).iterdir():
        assert (stopped / last / file.name).read_bytes() == file.read_bytes()
    with pytest.raises(TilesError, match="another scale; choose another --work"):
        simulated_set(scale_named("tiny", tiles=4), stopped, lambda _: None)
