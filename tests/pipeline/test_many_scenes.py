"""Many scenes: the same results wherever the work is done, whoever dies, and in whatever order."""

import gc
import hashlib
import json
import os
import signal
import sys

import distributed
import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.errors import FlameError
from flame.onboard import Detectors, write_package
from flame.pipeline.detect import Batch, detect_files
from flame.pipeline.find_scenes import find_scenes, scenes_in
from flame.pipeline.runners import _result_of, on_cluster, on_processes
from flame.pipeline.scene_folders import SceneInput
from flame.pipeline.watch import WatchSettings, watch_folder
from flame.workers import WorkerLost
from tiny_models import CENTRES_NM, plume_scene, whitening_model

COMPARED = ("mask.tif", "enhancement.tif", "probability.tif", "plumes.geojson")


@pytest.fixture
def model(tmp_path):
    return str(write_package(whitening_model(), tmp_path / "model" / "tiny.onnx"))


def _chip(path, boxes=((8, 8, 14, 14),), seed=0):
    scene, _ = plume_scene(64, 80, boxes, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, radiance=scene.radiance, wavelength_nm=np.array(CENTRES_NM), fwhm_nm=np.full(4, 6.0))
    return path


def _chips(folder, count=6):
    """Scenes of which two have one name, in two folders."""
    names = [f"{'ab'[n % 2]}/{'same' if n < 2 else f's{n}'}.npz" for n in range(count)]
    return [_chip(folder / name, ((8, 8, 14, 14), (30, 30, 36, 40 + n)), seed=n) for n, name in enumerate(names)]


def _results(out):
    """What every scene's folder holds, by the folder's name."""
    return {
        folder.name: [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in COMPARED]
        for folder in out.iterdir()
        if folder.is_dir()
    }


def test_processes_give_what_one_process_gives(model, tmp_path):
    chips = _chips(tmp_path / "in")
    detect_files(chips, tmp_path / "one", Detectors(model))
    told = []
    outcomes = detect_files(chips, tmp_path / "two", Detectors(model), told.append, runner=on_processes(2))
    assert [outcome.state for outcome in outcomes] == ["done"] * 6
    assert [outcome.source for outcome in outcomes] == [str(chip) for chip in chips]  # in the inputs' order
    assert len(told) == 6
    assert _results(tmp_path / "two") == _results(tmp_path / "one")


def test_a_batch_that_was_stopped_is_finished_elsewhere_with_the_same_results(model, tmp_path):
    chips = _chips(tmp_path / "in")
    detect_files(chips, tmp_path / "whole", Detectors(model))

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        detect_files(chips, tmp_path / "torn", Detectors(model), stop, runner=on_processes(2))
    assert "not tried" in (tmp_path / "torn" / "report.html").read_text()
    states = [outcome.state for outcome in detect_files(chips, tmp_path / "torn", Detectors(model))]
    assert states.count("kept") >= 1
    assert set(states) <= {"kept", "done"}
    assert _results(tmp_path / "torn") == _results(tmp_path / "whole")


def test_a_cluster_that_loses_a_worker_does_every_scene_once(model, tmp_path):
    """A real scheduler and two worker processes, one of which is killed after the first scene."""
    chips = _chips(tmp_path / "in", 8)
    detect_files(chips, tmp_path / "one", Detectors(model))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        told = []

        def kill_one(outcome):
            told.append(outcome)
            if len(told) == 1:
                victim = next(iter(client.run(os.getpid).values()))
                os.kill(victim, signal.SIGKILL)

        runner = on_cluster(cluster.scheduler_address)
        outcomes = detect_files(chips, tmp_path / "two", Detectors(model), kill_one, runner=runner)
    assert [outcome.state for outcome in outcomes] == ["done"] * 8
    assert sorted(outcome.source for outcome in told) == sorted(str(chip) for chip in chips)
    assert _results(tmp_path / "two") == _results(tmp_path / "one")


def test_what_a_cluster_cannot_run_fails_alone():
    """Its workers have no flame, say: the task cannot even be read there."""

    class Lost:
        def result(self):
            raise ModuleNotFoundError("No module named 'flame'")

    told = _result_of(Lost(), distributed)
    assert isinstance(told, WorkerLost)
    assert "could not run it (ModuleNotFoundError: No module named 'flame')" in str(told)


def test_a_scheduler_that_is_not_there_is_told(model, tmp_path):
    chip = _chip(tmp_path / "x.npz")
    with pytest.raises(FlameError, match="no Dask scheduler answers at tcp://"):
        detect_files([chip], tmp_path / "out", Detectors(model), runner=on_cluster("tcp://127.0.0.1:9"))


@pytest.mark.parametrize("address", ["garbage", "tcp://10.0.0.1", "http://x:1", "tcp://x:99999", "tcp://:1", ""])
def test_what_is_no_address_is_refused_before_dask_sees_it(address):
    with pytest.raises(FlameError, match="is no address of a Dask scheduler"):
        on_cluster(address)


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "host:8786", "tls://[::1]:1", "inproc://10.0.0.1/9/1"])
def test_addresses_of_schedulers_are_taken(address):
    on_cluster(address)


def test_a_client_that_never_got_through_goes_without_a_word(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with pytest.raises(FlameError, match="no Dask scheduler answers at tls://"):
        list(on_cluster("tls://127.0.0.1:9")(str, []))  # without certificates
    gc.collect()
    assert not said


def test_what_a_killed_run_left_goes_with_the_next(model, tmp_path):
    chip, out = _chip(tmp_path / "x.npz"), tmp_path / "out"
    detect_files([chip], out, Detectors(model))
    left = [out / ".report.0123456789abcdef.partial.html", out / "x" / ".quicklook.0123456789abcdef.partial.png"]
    for file in left:
        file.write_bytes(b"half")
        os.utime(file, (1, 1))
    detect_files([chip], out, Detectors(model))
    assert not any(file.exists() for file in left)


def _tables(out):
    return {name: (out / name).read_bytes() for name in ("plumes.csv", "plumes.geojson", "report.html")}


def test_a_batch_in_which_nothing_could_run_leaves_the_tables_of_an_earlier_one(model, tmp_path):
    chip, out = _chip(tmp_path / "x.npz"), tmp_path / "out"
    detect_files([chip], out, Detectors(model))
    before = _tables(out)
    with pytest.raises(FlameError, match="no Dask scheduler answers"):
        detect_files([chip], out, Detectors(model), runner=on_cluster("tcp://127.0.0.1:9"))
    absent = tmp_path / "absent.npz"
    result = CliRunner().invoke(app, ["detect", str(absent), "--out", str(out), "--model", model])
    assert result.exit_code == 1
    assert "0 of 1 inputs done; report and tables of an earlier run are left as they were" in result.output
    assert _tables(out) == before
    detect_files([absent], tmp_path / "new", Detectors(model))
    assert "absent" in (tmp_path / "new" / "report.html").read_text()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--level", "10"], "level must be 62.5 to 8000 ppm m"),
        (["--level", "nan"], "level must be 62.5 to 8000 ppm m"),
        (["--level", "faint"], "--level is a number of ppm m, 'scene' or 'visible', got 'faint'"),
        (["--core", "-1"], "a core's standard deviations must be 0 or more"),
        (["--sensitivity", "foo"], "no sensitivity 'foo'; known are high-recall"),
    ],
)
def test_what_no_model_can_do_is_refused_before_the_work(wrong, says, tmp_path):
    chip = _chip(tmp_path / "x.npz")
    result = CliRunner().invoke(app, ["detect", str(chip), "--out", str(tmp_path / "out"), *wrong])
    assert isinstance(result.exception, FlameError), result.output
    assert says in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("radiance", "says"), [(-1.0, "no band above zero"), (1e9, "brighter than any ground")])
def test_a_scene_of_which_nothing_could_be_judged_fails(radiance, says, model, tmp_path):
    """Not looked at is another thing than free of plumes."""
    scene, _ = plume_scene(64, 80, (), 0)
    path = tmp_path / "x.npz"
    np.savez(path, radiance=np.full_like(scene.radiance, radiance), wavelength_nm=np.array(CENTRES_NM))
    outcome = detect_files([path, _chip(tmp_path / "y.npz")], tmp_path / "out", Detectors(model))[0]
    assert outcome.state == "failed"
    assert "not judged: no pixel could be" in outcome.failure
    assert says in outcome.failure
    assert not (tmp_path / "out" / "x").exists()
    assert "not judged" in (tmp_path / "out" / "report.html").read_text()


def test_a_unit_told_against_the_file_is_in_the_record_and_the_report(model, tmp_path):
    scene, _ = plume_scene(64, 80, ((8, 8, 14, 14),), 0)
    arrays = {"radiance": scene.radiance, "wavelength_nm": np.array(CENTRES_NM), "unit": "uW cm-2 nm-1 sr-1"}
    np.savez(tmp_path / "x.npz", **arrays)
    words = ["detect", str(tmp_path / "x.npz"), "--out", str(tmp_path / "out"), "--model", model, "--scale", "1.5"]
    assert CliRunner().invoke(app, words).exit_code == 0
    conflict = "with --scale, against uW cm-2 nm-1 sr-1"
    assert conflict in str(json.loads((tmp_path / "out" / "x" / "detection.json").read_text())["notes"])
    assert conflict in (tmp_path / "out" / "x" / "report.html").read_text()


def test_a_scene_meant_twice_is_done_once(model, tmp_path):
    chip = _chip(tmp_path / "in" / "x.npz")
    told = []
    outcomes = detect_files([chip, chip], tmp_path / "out", Detectors(model), told.append)
    assert len(told) == 1
    assert outcomes[0] is outcomes[1]
    assert [path.name for path in find_scenes([tmp_path / "in", chip])] == ["x.npz"]


def test_folders_are_walked_and_parts_of_a_scene_are_no_scenes(tmp_path, model):
    folder = tmp_path / "in"
    _chip(folder / "b" / "y.npz")
    _chip(folder / "x.npz")
    (folder / "notes.txt").write_text("no scene")
    header = "ENVI\nsamples = 4\nlines = 4\nbands = 4\ndata type = 4\ninterleave = bil\nbyte order = 0\n"
    for name in ("ang20160910t185702_rdn_img", "ang20160910t185702_rdn_igm", "ang20160910t185702_rdn_obs_ort"):
        (folder / f"{name}.hdr").write_text(header)
        (folder / name).write_bytes(bytes(4 * 64))
    detect_files([folder / "x.npz"], folder / "out", Detectors(model))  # products inside the folder are no scenes
    found = [str(path.relative_to(folder)) for path in scenes_in(folder)]
    assert found == ["ang20160910t185702_rdn_img", "x.npz", "b/y.npz"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert find_scenes([empty, folder / "b"]) == [empty, folder / "b" / "y.npz"]  # why it is none is told on opening


@pytest.mark.parametrize(
    ("scene", "beside"),
    [
        ("EMIT_L1B_RAD_001_20240228T063000_2405904_012.nc", "EMIT_L2A_MASK_001_20240228T063000_2405904_012.nc"),
        ("EMIT_L1B_RAD_001_20240228T063000_2405904_012.nc", "EMIT_L1B_OBS_001_20240228T063000_2405904_012.nc"),
        ("ang20160910t185702_rdn_v2_img", "ang20160910t185702_rdn_v2_img.hdr"),
        ("ang20160910t185702_rdn_v2_img", "ang20160910t185702_rdn_igm"),
        ("cube.img", "cube_obs.img"),
    ],
)
def test_what_is_read_beside_a_scene_is_part_of_its_content(scene, beside, tmp_path):
    """A changed mask beside the radiance must not pass for a scene that is finished."""
    path = tmp_path / scene
    path.write_bytes(b"radiance")
    alone = SceneInput(path).sha256
    (tmp_path / beside).write_bytes(b"first")
    first = SceneInput(path).sha256
    (tmp_path / beside).write_bytes(b"second")
    second = SceneInput(path).sha256
    assert len({alone, first, second}) == 3
    for other in ("EMIT_L2A_MASK_001_20240301T000000_2405904_012.nc", "other_obs.img", "notes.txt"):
        (tmp_path / other).write_bytes(b"of something else")
    assert SceneInput(path).sha256 == second


def test_scenes_are_taken_as_they_arrive_and_only_when_whole(tmp_path):
    now, given = [0.0], []

    def sleep(seconds):
        now[0] += seconds
        if now[0] == 2.0:
            _chip(tmp_path / "late.npz")
        if now[0] == 4.0:  # still being written
            os.utime(tmp_path / "late.npz", ns=(1, 7))

    _chip(tmp_path / "early.npz")
    settings = WatchSettings(every_s=2.0, settled_s=4.0, idle_s=20.0)
    taken = watch_folder(
        tmp_path, lambda scenes: given.append((now[0], [p.name for p in scenes])) or [], settings, lambda: now[0], sleep
    )
    assert given == [(4.0, ["early.npz"]), (8.0, ["late.npz"])]
    assert taken == 2


def test_watch_detects_and_keeps_one_report(model, tmp_path):
    _chip(tmp_path / "in" / "x.npz")
    words = ["watch", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--model", model]
    words += ["--settled", "0", "--every", "0.1", "--idle", "0.3"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "1 of 1 scenes done" in result.output
    assert json.loads((tmp_path / "out" / "x" / "detection.json").read_text())["finished"] is True
    again = CliRunner().invoke(app, words)
    assert "finished before" in again.output
    assert "--force" not in again.output  # which watch has not
    (tmp_path / "none").mkdir()
    idle = ["watch", str(tmp_path / "none"), "--out", str(tmp_path / "never"), *words[4:]]
    assert "report.html" not in CliRunner().invoke(app, idle).output  # none was written


def test_winds_and_coefficients_reach_the_products_from_the_command_line(model, tmp_path):
    chip = _chip(tmp_path / "x.npz")
    words = ["detect", str(chip), "--out", str(tmp_path / "out"), "--model", model]
    result = CliRunner().invoke(app, [*words, "--wind", "4,270", "--coefficients", "hygas", "--no-spectral-check"])
    assert result.exit_code == 0, result.output
    facts = json.loads((tmp_path / "out" / "x" / "detection.json").read_text())
    assert facts["coefficients"] == "hygas"
    again = CliRunner().invoke(app, [*words, "--wind", "5,270", "--coefficients", "hygas", "--no-spectral-check"])
    assert "finished before" not in again.output  # another wind: done again
    (tmp_path / "odd.csv").write_text("time;latitude;longitude;speed\n2024-02-28T06:30:00Z;25;68;3\n")
    for wrong, says in (
        (["--wind", "fast"], "is no wind"),
        (["--wind-file", str(tmp_path / "odd.csv")], "not separated by commas"),
        (["--wind-file", str(tmp_path / "absent.csv")], "no such file"),
        (["--coefficients", "varon"], "no effective-wind coefficients"),
        (["--workers", "2", "--scheduler", "tcp://x"], "give one of them"),
    ):
        refused = CliRunner().invoke(app, [*words, *wrong])
        assert isinstance(refused.exception, FlameError), refused.output
        assert says in str(refused.exception)


def test_a_wind_file_without_a_wind_for_a_scene_is_told_on_the_console_and_in_record_and_report(model, tmp_path):
    chip = _chip(tmp_path / "x.npz")
    (tmp_path / "far.csv").write_text("latitude,longitude,speed\n-60,3.0,9\n")
    words = ["detect", str(chip), "--out", str(tmp_path / "out"), "--model", model, "--no-spectral-check"]
    words += ["--wind-file", str(tmp_path / "far.csv")]
    for _ in range(2):  # a scene that was finished before has no wind either
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert "  no wind from far.csv" in result.output
    folder = tmp_path / "out" / "x"
    facts = json.loads((folder / "detection.json").read_text())
    assert facts["wind_notes"][0].startswith("no wind from far.csv")
    assert facts["wind_notes"][0] in facts["notes"]
    page = (folder / "report.html").read_text()
    assert "No wind from far.csv" in page
    assert "none for this scene" in page


def test_a_worker_with_another_flame_refuses(model, tmp_path):
    from dataclasses import replace

    from flame.io import OpenOptions
    from flame.pipeline.measure import MeasureSettings
    from flame.pipeline.runners import here
    from flame.pipeline.scene_work import Job

    (tmp_path / "out").mkdir()
    settings = MeasureSettings()
    job = Job(tmp_path / "out", Detectors(model), OpenOptions(), settings, settings.key())
    batch = Batch([_chip(tmp_path / "x.npz")], replace(job, software="flame 0.0"), lambda _: None)
    batch.run(here)
    assert "flame 0.0 asks" in batch.outcomes()[0].failure
