"""Data sets are planned, drawn in parallel and drawn again: the same bytes every time."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from flame.errors import FlameError
from flame.io import starcop
from flame.io.names import scene_of
from flame.pipeline.datasets import PLAN_FILE, SimulationPlan, read_plan, simulate_dataset

PLAN = SimulationPlan(tiles=4, seed=3, size=24, test_share=0.25)


def digest(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("set")
    seen = []
    records = simulate_dataset(PLAN, folder, workers=1, on_tile=seen.append)
    assert seen == records
    return folder


def test_the_bytes_do_not_depend_on_the_number_of_workers(written, tmp_path):
    simulate_dataset(PLAN, tmp_path, workers=2)
    assert digest(tmp_path) == digest(written)


def test_splits_are_listed_and_read_back_by_the_starcop_reader(written):
    train, test = (starcop.read_dataset(written, split) for split in ("train", "test"))
    assert (len(train), len(test)) == (3, 1)
    drawn = PLAN.draw(0).tile
    read = next(iter(train.tiles()))
    assert read.name == drawn.name
    np.testing.assert_array_equal(read.label, drawn.label)
    np.testing.assert_allclose(
        read.scene.radiance[:, read.scene.valid], drawn.scene.radiance[:, read.scene.valid], rtol=1e-4, atol=1e-6
    )


def test_the_plan_on_disk_draws_the_same_tiles(written):
    assert read_plan(written) == PLAN
    assert "flame_version" in json.loads((written / PLAN_FILE).read_text())


def test_another_simulation_in_the_folder_is_refused(written):
    with pytest.raises(FlameError, match="another simulation"):
        simulate_dataset(SimulationPlan(tiles=4, seed=4, size=24), written, workers=1)


def test_a_folder_without_a_plan_cannot_be_drawn_again(tmp_path):
    with pytest.raises(FlameError, match=r"simulation\.json: no such file"):
        read_plan(tmp_path)


def test_real_backgrounds_go_through_the_same_door(written, tmp_path):
    scene = tmp_path / "chip.npz"
    drawn = PLAN.draw(1).tile.scene
    np.savez(scene, radiance=drawn.radiance, wavelength_nm=drawn.bands.centres_nm)
    plan = SimulationPlan(tiles=2, seed=1, size=32, test_share=0.0, backgrounds=(str(scene),))
    out = tmp_path / "real"
    records = simulate_dataset(plan, out, workers=1)
    assert [record.name for record in records] == ["real_chip_wide_1_000000", "real_chip_wide_1_000001"]
    again = read_plan(out).draw(0).tile
    read = next(iter(starcop.read_dataset(out, "train").tiles()))
    np.testing.assert_array_equal(read.label, again.label)
    assert read.scene.shape == (32, 32)


def test_a_tile_on_real_ground_is_named_by_that_ground(tmp_path):
    """Two flat chips of different brightness: the name must tell the one that was drawn."""
    paths = []
    for number, level in enumerate((1.0, 8.0)):
        bands = PLAN.draw(0).tile.scene.bands
        path = tmp_path / f"ground_{number}.npz"
        noise = np.random.default_rng(number).uniform(0.99, 1.01, (len(bands), 40, 40))
        np.savez(path, radiance=(level * noise).astype(np.float32), wavelength_nm=bands.centres_nm)
        paths.append(str(path))
    plan = SimulationPlan(tiles=12, seed=1, size=32, backgrounds=tuple(paths))
    grounds = []
    for index in range(plan.tiles):
        tile = plan.draw(index).tile
        bright = np.median(tile.scene.radiance) > 4.0
        assert scene_of(tile.name) == f"ground-{int(bright)}"
        grounds.append(bright)
    assert 0 < sum(grounds) < plan.tiles


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"tiles": 0}, "between one and"), ({"test_share": 2.0}, "0 to 1"), ({"seed": -1}, "negative"),
     ({"preset": "no"}, "no preset"), ({"sensor": "no"}, "no sensor")],
)  # fmt: skip
def test_impossible_plans_are_refused(changes, message):
    with pytest.raises(FlameError, match=message):
        SimulationPlan(**{"tiles": 1, **changes})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ('{"tiles": 3, "colour": 1}', "unknown entries colour"),
        ("{}", "'tiles' is missing"),
        ('{"tiles": "3"}', "tiles: expected int, got '3'"),
        ('{"tiles": 3, "test_share": NaN}', "NaN is no JSON number"),
        ('{"tiles": 3, "size": 1000000000}', "rows and columns"),
        ('{"tiles": 3, "backgrounds": 5}', "backgrounds: expected tuple, got 5"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_damaged_plan_is_one_clear_line(content, words, tmp_path):
    (tmp_path / PLAN_FILE).write_text(content)
    with pytest.raises(FlameError, match=r"simulation\.json|rows and columns") as caught:
        read_plan(tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def _children(pid: int) -> set[int]:
    """Processes whose parent is `pid`, from the system's list."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.add(int(entry.name))
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's list of processes")
def test_a_killed_simulation_leaves_no_worker_behind(tmp_path):
    """SIGKILL gives no process a chance to tell its workers: they must see for themselves."""
    work = "import sys; from flame.cli import main; sys.argv = ['flame', *sys.argv[1:]]; main()"
    options = ["simulate", "--out", str(tmp_path / "set"), "--tiles", "500", "--size", "64", "--workers", "2"]
    command = [sys.executable, "-c", work, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        try:
            deadline = time.monotonic() + 120
            while not list((tmp_path / "set").glob("sim_*")) and time.monotonic() < deadline:
                time.sleep(0.05)
            workers = _children(parent.pid)
            assert len(workers) >= 2
        finally:
            parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(map(_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in workers if _alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def test_a_data_set_of_the_first_edition_is_drawn_again_as_it_was(tmp_path):
    plan = SimulationPlan(tiles=1, seed=4, size=32, test_share=1.0)
    simulate_dataset(plan, tmp_path, workers=1)
    stored = json.loads((tmp_path / PLAN_FILE).read_text())
    assert read_plan(tmp_path).settings() == plan.settings()
    del stored["edition"]
    (tmp_path / PLAN_FILE).write_text(json.dumps(stored))
    old = read_plan(tmp_path)
    assert old.name(0) == plan.name(0)
    cluttered = SimulationPlan(tiles=1, seed=4, size=32, preset="cluttered").draw(0)
    assert old.draw(0).tile.scene.radiance.tobytes() == cluttered.tile.scene.radiance.tobytes()
