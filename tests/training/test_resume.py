"""A run that is killed and resumed ends with the weights of one that was not, bit for bit."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from toy_run import ToyTiles, toy_recipe, toy_trainer

from flame.models.trained import load_trained
from flame.models.weights import WeightsError, load_model
from flame.training.checkpoints import CheckpointError
from flame.training.loop import RunError, Trainer

SCRIPT = Path(__file__).with_name("toy_run.py")


def tensors(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def standing(path):
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["progress"])


def wait_until(checkpoint, epoch, step, process):
    for _ in range(1200):
        if checkpoint.is_file():
            progress = standing(checkpoint)
            if (progress["epoch"], progress["step"]) >= (epoch, step):
                return
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.05)
    raise AssertionError("the run did not get so far in a minute")


def test_killed_run_resumes_to_the_same_bits(tmp_path):
    toy_trainer(tmp_path / "whole").run()
    killed = tmp_path / "killed"
    checkpoint = killed / "checkpoint.safetensors"
    for epoch, step in ((0, 2), (1, 1)):
        process = subprocess.Popen([sys.executable, str(SCRIPT), str(killed), "tiny"], stderr=subprocess.PIPE)
        wait_until(checkpoint, epoch, step, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert standing(checkpoint)["epoch"] < 3
    toy_trainer(killed, resume=True).run()
    for name in ("model.safetensors", "checkpoint.safetensors"):
        whole, resumed = tensors(tmp_path / "whole" / name), tensors(killed / name)
        assert whole.keys() == resumed.keys()
        assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    rows = [standing(tmp_path / folder / "checkpoint.safetensors")["history"] for folder in ("whole", "killed")]
    for whole, resumed in zip(*rows, strict=True):
        assert {k: v for k, v in whole.items() if k != "seconds_per_step"} == pytest.approx(
            {k: v for k, v in resumed.items() if k != "seconds_per_step"}, rel=0, abs=0, nan_ok=True
        )
    assert (killed / "curves.png").stat().st_size > 1000
    assert len((killed / "log.csv").read_text().splitlines()) == 4


def test_refuses_what_does_not_fit(tmp_path):
    trainer = toy_trainer(tmp_path)
    trainer._save()
    with pytest.raises(RunError, match="--resume"):
        toy_trainer(tmp_path)
    with pytest.raises(CheckpointError, match="another recipe or seed"):
        toy_trainer(tmp_path, toy_recipe("cpu"), resume=True)
    with pytest.raises(CheckpointError, match="another recipe or seed"):
        Trainer(toy_recipe(), ToyTiles(12), ToyTiles(4), tmp_path, seed=4, resume=True)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"not a checkpoint at all, only text")
    with pytest.raises(CheckpointError, match="damaged"):
        toy_trainer(tmp_path, resume=True)
    with pytest.raises(WeightsError, match="no such model"):
        load_model(tmp_path)


def test_model_file_gives_the_model_back(tmp_path):
    trainer = toy_trainer(tmp_path)
    trainer.run()
    stored = load_model(tmp_path)
    assert stored.bands == trainer.training.bands
    assert stored.provenance["seed"] == 3
    assert stored.provenance["recipe"]["name"] == "tiny"
    assert stored.model.settings == trainer.recipe.model
    assert not stored.model.training


def test_a_run_can_start_from_another_ones_weights(tmp_path):
    toy_trainer(tmp_path / "first").run()
    stored = load_trained(tmp_path / "first")
    larger = Trainer(toy_recipe(), ToyTiles(4, size=40, seed=2), ToyTiles(2, seed=1), tmp_path / "second", start=stored)
    for name, tensor in larger.model.state_dict().items():
        assert torch.equal(tensor, stored.model.state_dict()[name]), name
    other = replace(toy_recipe(), model=replace(toy_recipe().model, width=8))
    with pytest.raises(RunError, match="another architecture"):
        Trainer(other, ToyTiles(4), ToyTiles(2), tmp_path / "third", start=stored)


def test_a_run_killed_between_its_last_step_and_the_epochs_end_logs_the_same_rate(tmp_path):
    whole = toy_trainer(tmp_path / "whole")
    whole.run()

    class Killed(Exception):
        pass

    def kill(report):
        if report.epoch == 0 and report.step == report.steps and report.validation is None:
            raise Killed

    broken = toy_trainer(tmp_path / "broken", watch=kill)
    with pytest.raises(Killed):
        broken.run()
    broken._save()  # as the loop would have done a moment later
    resumed = toy_trainer(tmp_path / "broken", resume=True)
    resumed.run()
    assert [row["rate"] for row in resumed.progress.history] == [row["rate"] for row in whole.progress.history]
