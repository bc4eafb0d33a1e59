"""Two processes with half of each batch learn as one with the whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from toy_run import toy_recipe, toy_trainer

SCRIPT = Path(__file__).with_name("toy_run.py")


def outcome(folder):
    with safe_open(folder / "checkpoint.safetensors", "pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys() if name.startswith("model.")}  # noqa: SIM118
        return json.loads(file.metadata()["progress"])["history"], weights


def test_two_processes_have_the_loss_curve_of_one(tmp_path):
    toy_trainer(tmp_path / "one", toy_recipe("cpu")).run()
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launch, str(SCRIPT), str(tmp_path / "two"), "cpu"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    (one, weights), (two, shared) = outcome(tmp_path / "one"), outcome(tmp_path / "two")
    assert len(one) == len(two) == 3
    for alone, together in zip(one, two, strict=True):
        for name in ("loss", "segmentation", "auxiliary"):
            assert together[name] == pytest.approx(alone[name], rel=1e-3)
    # Batch statistics are over all processes, so even their running means agree.
    for name, tensor in weights.items():
        if "running_mean" in name:
            torch.testing.assert_close(shared[name], tensor, rtol=1e-2, atol=1e-3)
