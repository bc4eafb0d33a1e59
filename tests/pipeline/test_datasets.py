"""Data sets are planned, drawn in parallel and drawn again: the same bytes every time."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from flame.errors import FlameError
from flame.io import starcop
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
    assert [record.name for record in records] == ["real_wide_1_000000", "real_wide_1_000001"]
    again = read_plan(out).draw(0).tile
    read = next(iter(starcop.read_dataset(out, "train").tiles()))
    np.testing.assert_array_equal(read.label, again.label)
    assert read.scene.shape == (32, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"tiles": 0}, "at least one tile"), ({"test_share": 2.0}, "0 to 1"), ({"seed": -1}, "negative"),
     ({"preset": "no"}, "no preset"), ({"sensor": "no"}, "no sensor")],
)  # fmt: skip
def test_impossible_plans_are_refused(changes, message):
    with pytest.raises(FlameError, match=message):
        SimulationPlan(**{"tiles": 1, **changes})


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
